"""uWSGI: processes with threads, by HTTP, or behind nginx by its own protocol."""

from __future__ import annotations

import shlex
import sys

from pipeline.deploying.site import Deployment, Site, need_program

CONFIGURATION = """\
; uWSGI for {site.ini}. Written by `pipeline deploy uwsgi`.
[uwsgi]
; An option that is misspelt ends the start.
strict = true
master = true
{bind}
; The directory of wsgi.py.
chdir = {site.directory}
pythonpath = {site.directory}
; The environment with the site: uWSGI has an interpreter of its own.
virtualenv = {prefix}
{mount}
; A site that does not load is not served.
need-app = true
; Each worker loads the site itself: uWSGI does not tell Python of its forks, and workers would share connections
; to a database (R12).
lazy-apps = true
; Processes; one if the database is a file.
processes = {site.workers}
; Threads of each process, with Python's own in the site.
threads = {site.threads}
enable-threads = true
; SIGTERM stops and lets requests finish; by default it reloads, and a stop cuts answers.
hook-master-start = unix_signal:15 gracefully_kill_them_all
; Seconds that requests have to finish on SIGTERM and SIGHUP.
reload-mercy = 30
worker-reload-mercy = 30
; A body that the site does not read is read all the same: else the client is cut off and sees no answer.
post-buffering = 65536
; Bytes of a body: the limit of the elements, and a little more, so that the site's page says 413.
limit-post = {site.max_body}
; Bytes of a request line and its headers.
buffer-size = 32768
; Connections that wait for a worker; what is more is refused.
listen = {listen}
; The site writes the access log.
disable-logging = true
; A client that leaves is not an error.
ignore-sigpipe = true
ignore-write-errors = true
disable-write-exception = true
vacuum = true
pidfile = {site.directory}/run/uwsgi.pid
{clean}"""


LOOKS_COMPLETE = "A stream that fails looks complete to the client: uWSGI's protocol has no word for a failure."

BY_HTTP = """\

from pipeline.serving.by_uwsgi import by_http

application = by_http(application)
"""


def write(site: Site) -> Deployment:
    """Write a configuration file and the script of the site."""
    program = need_program("uwsgi", "pip install uwsgi")
    if site.behind_proxy:
        bind = (
            "; nginx speaks uWSGI's protocol here. The socket is for the group of run/, which is that of nginx:\n"
            f"; the site believes each peer on it.\nsocket = {site.socket}\nchmod-socket = 660"
        )
    else:
        bind = (
            "; HTTP, without the router, where a reload fails requests. It may still cut what a client reads\n"
            f"; slowly: put nginx in front (pipeline deploy nginx --behind uwsgi).\nhttp-socket = {site.address}"
        )
    mount = "module = wsgi:application"
    if site.prefix:
        mount = f"; The path of the site on the server.\nmount = {site.prefix}=wsgi.py\nmanage-script-name = true"
    clean = f"; What a killed process has left.\nexec-asap = rm -f -- {shlex.join(site.leftovers)}\n"
    configuration = CONFIGURATION.format(
        site=site,
        bind=bind,
        prefix=sys.prefix,
        mount=mount,
        listen=listen_queue(),
        clean=clean if site.leftovers else "",
    )
    name = f"{site.directory}/uwsgi.ini"
    pid = f"{site.directory}/run/uwsgi.pid"
    script = site.script if site.behind_proxy else {**site.script, "wsgi.py": site.script["wsgi.py"] + BY_HTTP}
    return Deployment(
        {**script, "uwsgi.ini": configuration},
        start=[f"{program} {name}"],
        stop=[f"kill -TERM $(cat {pid})"],
        reload=[f"{site.python} {site.directory}/wsgi.py && kill -HUP $(cat {pid})"],
        syntax=[],
        notes=[LOOKS_COMPLETE] if site.behind_proxy else [],
    )


def listen_queue() -> int:
    """Return how many connections may wait: as many as the kernel allows, up to 1024."""
    try:
        with open("/proc/sys/net/core/somaxconn") as file:
            return min(1024, int(file.read()))
    except OSError:
        return 100
