"""A wiki made with Grok."""
