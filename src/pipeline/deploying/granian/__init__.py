"""Granian.

It drains, and reloads without loss on a UNIX socket, behind a proxy.
"""

PROGRAM = ("granian", "pip install 'wsgi-pipeline[granian]'", "granian")
