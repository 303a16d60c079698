"""The packages that an ini needs and that are missing: all of them, where loading stops at the first."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from pipeline.ini import sections_of
from pipeline.telling.errors import in_one_line
from pipeline.telling.findings import Finding


def of_packages(path: Path) -> Iterator[Finding]:
    """Yield the packages that are not installed, and the modules that are missing for what a section uses."""
    for section, (line, keys) in sections_of(str(path)).items():
        number, value = keys.get("use", (line, None))
        scheme, _, used = (value or "").strip().partition(":")
        package, _, name = used.partition("#")
        if scheme != "egg" or section.startswith("server:"):
            continue
        where = f"{path}, section [{section}], line {number}"
        try:
            for point in distribution(package).entry_points:
                if point.name == (name or "main") and point.group.startswith("paste."):
                    point.load()
        except PackageNotFoundError:
            yield Finding("error", where, f"the package {package!r} is not installed", f"pip install {package}")
        except ModuleNotFoundError as error:
            yield Finding("error", where, in_one_line(error), "")
        except Exception:  # loading the section says it
            continue
