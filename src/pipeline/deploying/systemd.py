"""systemd: a socket that stays open, and gunicorn as a service without rights that it does not need."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from pipeline.deploying import gunicorn
from pipeline.deploying.site import VARIABLES, Deployment, Site, directories_of, has_code
from pipeline.interfaces import ConfigurationError, Facts

SOCKET = """\
# The socket of {site.ini}. Written by `pipeline deploy systemd`.
# systemd keeps it open while the service starts again: connections wait, and none is refused (R9).
[Unit]
Description=Socket of {name}

[Socket]
ListenStream={listen}
{unix}# Connections that wait while the service starts.
Backlog=4096

[Install]
WantedBy=sockets.target
"""

UNIX = """\
# Only the proxy connects: vhost believes each peer on this socket.
SocketUser={site.user}
SocketGroup={site.group}
SocketMode=0660
"""

SERVICE = """\
# gunicorn for {site.ini}. Written by `pipeline deploy systemd`.
[Unit]
Description={name}
Requires={name}.socket
{after}

[Service]
Type=notify
User={site.user}
WorkingDirectory={site.directory}
ExecStart={start}
# A site that does not load leaves the old one serving, and says in one line why.
ExecReload={site.python} {site.directory}/wsgi.py
ExecReload=/bin/kill -HUP $MAINPID
# SIGTERM to gunicorn alone, which lets its workers finish.
KillMode=mixed
TimeoutStopSec={stop}
Restart=on-failure
# It gives itself no other rights, and sees no files but those of the system and its own.
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={writable}
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
LockPersonality=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0027
# Files that clients and databases may keep open.
LimitNOFILE=16384

[Install]
WantedBy=multi-user.target
"""

ONLINE = """\
# It connects to {servers}.
Wants=network-online.target
After=network-online.target"""


def write(site: Site) -> Deployment:
    """Write a socket unit, a service unit and gunicorn's configuration."""
    inner = gunicorn.write(site)
    name = f"{site.directory.name}"
    in_home = any(f"{path}".startswith(("/home/", "/root/")) for path in (site.directory, site.python, site.ini))
    service = SERVICE.format(
        site=site,
        name=name,
        start=inner.start[0],
        writable=" ".join(writable(site)),
        stop=40 + site.drain,
        home="read-only" if in_home else "yes",
        after=ONLINE.format(servers=", ".join(site.servers)) if site.servers else "After=network.target",
    )
    listen, unix = site.address, ""
    if site.behind_proxy:
        listen, unix = str(site.socket), UNIX.format(site=site)
    files = {
        **inner.files,
        f"{name}.socket": SOCKET.format(site=site, name=name, listen=listen, unix=unix),
        f"{name}.service": service,
    }
    own = [f"sudo chown {site.user} {site.directory}/{VARIABLES}"] if site.variables else []
    # systemd starts no service with a writable path that is missing.
    own += [f"sudo install -d -o {site.user} {place}" for place in site.writable if not Path(place).exists()]
    analyze = shutil.which("systemd-analyze")
    units = [f"{site.directory}/{name}.socket", f"{site.directory}/{name}.service"]
    return Deployment(
        files,
        start=[
            *own,
            f"sudo systemctl link {' '.join(units)}",
            f"sudo systemctl enable --now {name}.socket {name}.service",
        ],
        stop=[f"sudo systemctl stop {name}.socket {name}.service"],
        reload=[f"sudo systemctl reload {name}    # new code; sudo systemctl restart {name}    # new packages"],
        syntax=[analyze, "verify", *units] if analyze else [],
        notes=[f"The user {site.user} needs to write to: {', '.join(writable(site))}"],
        user=site.user,
    )


def writable(site: Site) -> Sequence[str]:
    """Return the directories that the service writes to.

    Raises ConfigurationError for one with the code of the site: who breaks into the service could change it.
    """
    for step, told in site.facts:
        for path in told.writes:
            [place] = directories_of([(step, Facts(writes=[path]))], site.directory)
            if has_code(Path(place), Path(site.ini).parent, site.directory):
                raise ConfigurationError(
                    f"{step.where}: {step} writes to {path}, which is beside the code. The service could change "
                    f"its own code then: let this section name a directory of its own, such as "
                    f"%(here)s/var/{Path(path).name}"
                )
    return [f"{site.directory}/run", *site.writable]
