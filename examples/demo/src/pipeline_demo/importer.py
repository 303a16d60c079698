"""``pipeline demo-import DIR``: import a directory into the site, one transaction per file.

A file is imported completely, or named with the reason why not, also if the command is interrupted. The same
command continues after an interruption: files that are imported and unchanged are skipped. The exit status is 1 if
a file was refused, and 130 after an interruption.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline_demo.filing import MAX_FILE, Found, NotImported, Outcome, file_into, find, printable
from pipeline_demo.models import Folder
from pipeline_demo.names import BadText, clean_name
from pipeline_demo.site import DEFAULT_URI, Unreachable, connected, root

OUTCOMES: dict[Outcome | str, str] = {
    "new": "imported",
    "updated": "updated",
    "unchanged": "unchanged since the last import",
    "hidden": "hidden, passed over",
    "failed": "not imported",
}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    top = Path(arguments.directory)
    if not top.is_dir():
        print(f"pipeline demo-import: {printable(str(top))} is not a directory", file=sys.stderr)
        return 2
    try:
        way = tuple(clean_name(name) for name in arguments.into.split("/") if name)
    except BadText as error:
        print(f"pipeline demo-import: --into {printable(arguments.into)}: {error}", file=sys.stderr)
        return 2
    try:
        with connected(arguments.zodb) as connection:
            return _import(connection, top, way, arguments.max_size * 1024 * 1024, arguments.force)
    except Unreachable as error:
        print(f"pipeline demo-import: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pipeline demo-import",
        description="Import a directory of Markdown, reStructuredText, HTML, text, images and other files "
        "into the site. The server must be stopped, unless the database is one that several processes share.",
    )
    parser.add_argument("directory", metavar="DIR", help="what to import")
    parser.add_argument("--into", default="/", metavar="PATH", help="folder of the site, made if missing")
    parser.add_argument("--zodb", default=DEFAULT_URI, metavar="URI", help="the database (default: %(default)s)")
    parser.add_argument(
        "--max-size",
        type=int,
        default=MAX_FILE // 1024 // 1024,
        metavar="MIB",
        help="largest file that is taken, in MiB (default: %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite also what was changed on the site since")
    return parser


def _import(connection: Any, top: Path, way: tuple[str, ...], max_file: int, force: bool) -> int:
    from tqdm import tqdm  # takes 4 ms and a MiB, which a site that only scans this module need not pay

    counts: Counter[str] = Counter()
    interrupted = False
    everything = list(find(top))
    bar = tqdm(everything, unit="file", desc="Importing", disable=not sys.stderr.isatty(), leave=False)
    try:
        for found in bar:
            try:
                counts[_import_one(connection, found, way, max_file, force)] += 1
            except NotImported as refused:
                counts["failed"] += 1
                bar.write(f"pipeline demo-import: {printable(str(found.path))}: {refused}", file=sys.stderr)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        bar.close()
    for outcome, words in OUTCOMES.items():
        print(f"{counts[outcome]:8,}  {words}")
    print(f"{counts.total():8,}  of {len(everything):,} in {printable(str(top))}")
    if interrupted:
        print("pipeline demo-import: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 1 if counts["failed"] else 0


def _import_one(connection: Any, found: Found, way: tuple[str, ...], max_file: int, force: bool) -> Outcome:
    """Import one file in a transaction of its own. Try again if another process wrote at the same time."""
    outcome: Outcome = "unchanged"
    for attempt in connection.transaction_manager.attempts(5):
        with attempt:
            site: Folder = root(connection.root())
            outcome = file_into(site, found.below(*way), max_file, force)
            connection.transaction_manager.get().note(f"demo-import {found.path.name}")
    connection.cacheGC()
    return outcome


if __name__ == "__main__":
    sys.exit(main())
