"""Apache with mod_wsgi: in daemon processes, or embedded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from pipeline.deploying import tls
from pipeline.deploying.site import VARIABLES, Deployment, Site, getpwnam, need_program, need_readable
from pipeline.interfaces import ConfigurationError

MODULES = Path("/usr/lib/apache2/modules")
REMEDY = "apt install apache2 libapache2-mod-wsgi-py3"

SERVER = """\
# Apache for {site.ini}, run by itself on a high port and without root. Written by `pipeline deploy {target}`.
# In the Apache of the system, include site.conf in a <VirtualHost> instead.
ServerRoot "{site.directory}"
DefaultRuntimeDir run
PidFile run/apache.pid
ErrorLog log/error.log
ServerName {site.host}
Listen {site.address}
{tls}{user}LoadModule mpm_event_module "{modules}/mod_mpm_event.so"
LoadModule authz_core_module "{modules}/mod_authz_core.so"
LoadModule alias_module "{modules}/mod_alias.so"
LoadModule reqtimeout_module "{modules}/mod_reqtimeout.so"
LoadModule {module}
{mpm}ServerTokens Prod
# The name and port that the visitor used, in redirects as well.
UseCanonicalName Off
# A client that sends its headers or its body too slowly is dismissed: seconds, and bytes per second.
RequestReadTimeout header=10-20,MinRate=500 body=20,MinRate=500
# Seconds without a byte from, or to, a client.
Timeout 60
KeepAliveTimeout 5
# Seconds that requests have to finish when Apache stops; without it, one that does not end keeps Apache up.
GracefulShutdownTimeout 30
Include site.conf
{hosts}"""

COMMON = """\
# A %2F stays one: the site tells a slash in a name from a slash between names.
AllowEncodedSlashes NoDecode
# Bytes of a body: the limit of the elements, and a little more, so that the site's page says 413.
LimitRequestBody {site.max_body}
# Bytes of a header: eight cookies that are as large as browsers keep them.
LimitRequestFieldSize 32768
"""

WSGI = """\
# The logins of HTTP basic are the site's.
WSGIPassAuthorization On
# Bodies without Content-Length.
WSGIChunkedRequest On
WSGIScriptAlias {mount} "{site.directory}/wsgi.py"{process}
<Directory "{site.directory}">
    Require all granted
</Directory>
"""

DAEMON = """\
# Where the daemon processes listen; they are this site's alone.
WSGISocketPrefix "{site.directory}/run/wsgi"
# Processes (one if the database is a file) with threads; the environment with the site; file names in UTF-8.
# A reload lets requests finish for 30 s. A request waits 45 s for a thread, and a client may be silent for 60 s.
WSGIDaemonProcess {name} processes={site.workers} threads={site.threads} python-home={prefix} \\
    lang=C.UTF-8 locale=C.UTF-8 graceful-timeout=30 shutdown-timeout=30 queue-timeout=45 socket-timeout=60
