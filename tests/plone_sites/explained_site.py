"""Explain requests to a Plone site in its own process: ``explained_site.py INI``, a list in JSON for a list."""

from __future__ import annotations

import json
import sys

from pipeline.loading.asking import request_of
from pipeline.tools.explain import as_dict, explain


def main(ini: str) -> None:
    """Explain each request of the standard input: method, path, headers."""
    asked = json.load(sys.stdin)
    found = [as_dict(explain(ini, request_of(method, path, headers, ()), [])) for method, path, *headers in asked]
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
