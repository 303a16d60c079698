"""Templates that several targets use."""