# The processes of Apache itself need no Python.
WSGIRestrictEmbedded On
"""

EMBEDDED = """\
# The environment with the site.
WSGIPythonHome "{prefix}"
# mod_wsgi ends a stream that fails without its last chunk, and Apache keeps the connection: the client would wait
# for KeepAliveTimeout. So an answer without a length ends its connection, and the client sees the failure at once.
# In the Apache of the system: a2enmod headers.
Header set Connection close "expr=-z resp('Content-Length') && %{{REQUEST_STATUS}} == 200"
"""

HEADERS = """\
LoadModule headers_module "{modules}/mod_headers.so"
"""

MPM = """\
# The processes of Apache serve the site: their number is fixed, since each loads it; one if the database is a file.
StartServers {site.workers}
ServerLimit {site.workers}
ThreadsPerChild {threads}
ThreadLimit {threads}
MaxRequestWorkers {all}
MaxConnectionsPerChild 0
"""


def write(site: Site) -> Deployment:
    """Write Apache with mod_wsgi."""
    module = mod_wsgi()
    need_readable_by_apache(site)
    mpm = process = ""
    text = COMMON.format(site=site)
    if site.embedded:
        text += EMBEDDED.format(prefix=sys.prefix)
        mpm = MPM.format(site=site, threads=max(site.threads, 25), all=site.workers * max(site.threads, 25))
        process = " application-group=%{GLOBAL}"
    else:
        name = f"site-{site.port}"
        text += DAEMON.format(site=site, name=name, prefix=sys.prefix)
        process = f" process-group={name} application-group=%{{GLOBAL}}"
    text += WSGI.format(site=site, mount=site.prefix or "/", process=process)
    program = need_program("apache2", REMEDY)
    more, hosts = tls.apache_hosts(site, MODULES)
    if site.embedded and not site.tls:  # which loads it too
        more += HEADERS.format(modules=MODULES)
    server = SERVER.format(
        site=site,
        target="apache",
        modules=MODULES,
        module=f'wsgi_module "{module}"',
        mpm=mpm,
        user=user_lines(site.user),
        tls=more,
        hosts=hosts,
    )
    call = f"{program} -d {site.directory} -f {site.directory}/apache.conf"
    reload = f"{call} -k graceful" if site.embedded else f"touch {site.directory}/wsgi.py"
    return Deployment(
        {
            "apache.conf": server,
            "site.conf": text,
            **({"tls.conf": tls.filled(tls.APACHE, site)} if site.tls else {}),
            **site.script,
        },
        start=[f"{call} -DFOREGROUND"],
        stop=[f"{call} -k graceful-stop"],
        reload=[f"{site.python} {site.directory}/wsgi.py && {reload}"],
        syntax=[*call.split(), "-t"],
        notes=[
            "The log of errors is log/error.log.",
            f"If root starts it, the user {site.user} needs to write to: {', '.join(site.writable) or 'nothing'}"
            + (f", and to read {site.directory}/{VARIABLES}" if site.variables else ""),
            *tls.notes_on_tls(site, f"{call} -k graceful"),
        ],
        user=site.user,
    )


def user_lines(name: str) -> str:
    """Return the lines that say who runs the processes; none if this machine does not know the user."""
    try:
        group = getpwnam(name).pw_gid
    except KeyError:
        return ""
    reason = "Who runs the processes if root starts Apache; without it, none of them would start."
    return f"# {reason}\nUser {name}\nGroup #{group}\n"


def need_readable_by_apache(site: Site) -> None:
    """Refuse what Apache's own user could not read, if root starts it."""
    if os.geteuid() == 0:
        for path in (sys.prefix, sys.base_prefix, site.ini.partition("#")[0]):
            need_readable(path, "Apache's user www-data")


def mod_wsgi() -> Path:
    """Return the module for this Python; ConfigurationError if there is none, or one for another Python.

    That of the system, and else the one that pip has built.
    """
    module = MODULES / "mod_wsgi.so"
    built_by_pip = find_spec("mod_wsgi") is not None
    if not module.exists() and not built_by_pip:
        raise ConfigurationError(f"{module} is missing: {REMEDY}")
    found = re.search(r"-(\d+\.\d+)$", str(module.resolve()))
    built = found[1] if found else "an unknown version"
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    if built == mine and Path(sys.base_prefix) == Path("/usr"):
        return module
    if not built_by_pip:
        raise ConfigurationError(
            f"{module} is built for Python {built} of /usr/bin/python3, and {sys.prefix} is an environment of "
            f"Python {mine} in {sys.base_prefix}: make one with /usr/bin/python3 -m venv, install the site in it "
            f"and run its own pipeline; or pip install mod_wsgi here, which builds the module for this Python"
        )
    command = [need_program("mod_wsgi-express", "pip install mod_wsgi"), "module-location"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
