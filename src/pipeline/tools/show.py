"""``pipeline show INI [name=value ...]``: the pipelines of an ini, with what holds each element where it is."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from pipeline.loading.command_line import options_of, parser_of, plan_of
from pipeline.telling.descriptions import described
from pipeline.telling.findings import put_json
from pipeline.telling.words import bold

LONGEST = 116
"""Characters of a line."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = options_of(parser_of("show"), arguments)
    chains = plan_of(options.ini, options.variables, has_order=True)
    told = [described(chain) for chain in chains]
    if options.json:
        put_json(told)
    else:
        for one in told:
            put_chain(one, options.long)
    return 0


def put_chain(chain: dict[str, Any], long: bool) -> None:
    """Print a pipeline, outermost first, with a line for each part; or with all that is known of it."""
    if chain["condition"]:
        print(f"[{chain['condition']}]")
    width = max(len(part["name"]) for part in chain["parts"])
    for part in chain["parts"]:
        what = part["what"] if long else textwrap.shorten(part["what"], LONGEST - width - 2, placeholder="...")
        print(f"{bold(part['name'])}{'':{width - len(part['name'])}}  {what}")
        if not long:
            continue
        for option, value in part["options"].items():
            print(f"{'':{width}}    {option} = {value}")
        for title in ("requires", "provides"):
            if part.get(title):
                print(f"{'':{width}}    {title}: {', '.join(part[title])}")
        if part.get("request class"):
            print(f"{'':{width}}    request class: {part['request class']}")
        for one in part.get("adds", ()):
            default = f" = {one['default']}" if one["default"] else ""
            _put(width, "adds: ", f"request.{one['name']}: {one['type']}{default}", one["meaning"])
        for fact in part["facts"]:
            _put(width, "", fact, "")
        for rule in part.get("held", ()):
            _put(width, "stands ", rule, "")
    if long or chain["condition"]:
        print()


def _put(width: int, title: str, text: str, meaning: str) -> None:
    indent = " " * (width + 4)
    line = f"{title}{text}{'. ' + meaning if meaning else ''}"
    print(textwrap.fill(line, LONGEST, initial_indent=indent, subsequent_indent=indent + "    "))
