"""Serve the compared site on waitress: ``python serve.py PORT ZEO_PORT``."""

from __future__ import annotations

import logging
import sys

import waitress
from ZEO.ClientStorage import ClientStorage

from pipeline.ztk import WSGIPublisherApplication
from ztk.compared_site import make_db

if __name__ == "__main__":
    logging.disable(logging.ERROR)
    port, zeo = map(int, sys.argv[1:3])
    storage = ClientStorage(("127.0.0.1", zeo), wait_timeout=5)
    application = WSGIPublisherApplication(make_db(storage))
    waitress.serve(application, listen=f"127.0.0.1:{port}", threads=4)
