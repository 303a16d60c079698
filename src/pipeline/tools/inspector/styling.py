"""The style sheet of the pages for developers, and the policy that allows it and nothing else."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import lru_cache
from pathlib import Path

TEMPLATES = Path(__file__).with_name("templates")


@lru_cache(maxsize=1)
def style() -> str:
    """Return the style sheet, which stands in each page: ``<style>``, a new line, the sheet, ``</style>``."""
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def policy() -> str:
    """Return the Content-Security-Policy: the style sheet by its hash, forms to this site, and nothing else."""
    digest = b64encode(hashlib.sha256(f"\n{style()}".encode()).digest()).decode()
    rest = "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    return f"default-src 'none'; style-src 'sha256-{digest}'; {rest}"
