"""Content-Security-Policy: the header by which a page names what a browser may load and run for it.

A policy is a mapping of directives to their sources, in their order. The pages of this package name their style
sheets by the hashes of their text, so that nothing else in the page is a style or a script.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256

NAME = "Content-Security-Policy"
REPORT_ONLY = "Content-Security-Policy-Report-Only"
NONE = "'none'"


def hash_of(text: str) -> str:
    """Return the source that allows a script or a style sheet in the page with exactly this text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def page_policy(*sheets: str, form_action: str = NONE) -> tuple[str, str]:
    """Return the header of a page of ours: these style sheets, which stand in the page, and nothing else."""
    style = " ".join(map(hash_of, sheets)) or NONE
    rest = f"form-action {form_action}; base-uri 'none'; frame-ancestors 'none'"
    return NAME, f"default-src 'none'; style-src {style}; {rest}"


def written(policy: Mapping[str, str]) -> str:
    """Return the value of the header for a policy."""
    return "; ".join(f"{directive} {sources}".strip() for directive, sources in policy.items())


def with_sources(value: str, directives: Iterable[str], sources: str) -> str:
    """Return the value of a header in which further sources are allowed for some directives.

    A directive that the policy does not have begins with the sources that browsers use in its place. If there are
    none, it allows everything already, and stays away.
    """
    parts = (part.strip().partition(" ") for part in value.split(";"))
    policy = {name.lower(): words.strip() for name, _, words in parts if name}
    for name in directives:
        for usual in (name, re.sub("-(elem|attr)$", "", name), "default-src" if "-src" in name else name):
            if usual in policy:
                policy[name] = joined((policy[usual], sources))
                break
    return written(policy)


def joined(sources: Iterable[str]) -> str:
    """Return lists of sources as one. ``'none'`` stands alone, or not at all."""
    words = dict.fromkeys(word for text in sources for word in text.split())
    return " ".join(word for word in words if word != NONE) or NONE
