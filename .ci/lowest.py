"""Print the lowest versions that setup.py allows of what users install, as constraints for pip."""

import re
from importlib.metadata import requires

FOR_TESTS = re.compile(r"extra == .(test|docs|lint|fuzz|servers|ztk|ztk-test|zope|zope-test|release).$")


def installed() -> list[str]:
    """Return the requirements of what users install, without those of tests and tools."""
    return [one for one in requires("wsgi-pipeline") or () if not FOR_TESTS.search(one)]


if __name__ == "__main__":
    for requirement in installed():
        if found := re.match(r"([\w.-]+)(?:\[.*?\])?.*?>=([\w.]+)", requirement.partition(";")[0]):
            print("==".join(found.groups()))
