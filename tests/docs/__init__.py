"""Tests of the pages of docs/."""
