"""Run the tests of grok, grokcore.* and zope.app.*, out of their own packages.

Where PIPELINE_ZTK is 1, ``zope.app.wsgi.WSGIPublisherApplication`` is replaced by ours, and nothing else. It is an
environment variable, since layers that cannot be torn down run in a subprocess of this script.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import grok
import zope.app.wsgi
import zope.app.wsgi.testlayer
from zope.testrunner import run

PACKAGES = (
    "grok",
    *("grokcore.catalog", "grokcore.chameleon", "grokcore.formlib", "grokcore.json", "grokcore.layout"),
    *("grokcore.message", "grokcore.rest", "grokcore.site", "grokcore.traverser", "grokcore.view"),
    *("grokcore.viewlet", "grokcore.xmlrpc", "zope.app.publication", "zope.app.wsgi"),
)

if os.environ.get("PIPELINE_ZTK") == "1":
    from pipeline.ztk import WSGIPublisherApplication

    WSGIPublisherApplication.__module__ = "zope.app.wsgi"  # two doctests print the name in full
    zope.app.wsgi.WSGIPublisherApplication = WSGIPublisherApplication
    zope.app.wsgi.testlayer.WSGIPublisherApplication = WSGIPublisherApplication

if __name__ == "__main__":
    site_packages = str(Path(grok.__file__).parent.parent)
    packages = [word for package in PACKAGES for word in ("-s", package)]
    run(["--test-path", site_packages, *packages], [os.path.abspath(sys.argv[0]), *sys.argv[1:]])
