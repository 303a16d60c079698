"""A container: one process that drains on SIGTERM, not root, with a health check and a volume."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.interfaces import ConfigurationError
from pipeline.tools.deploy.gunicorn import configuration_of
from pipeline.tools.deploy.site import APPLICATION, ENVIRONMENT, Deployment, Site, check_of, password_in
from pipeline.tools.ini import facts_of, plan_of

DOCKERFILE = """\
# The site of {ini}. Written by `pipeline deploy container`.
# Built in the directory that has the ini and this file's directory, which COPY below is relative to:
#     cd {context} && docker build -t site -f {file} .
FROM python:{version}-slim

# Logs appear at once; no bytecode is written to the image at run time.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# The site and its server; add the packages of your own site to this line.
RUN pip install --no-cache-dir 'wsgi-pipeline[demo,gunicorn,zeo]'

# Not root; its data is in volumes, which outlive the container.
RUN useradd --system --uid 10001 --home-dir /srv/site site && mkdir -p /srv/site {volumes} && chown site {volumes}
WORKDIR /srv/site
COPY {inis} /srv/site/
COPY {directory}/wsgi.py {directory}/gunicorn.conf.py /srv/site/
USER site
VOLUME {volumes}
EXPOSE 8080

# Ready: the path of `health` if the ini has it.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD \\
    ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080{health}', timeout=4)"]

{entry}
"""

ENTRY = """\
# No shell in between: SIGTERM reaches gunicorn, which lets requests finish. Give it 40 s: docker stop -t 40.
STOPSIGNAL SIGTERM
ENTRYPOINT ["gunicorn", "-c", "/srv/site/gunicorn.conf.py"]"""
REHEARSED_ENTRY = """\
# A container whose answers got worse ends before it serves. gunicorn takes the place of the shell: SIGTERM reaches
# it, and it lets requests finish. Give it 40 s: docker stop -t 40.
STOPSIGNAL SIGTERM
ENTRYPOINT ["sh", "-c", "python /srv/site/wsgi.py && exec gunicorn -c /srv/site/gunicorn.conf.py"]"""

IN_MEMORY = """\
# In memory: a disk that is slow would stop the sign of life.
worker_tmp_dir = "/dev/shm"
"""

IN_VOLUME = {
    "zodb_uri": "file:///data/Data.fs?blobstorage_dir=/data/blobs",
    "session_keys": "/data/session_keys",
}
"""Variables that put the data into the volume."""


def write(site: Site) -> Deployment:
    """Write a Dockerfile, gunicorn's configuration and the script of the site."""
    ini = Path(site.ini.partition("#")[0])
    name = ini.name + site.ini.removeprefix(str(ini))
    context = context_of(ini, site.directory)
    directory, source = site.directory.relative_to(context), ini.relative_to(context)
    refuse_passwords(ini.parent, site)
    chains = plan_of(site.ini, [f"{key}={value}" for key, value in {**IN_VOLUME, **site.variables}.items()])
    facts = [told for _, told in facts_of(chains)]
    volumes = volumes_of(ini.parent, [path for told in facts for path in told.writes])
    leftovers = [inside(ini.parent, path) for told in facts for path in told.leftovers]
    script = APPLICATION.format(
        ini=f"/srv/site/{name}",
        variables=IN_VOLUME,
        private="/run/secrets/variables.json" if site.variables else None,
        python="python",
        file="/srv/site/wsgi.py",
        check=check_of(inside(ini.parent, site.rehearse) if site.rehearse else ""),
    )
    environment = f"--env-file {site.directory}/{ENVIRONMENT} " if site.variables else ""
    dockerfile = DOCKERFILE.format(
        ini=site.ini,
        file=f"{directory}/Dockerfile",
        version=f"{sys.version_info.major}.{sys.version_info.minor}",
        context=context,
        inis=source.with_name("*.ini"),
        directory=directory,
        health=site.health,
        volumes=" ".join(volumes),
        entry=REHEARSED_ENTRY if site.rehearse else ENTRY,
    )
    mounts = " ".join(f"-v site{volume.replace('/', '-')}:{volume}" for volume in volumes)
    # Every address of the container, for a proxy in front of it: its ports say who else can reach it.
    inner = site._replace(prefix="", behind_proxy=False)
    gunicorn = configuration_of(inner, "/srv/site", "0.0.0.0:8080", "/tmp/gunicorn.pid", leftovers)
    return Deployment(
        {
            "Dockerfile": dockerfile,
            "wsgi.py": script,
            "gunicorn.conf.py": gunicorn + IN_MEMORY,
            **site.environment,
        },
        start=[
            f"docker build -t site -f {site.directory}/Dockerfile {context}",
            f"docker run -d --name site {environment}{mounts} -p {site.address}:8080 --read-only "
            "--tmpfs /tmp site",
        ],
        stop=["docker stop -t 40 site"],
        reload=["docker kill -s HUP site"],
        syntax=[],
        notes=[
            "Let the site trust the proxy in front by its address in the container, such as proxies=172.17.0.1.",
            *(f"In the container {server} is the container itself." for server in site.servers if is_local(server)),
        ],
    )


def inside(directory: Path, path: str) -> str:
    """Return the path in the container of a file of the site. ``directory`` has the ini."""
    return os.path.normpath(os.path.join("/srv/site", path.removeprefix(f"{directory}/")))


def volumes_of(directory: Path, writes: Sequence[str]) -> list[str]:
    """Return the directories of the container that the site writes to, /data first."""
    volumes = ["/data"]
    for path in writes:
        file = inside(directory, path)
        place = file if path.endswith("/") else os.path.dirname(file)
        if os.path.commonpath(["/srv/site", place]) == place:
            raise ConfigurationError(
                f"the site writes to {path}, which is beside its code in the container, where nothing can be "
                f"written. Give it a directory of its own, such as %(here)s/../var, or /data of the container"
            )
        if not any(os.path.commonpath([volume, place]) == volume for volume in volumes):
            volumes.append(place)
    return volumes


def is_local(server: str) -> bool:
    """Return whether "host:port" is on this machine."""
    return server.rpartition(":")[0] in ("localhost", "127.0.0.1", "[::1]")


def refuse_passwords(directory: Path, site: Site) -> None:
    """Refuse an ini with a password: every user of the image could read it (S25)."""
    for ini in sorted(directory.glob("*.ini")):
        if line := password_in(ini, site.facts):
            raise ConfigurationError(
                f"{ini}, {line}: this line has a password, which the image would have. Let the line take the value "
                f"of a variable (get option = name), and give the variable here: pipeline deploy container ... "
                f"name=value. It is written to {ENVIRONMENT}, which docker run reads, and which is not in the image"
            )


def context_of(ini: Path, directory: Path) -> Path:
    """Return the directory that docker reads: the working directory, or the first one above both files.

    Raises ConfigurationError if that is the whole disk: COPY takes nothing from elsewhere.
    """
    here = Path.cwd()
    if not (directory.is_relative_to(here) and ini.is_relative_to(here)):
        here = Path(os.path.commonpath([directory, ini]))
    if here == Path("/"):
        raise ConfigurationError(
            f"docker build reads one directory, and {ini} and {directory} have none in common: choose a DIR beside "
            f"the ini, such as {ini.parent / directory.name}"
        )
    return here
