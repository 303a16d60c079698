"""Apache with mod_python, for a server that has it: the site runs in Apache's own processes."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from pipeline.deploying.apache import COMMON, MODULES, MPM, SERVER, need_readable_by_apache, user_lines
from pipeline.deploying.site import VARIABLES, Deployment, Site, need_program
from pipeline.interfaces import ConfigurationError

MODULE = "mod_python.so"
REMEDY = "apt install apache2 libapache2-mod-python"

LOCATION = """\
PythonPath "['{site.directory}'] + sys.path"
# Each process loads the site when it starts: two first requests at once would fail.
PythonImport mod_python_site main_interpreter
<Location "{mount}">
    SetHandler mod_python
    PythonHandler mod_python_site
    # Packages in C, such as persistent, know the main interpreter only.
    PythonInterpreter main_interpreter
    PythonAutoReload Off
    PythonDebug Off
</Location>
"""

HANDLER = '''\
"""The site of {ini}, for mod_python: the function `handler`. Written by `pipeline deploy mod_python`."""

import site
import sys

# The environment with the site comes before the packages of the system.
of_the_system = list(sys.path)
site.addsitedir({packages!r})
sys.path.sort(key=of_the_system.__contains__)

from wsgi import application

from pipeline.serving.mod_python import handler_of

handler = handler_of(application, {prefix!r})
'''


def write(site: Site) -> Deployment:
    """Write Apache with mod_python."""
    module = mod_python()
    need_readable_by_apache(site)
    threads = max(site.threads, 25)
    server = SERVER.format(
        site=site,
        target="mod_python",
        modules=MODULES,
        module=f'python_module "{module}"',
        mpm=MPM.format(site=site, threads=threads, all=site.workers * threads),
        user=user_lines(site.user),
        tls="",
        hosts="",
    )
    handler = HANDLER.format(ini=site.ini, packages=sysconfig.get_path("purelib"), prefix=site.prefix)
    program = need_program("apache2", REMEDY)
    call = f"{program} -d {site.directory} -f {site.directory}/apache.conf"
    return Deployment(
        {
            "apache.conf": server,
            "site.conf": COMMON.format(site=site) + LOCATION.format(site=site, mount=site.prefix or "/"),
            "mod_python_site.py": handler,
            **site.script,
        },
        start=[f"{call} -DFOREGROUND"],
        stop=[f"{call} -k graceful-stop"],
        reload=[f"{site.python} {site.directory}/wsgi.py && {call} -k graceful"],
        syntax=[*call.split(), "-t"],
        notes=[
            "The log of errors is log/error.log. A header that is not UTF-8 does not reach the site, and a body in "
            "chunks is answered 411 by Apache.",
            f"If root starts it, the user {site.user} needs to write to: {', '.join(site.writable) or 'nothing'}"
            + (f", and to read {site.directory}/{VARIABLES}" if site.variables else ""),
        ],
        user=site.user,
    )


def mod_python() -> Path:
    """Return the module of the system; ConfigurationError if there is none, or this is another Python."""
    module = MODULES / MODULE
    if not module.exists():
        raise ConfigurationError(f"{module} is missing: {REMEDY}")
    if Path(sys.base_prefix) != Path("/usr"):
        raise ConfigurationError(
            f"{module} is built for /usr/bin/python3, and {sys.prefix} is an environment of the Python in "
            f"{sys.base_prefix}: make one with /usr/bin/python3 -m venv, install the site in it and run its own "
            f"pipeline"
        )
    return module
