"""Run the tests of packages that are installed: ``run_suites.py -s ZPublisher -s OFS``.

Where PIPELINE_ZOPE is 1, ``ZPublisher.WSGIPublisher.publish_module`` is replaced by ours, and nothing else. It is a
variable of the environment, since layers that cannot be torn down run in a subprocess of this script.
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from typing import Any

import ZPublisher.WSGIPublisher
from zope.testrunner import run

if os.environ.get("PIPELINE_ZOPE") == "1":
    from pipeline import zope

    asked: list[Any] = []

    def publish_module(environ: Any, start_response: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(environ.get("PATH_INFO"))
        return zope.publish_module(environ, start_response, *arguments, **options)

    ZPublisher.WSGIPublisher.publish_module = publish_module
    atexit.register(lambda: print(f"The pipeline has answered {len(asked)} requests."))


if __name__ == "__main__":
    site_packages = str(Path(ZPublisher.__file__).parent.parent)
    run(["--test-path", site_packages], [os.path.abspath(sys.argv[0]), *sys.argv[1:]])
