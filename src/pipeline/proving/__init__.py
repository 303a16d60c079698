"""Prove a site: every view, with every failure at every point, on copies of its databases.

``prove`` is the command ``pipeline prove``, the fixture ``prove`` of ``pipeline.testing.plugin`` and a function.
"""
