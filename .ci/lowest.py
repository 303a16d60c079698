"""Print the lowest versions that setup.py allows of what users install, as constraints for pip."""

import re
from importlib.metadata import requires

FOR_TESTS = re.compile(r"extra == .(test|docs|lint|fuzz|servers|ztk|ztk-test|release).$")

for requirement in requires("wsgi-pipeline") or ():
    found = re.match(r"([\w.-]+)(?:\[.*?\])?.*?>=([\w.]+)", requirement.partition(";")[0])
    if found and not FOR_TESTS.search(requirement):
        print("==".join(found.groups()))
