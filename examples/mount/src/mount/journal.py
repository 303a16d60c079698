"""The journal of the site: a list in the ZODB, in which all applications write."""

from collections.abc import Mapping
from typing import Any

from persistent.list import PersistentList

from pipeline.mounting import request_of


def journal(environ: Mapping[str, Any]) -> PersistentList:
    """Return the journal. It belongs to the transaction of the request."""
    root = request_of(environ).root
    if "journal" not in root:
        root["journal"] = PersistentList()
    return root["journal"]
