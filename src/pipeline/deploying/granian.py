"""Granian: the fastest of them. It drains, and reloads without loss behind a proxy or with two workers."""

from __future__ import annotations

import shlex

from pipeline.deploying.site import Deployment, Site, need_module, need_program

SCRIPT = """\
#!/bin/sh
# Granian for {site.ini}. Written by `pipeline deploy granian`.
set -eu
mkdir -p {directory}/run
# The directory of wsgi.py.
set -- --working-dir {directory}
set -- "$@" --interface wsgi
{bind}
# Processes; one if the database is a file.
set -- "$@" --workers {site.workers}
# Threads of each process: a request occupies one until it is answered.
set -- "$@" --blocking-threads {site.threads}
# HTTP/1.1 alone: a proxy speaks that, and browsers speak HTTP/2 with TLS only.
set -- "$@" --http 1
# Seconds that a client has to send the headers, in milliseconds.
set -- "$@" --http1-header-read-timeout 20000
# Seconds that requests have to finish on SIGTERM and SIGHUP.
set -- "$@" --workers-kill-timeout 30
# Seconds that a new worker has to load the site before the old one is stopped, on SIGHUP.
set -- "$@" --respawn-interval 3
# A worker that dies is replaced.
set -- "$@" --respawn-failed-workers
# The site writes the access log.
set -- "$@" --no-access-log
set -- "$@" --pid-file {directory}/run/granian.pid
{prefix}{clean}exec {program} "$@" wsgi:application
"""

TCP = """\
set -- "$@" --host {site.host} --port {site.port}"""
UNIX = """\
# For the group of run/, which is that of the proxy: vhost believes each peer on this socket.
set -- "$@" --uds {site.socket} --uds-permissions 0660"""


def write(site: Site) -> Deployment:
    """Write a start script and the script of the site."""
    need_module("granian", "pip install 'wsgi-pipeline[granian]'")
    program = need_program("granian", "pip install 'wsgi-pipeline[granian]'")
    directory = site.directory
    quoted = shlex.join(site.leftovers)
    prefix = f'# The path of the site on the server.\nset -- "$@" --url-path-prefix {site.prefix}\n'
    script = SCRIPT.format(
        site=site,
        directory=directory,
        program=program,
        bind=(UNIX if site.behind_proxy else TCP).format(site=site),
        prefix=prefix if site.prefix else "",
        clean=f"# What a process that was killed has left.\nrm -f -- {quoted}\n" if site.leftovers else "",
    )
    notes = ["Granian takes no socket from systemd: put nginx in front of it to restart without loss."]
    if site.workers == 1 and not site.behind_proxy:
        notes.append("With one worker a reload refuses some connections.")
    return Deployment(
        {**site.script, "granian.sh": script},
        start=[f"{directory}/granian.sh"],
        stop=[f"kill -TERM $(cat {directory}/run/granian.pid)"],
        reload=[f"{site.python} {directory}/wsgi.py && kill -HUP $(cat {directory}/run/granian.pid)"],
        syntax=["sh", "-n", f"{directory}/granian.sh"],
        notes=notes,
    )
