"""``python -m pipeline`` is the command ``pipeline``."""

from __future__ import annotations

import sys

from pipeline.tools.command import main

if __name__ == "__main__":
    sys.exit(main())
