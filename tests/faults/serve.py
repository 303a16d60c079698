"""``python -m faults.serve site.ini``: what ``paster serve`` does, with less to import."""

from __future__ import annotations

import logging.config
import sys
from pathlib import Path

from paste.deploy import loadserver

from pipeline.paste import load


def main(ini: str) -> None:
    logging.config.fileConfig(ini, {"here": str(Path(ini).parent)}, disable_existing_loggers=False)
    app = load(f"config:{ini}")
    loadserver(f"config:{ini}")(app)


if __name__ == "__main__":
    main(sys.argv[1])
