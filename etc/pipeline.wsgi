"""The site of deploy.ini, which lies beside this script, for mod_wsgi and every other WSGI server.

A pipeline that is not complete is refused here, before the first request. Two variables in the environment of the
process may say more; where it cannot be set, as under mod_wsgi, write `os.environ["PIPELINE_SITE"] = "/sites/example"`
below the imports:

PIPELINE_VAR   the data directory; without it, it is `var` of the checkout
PIPELINE_SITE  the folder of the database that is the whole site for visitors, whose `/` is then its `/sites/example`;
               without it, it is the root
"""

import os
from pathlib import Path

from pipeline.loading.site import application_of

INI = Path(__file__).resolve().parent / "deploy.ini"

var = os.environ.get("PIPELINE_VAR")
options = {}
if var:
    options["zodb_uri"] = f"file://{var}/Data.fs?blobstorage_dir={var}/blobs"
    options["session_keys"] = f"{var}/session_keys"
if top := os.environ.get("PIPELINE_SITE"):
    options["sites"] = f"* = {top}"
application = application_of(str(INI), **options)
