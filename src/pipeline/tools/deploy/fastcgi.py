"""FastCGI: the script that lighttpd and Apache's mod_fcgid start, by flup."""

from __future__ import annotations

from pipeline.tools.deploy.site import Site, need_module

SCRIPT = '''\
#!{site.python}
"""The site of {site.ini} as a FastCGI program, which the web server starts. Written by `pipeline deploy`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from flup.server.fcgi import WSGIServer
from wsgi import application

# The web server passes the listening socket as file 0. Errors are answered by the pipeline, not by flup's own page.
WSGIServer(application, maxThreads={site.threads}, maxSpare={site.threads}, debug=False).run()
'''


def script(site: Site) -> str:
    """Return the program."""
    need_module("flup", "pip install flup")
    return SCRIPT.format(site=site)
