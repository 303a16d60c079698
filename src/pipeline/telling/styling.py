"""The style sheet of the pages for developers, and the policy that allows it and nothing else."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pipeline.http.content_policy import page_policy

TEMPLATES = Path(__file__).with_name("templates")


@lru_cache(maxsize=1)
def style() -> str:
    """Return the style sheet, which stands in each page: ``<style>``, a new line, the sheet, ``</style>``."""
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def policy() -> tuple[str, str]:
    """Return the header Content-Security-Policy: the style sheet by its hash, forms to this site, no more."""
    return page_policy(f"\n{style()}", form_action="'self'")
