"""The command ``pipeline``, a file for each of its commands."""
