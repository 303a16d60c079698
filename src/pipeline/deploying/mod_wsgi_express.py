"""mod_wsgi-express: an Apache that comes with pip."""

from __future__ import annotations

from pipeline.deploying.apache import need_readable_by_apache
from pipeline.deploying.site import Deployment, Site, need_program

SCRIPT = """\
#!/bin/sh
# mod_wsgi-express for {site.ini}. Written by `pipeline deploy mod_wsgi-express`.
set -eu
mkdir -p {site.directory}/run/express
set -- --application-type module --entry-point wsgi
# The directory of wsgi.py.
set -- "$@" --working-directory {site.directory} --python-path {site.directory}
set -- "$@" --host {site.host} --port {site.port}
# Any Host: the site says which are served.
set -- "$@" --allow-localhost
set -- "$@" --mount-point {mount}
# Processes (one if the database is a file) with threads.
set -- "$@" --processes {site.workers} --threads {site.threads}
# Bytes of a body: the limit of the elements, and a little more, so that the site's page says 413.
set -- "$@" --limit-request-body {site.max_body}
# Bodies without Content-Length.
set -- "$@" --chunked-request
# Seconds, and bytes per second, for slow clients.
set -- "$@" --header-timeout 10 --header-max-timeout 20 --body-timeout 20
# Seconds that requests have to finish; that they wait for a thread; without a byte.
set -- "$@" --graceful-timeout 30 --shutdown-timeout 30 --queue-timeout 45 --socket-timeout 60
# File names in UTF-8.
set -- "$@" --locale C.UTF-8
# The files of Apache, which are written at each start.
set -- "$@" --server-root {site.directory}/run/express --log-to-terminal
# A reload is asked for, and not by a touched file.
set -- "$@" --disable-reloading
set -- "$@" --include-file {site.directory}/express.conf
exec {program} start-server "$@"
"""

EXTRA = """\
# A %2F stays one: the site tells a slash in a name from a slash between names.
AllowEncodedSlashes NoDecode
# The logins of HTTP basic are the site's.
WSGIPassAuthorization On
"""


def write(site: Site) -> Deployment:
    """Write a start script, what it includes and the script of the site."""
    program = need_program("mod_wsgi-express", "apt install apache2-dev, then pip install --no-cache-dir mod_wsgi")
    need_readable_by_apache(site)
    control = f"{site.directory}/run/express/apachectl"
    return Deployment(
        {
            **site.script,
            "express.conf": EXTRA,
            "express.sh": SCRIPT.format(site=site, program=program, mount=site.prefix or "/"),
        },
        start=[f"{site.directory}/express.sh"],
        stop=[f"{control} graceful-stop"],
        reload=[f"{site.python} {site.directory}/wsgi.py && {control} graceful"],
        syntax=["sh", "-n", f"{site.directory}/express.sh"],
    )
