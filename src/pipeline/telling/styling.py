"""The pages for developers: their templates and style sheet, and the policy that allows that and nothing else."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from time import localtime, strftime
from typing import Any

from pipeline.http.content_policy import page_policy

try:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
except ImportError:
    HAS_TEMPLATES = False
else:
    HAS_TEMPLATES = True
"""False without Jinja2: then there are texts in place of pages."""

TEMPLATES = Path(__file__).with_name("templates")


@lru_cache(maxsize=1)
def style() -> str:
    """Return the style sheet, which stands in each page: ``<style>``, a new line, the sheet, ``</style>``."""
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def policy() -> tuple[str, str]:
    """Return the header Content-Security-Policy: the style sheet by its hash, forms to this site, no more."""
    return page_policy(f"\n{style()}", form_action="'self'")


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the templates."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"ms": milliseconds, "percent": percent}
    made.filters["clock"] = lambda when: strftime("%H:%M:%S", localtime(when))
    made.globals["style"] = style()
    return made


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds."""
    taken = seconds * 1_000
    return f"{taken:.0f}" if taken >= 100 else f"{taken:.1f}" if taken >= 10 else f"{taken:.2f}"


def percent(seconds: float, record: Any) -> float:
    """Return a time in percent of that of the whole request."""
    return round(min(100.0, max(0.0, seconds / (record.seconds or 1e-9) * 100)), 2)
