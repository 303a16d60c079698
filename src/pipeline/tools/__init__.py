"""The command ``pipeline``, and what it can do that needs a module of its own."""
