"""``pipeline openapi INI [name=value ...]``: the views of an ini as a document of OpenAPI 3.1."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pipeline.loading.building import build
from pipeline.loading.command_line import options_of, parser_of
from pipeline.options import resolve
from pipeline.publishing.openapi import defaults_in, describe, root_class, written
from pipeline.telling.errors import refusal


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = options_of(parser_of("openapi"), arguments)
    built = build(options.ini, options.variables)
    publishers = list(built.views())
    if len(publishers) != 1:
        raise refusal("several publishers", ini=options.ini, count=len(publishers))
    found = (root for chain in built.chains for root in defaults_in(chain.steps))
    roots = [resolve(options.root)] if options.root else list(found)
    if not roots:
        raise refusal("no root")
    made = describe(publishers[0][1], root_class(roots[-1]), options.title)
    print(written(made.document).decode())
    for line in made.left_out:
        print(f"pipeline openapi: {line}", file=sys.stderr)
    return 0
