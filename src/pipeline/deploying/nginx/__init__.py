"""nginx in front of gunicorn, granian, systemd or uwsgi (--behind).

It takes slow clients, bodies and long answers off the threads. Of several instances elsewhere it finds one that
takes the connection, among those that are ready.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from pipeline.deploying.site import Site, getgrgid, getgrnam, getpwnam, need_program, refusal, refuse_distrust
from pipeline.deploying.target import Deployment, deployment_of
from pipeline.http.files import PASSED_ON

PROGRAM = ("nginx", "apt install nginx")


def values(site: Site) -> dict[str, Any]:
    program = need_program(*PROGRAM)
    by_uwsgi = site.behind == "uwsgi" and not site.upstreams
    if not by_uwsgi:  # uWSGI's protocol has a field for the address of the visitor
        refuse_distrust(site, "nginx")
    for directory in site.locations:
        if any(sign in directory for sign in '"\\$\n'):
            raise refusal("misread location", directory=directory)
    passed_on = {name: f"$upstream_http_{name.lower().replace('-', '_')}" for name in PASSED_ON}
    if site.tls:
        passed_on["Strict-Transport-Security"] = f"$hsts_{site.port}"
    inner = Deployment({}, ()) if site.upstreams else deployment_of(site.behind, site._replace(behind_proxy=True))
    return {
        "inner": inner,
        "by_uwsgi": by_uwsgi,
        "scheme": f"$scheme_{site.port}" if site.proxies else "$scheme",
        "port": f"$port_{site.port}" if site.proxies else "$server_port",
        "passed_on": passed_on,
        "http2": http2(program) if site.tls else "",
        "module_line": module_line(program) if site.upstreams else "",
        "inner_port": site.port + 1 if site.port < 65535 else site.port - 1,
        "reads_proxy": any(told.distrusts for _, told in site.facts),
        "call": f"{program} -p {site.directory} -c {site.directory}/nginx.conf -e stderr",
        "sets_user": os.geteuid() == 0 and can_give(site.group) and has_user(site.user),
        "own_group": getgrgid(os.getegid()).gr_name,
        "can_give": can_give(site.group),
    }


def has_user(name: str) -> bool:
    """Return whether this machine has a user. nginx would say so of the line ``user`` to others than root."""
    try:
        getpwnam(name)
    except KeyError:
        return False
    return True


def can_give(group: str) -> bool:
    """Return whether this user can give a file to a group."""
    try:
        gid = getgrnam(group).gr_gid
    except KeyError:
        return False
    return os.geteuid() == 0 or gid in (os.getegid(), *os.getgroups())


def http2(program: str) -> str:
    """Return how nginx is told of HTTP/2: "word" of ``listen``, or "line" of its own since 1.25.1."""
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=False).stderr
    version = tuple(map(int, re.findall(r"\d+", said)[:3]))
    return "word" if version < (1, 25, 1) else "line"


def module_line(program: str) -> str:
    """Return the line that loads nginx's module "stream", unless it is built in; refuse an nginx without it."""
    built = subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stderr.split()
    if "--with-stream" in built:
        return ""
    places = [word.partition("=")[2] for word in built if word.startswith("--modules-path=")]
    module = Path(places[0] if places else "/usr/lib/nginx/modules", "ngx_stream_module.so")
    if not module.exists():
        raise refusal("no module stream", program=program)
    return f"load_module {module};"
