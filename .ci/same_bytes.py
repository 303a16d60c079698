"""Writes an sdist again, so that its bytes depend on its files alone: ``same_bytes.py SDIST DIRECTORY``."""

from __future__ import annotations

import gzip
import os
import sys
import tarfile
from pathlib import Path


def same_bytes(sdist: Path, directory: Path) -> None:
    """Copy an sdist into a directory, with its files in order, of one time, one owner and two modes."""
    time = int(os.environ["SOURCE_DATE_EPOCH"])
    with (
        tarfile.open(sdist) as old,
        (directory / sdist.name).open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.pax_headers = time, {}
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member))


if __name__ == "__main__":
    same_bytes(Path(sys.argv[1]), Path(sys.argv[2]))
