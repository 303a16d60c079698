"""Proving sites, and the bugs that the proof must find."""
