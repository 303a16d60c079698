"""A request that is noted and explained: each part that it passed, each step, each candidate, and the cause."""
