"""Pyramid, Flask and Django's admin inside one pipeline: one log, one virtual host, one transaction."""
