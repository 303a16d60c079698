"""Granian.

It drains, and reloads without loss behind a proxy or with two workers.
"""

PROGRAM = ("granian", "pip install 'wsgi-pipeline[granian]'", "granian")
