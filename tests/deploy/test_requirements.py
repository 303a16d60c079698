"""The core runs on what it installs, which is WebOb, zope.interface, PasteDeploy and waitress."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = '''\
import sys
from importlib.metadata import packages_distributions

CORE = {"legacy-cgi", "pastedeploy", "waitress", "webob", "wsgi-pipeline", "zope.interface"}
ABSENT = {
    name
    for name, distributions in packages_distributions().items()
    if not CORE & {distribution.lower() for distribution in distributions}
}


class Absent:
    """What the core does not install is not there."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        top, _, rest = name.partition(".")
        if top in ABSENT or top == "zope" and rest and not rest.startswith("interface"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent)

import webob
from pipeline import Pipeline, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.log import log
from pipeline.elements.retry import retry
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.paste import load
from pipeline.publisher import publisher


@view(name="hello")
def hello(context, request):
    return "Hello"


site = Pipeline(
    log(),
    vhost(),
    retry(),
    errors(),
    authenticate(check=lambda request, login, password: None),
    traverse(root=lambda request: {}),
    publisher(scan=(__name__,)),
)
print(webob.Request.blank("/hello").get_response(site).text)
'''


def test_the_core_needs_nothing_else() -> None:
    answer = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert answer.stdout == "Hello\n", answer.stdout + answer.stderr
