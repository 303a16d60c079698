"""Makes ``servers`` importable, and its fixtures known here."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from servers.demo_site import inis, python
from servers.fixtures import gone, mariadb, new_name, postgres, servers_dir, toxiproxy, zeo

__all__ = ["gone", "inis", "mariadb", "new_name", "postgres", "python", "servers_dir", "toxiproxy", "zeo"]
