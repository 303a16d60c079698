"""Hypercorn, with threads."""

PROGRAM = ("python3", "", "json")
