"""The code of the recipes of ``docs/howto``, as a module of its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

HOWTO = Path(__file__).resolve().parents[1] / "docs" / "howto"


def module_of(page: str, caption: str, monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """Return a module with the blocks of a page that have a caption with these words."""
    text = (HOWTO / page).read_text(encoding="utf-8")
    lines: list[str] = []
    for part in re.split(rf":caption: (?:more of )?{re.escape(caption)}", text)[1:]:
        for line in part.partition("\n\n")[2].splitlines():
            if line and not line.startswith("    "):
                break
            lines.append(line[4:])
    assert lines, f"{page} has no block {caption}"
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile("\n".join(lines), str(HOWTO / page), "exec"), vars(module))
    return module
