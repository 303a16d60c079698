"""The site of deploy.ini, which lies beside this script, for mod_wsgi and every other WSGI server.

A pipeline that is not complete is refused here, before the first request. PIPELINE_VAR in the
environment of the process names the data directory; without it, it is `var` of the checkout.
"""

import logging.config
import os
from pathlib import Path

from pipeline.paste import load

INI = Path(__file__).resolve().parent / "deploy.ini"

logging.config.fileConfig(INI, {"here": str(INI.parent)}, disable_existing_loggers=False)
var = os.environ.get("PIPELINE_VAR")
options = {}
if var:
    options["zodb_uri"] = f"file://{var}/Data.fs?blobstorage_dir={var}/blobs"
    options["session_keys"] = f"{var}/session_keys"
application = load(f"config:{INI}", **options)
