"""``prove``: whether a site keeps what it promises, whatever fails."""

from __future__ import annotations

from typing import Any

from pipeline.composition import Pipeline
from pipeline.proving.proof import Proof
from pipeline.proving.report import Report


def prove(app: str | Pipeline, **options: Any) -> Report:
    """Ask a site for every view with every failure at every point, as an outsider, by the links of its pages, by
    several requests one after the other, and again and again. Return what was found.

    app      path of an ini, which may end in ``#name``, or a pipeline
    options  those of ``pipeline.proving.proof.Proof``: ``user``, ``view``, ``corpus``, ``points`` and others

    The databases are copies. ``report.found`` is empty if nothing is wrong.
    """
    proof = Proof(app, **options)
    with proof.loaded():
        proof.faults().attack()
        return (proof if proof.corpus else proof.links().sequences().growth()).report
