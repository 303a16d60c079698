"""The style sheet of the pages for developers, and the policy that allows it and nothing else."""

from __future__ import annotations

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from pipeline.tools.drawing import STYLE

TEMPLATES = Path(__file__).with_name("templates")


@lru_cache(maxsize=1)
def style() -> str:
    """Return the style sheet, which stands in each page: ``<style>``, a new line, the sheet, ``</style>``."""
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def policy() -> str:
    """Return the Content-Security-Policy: the style sheets by their hashes, forms to this site, no more."""
    sheets = (f"\n{style()}", STYLE)
    digests = " ".join(f"'sha256-{b64encode(sha256(sheet.encode()).digest()).decode()}'" for sheet in sheets)
    rest = "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    return f"default-src 'none'; style-src {digests}; {rest}"
