"""Serve the compared site on waitress: ``python serve.py PORT ZEO_PORT [BUG]``, where BUG is one of faults.bugs."""

from __future__ import annotations

import logging
import sys

import waitress
from ZEO.ClientStorage import ClientStorage

from faults import bugs
from pipeline.ztk import WSGIPublisherApplication, application
from ztk.compared_site import make_db

if __name__ == "__main__":
    logging.disable(logging.ERROR)
    port, zeo = map(int, sys.argv[1:3])
    for bug in sys.argv[3:]:
        application.transaction = getattr(bugs, bug)
    storage = ClientStorage(("127.0.0.1", zeo), wait_timeout=5)
    site = WSGIPublisherApplication(make_db(storage))
    waitress.serve(site, listen=f"127.0.0.1:{port}", threads=4)
