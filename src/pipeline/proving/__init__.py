"""Prove a site: every view, with every failure at every point, on copies of its databases.

``prove`` is the command ``pipeline prove``, a function of ``pipeline.testing``, and a fixture of
``pipeline.testing.plugin``. They are one thing, ``pipeline.proving.proof.Proof``. Each judge is a method of it,
and a function ``prove_...`` of a module. That of ``faults`` asks the functions of ``rules`` about each run.
"""
