"""A container: the project, installed by a lock; one process that drains on SIGTERM, not root, with volumes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.deploying.gunicorn import configuration_of
from pipeline.deploying.lock import WHEELS, lock_of, project_of
from pipeline.deploying.site import ENVIRONMENT, Deployment, Site, check_of, has_code, password_in, script_of
from pipeline.interfaces import ConfigurationError

MARK = "/tmp/draining"
HOME = "/srv/site"
"""The directory of the project in the container."""

DOCKERFILE = """\
# The site of {ini}. Written by `pipeline deploy container`.
# Built in the directory of the project, which COPY below is relative to:
#     cd {root} && docker build -t {title} -f {directory}/Dockerfile .
# To pin the base as well: --build-arg BASE=python:{version}-slim@sha256:...
ARG BASE=python:{version}-slim

# What compiles and installs stays in this stage.
FROM ${{BASE}} AS build
RUN python -m venv /srv/venv
# The packages first: a change of the site alone installs none again. Each has its version and its hash.
COPY {directory}/requirements.txt /tmp/requirements.txt
{wheels}RUN /srv/venv/bin/pip install --no-cache-dir --require-hashes{links} -r /tmp/requirements.txt
# The project, without what Dockerfile.dockerignore names.
COPY . {home}/
{install}
FROM ${{BASE}}
LABEL org.opencontainers.image.title="{title}" org.opencontainers.image.version="{release}"

# Logs appear at once; no bytecode is written to the image at run time.
ENV PATH=/srv/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# Not root, by number, as Kubernetes asks for it.
RUN groupadd --gid 10001 site && useradd --uid 10001 --gid 10001 --no-create-home --home-dir {home} site
COPY --from=build /srv/venv /srv/venv
COPY --from=build {home} {home}
{volumes}WORKDIR {inside}
USER 10001:10001
EXPOSE 8080

# Ready: the path of `health` if the ini has it.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD \\
    ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080{health}', timeout=4)"]

{entry}
"""

CLEAN = f"RUN rm -r {HOME}/{WHEELS}\n"
INSTALL = f"RUN /srv/venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation --editable {HOME}\n"
VOLUMES = """\
# The data is in volumes, which outlive the container.
RUN mkdir -p {volumes} && chown 10001:10001 {volumes}
VOLUME {volumes}
"""

ENTRY = """\
# No shell in between: SIGTERM reaches gunicorn, which finishes its requests: docker stop -t {seconds}.
STOPSIGNAL SIGTERM
ENTRYPOINT ["gunicorn", "-c", "{inside}/gunicorn.conf.py"]"""
REHEARSED_ENTRY = """\
# A container whose answers got worse ends before it serves. gunicorn takes the place of the shell: SIGTERM reaches
# it, and it lets requests finish. It needs time: docker stop -t {seconds}.
STOPSIGNAL SIGTERM
ENTRYPOINT ["sh", "-c", "python {inside}/wsgi.py && exec gunicorn -c {inside}/gunicorn.conf.py"]"""

IGNORED = """\
# docker build reads what is named here, and nothing else (S25). For a further file or directory add a line, such as
#     !pictures/**
**
{needed}
# Data, keys, environments and what tools leave stay out of these.
**/.*
**/*.env
**/*.key
**/*.pem
**/*.pyc
**/__pycache__
**/*.egg-info
**/Data.fs*
**/session_keys
{more}
# The files that the container runs stand in this directory.
!{directory}/gunicorn.conf.py
!{directory}/requirements.txt
!{directory}/wsgi.py
"""

COMPOSE = """\
# The container, with the databases that it names. Written by `pipeline deploy container`.
#     docker compose -f {directory}/compose.yaml up -d --build
services:
  site:
    build:
      context: {root}
      dockerfile: {directory}/Dockerfile
    # Only the proxy on this machine reaches it.
    ports:
    - "{address}:8080"
    read_only: true
    tmpfs:
    - /tmp
    # On SIGTERM it lets requests finish.
    stop_grace_period: {seconds}s
    restart: unless-stopped
{more}"""
COMPOSE_DATABASE = """\
  {name}:
    image: postgres:17
    # Write this file: POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB, as in the URI. It is not for the image.
    env_file: {directory}/{name}.env
    volumes:
    - {name}:/var/lib/postgresql/data
    healthcheck:
      test: [CMD-SHELL, pg_isready -U $$POSTGRES_USER]
      interval: 2s
      retries: 30
    restart: unless-stopped
"""

IN_MEMORY = """\
# In memory: a disk that is slow would stop the sign of life.
worker_tmp_dir = "/dev/shm"
"""


def write(site: Site) -> Deployment:
    """Write a Dockerfile with its lock, gunicorn's configuration and the script of the site."""
    ini = Path(site.ini.partition("#")[0])
    root = root_of(ini)
    if not site.directory.is_relative_to(root) or site.directory == root:
        raise ConfigurationError(
            f"docker build reads {root}, which has the project, and nothing else: choose a DIR in it, such as "
            f"{root / 'server'}"
        )
    site = site._replace(mark=MARK, leftovers=[MARK if path == site.mark else path for path in site.leftovers])
    refuse_passwords({root, ini.parent}, site)
    volumes = volumes_of(root, ini, site)
    directory = site.directory.relative_to(root)
    here = f"{HOME}/{directory}"
    project = project_of(root)
    about = project.get("project", {})
    with_wheels = (root / WHEELS).is_dir()
    dockerfile = DOCKERFILE.format(
        ini=site.ini,
        root=root,
        home=HOME,
        inside=here,
        directory=directory,
        version=f"{sys.version_info.major}.{sys.version_info.minor}",
        title=about.get("name", root.name),
        release=about.get("version", ""),
        wheels=f"COPY {WHEELS} /tmp/{WHEELS}\n" if with_wheels else "",
        links=f" --find-links /tmp/{WHEELS}" if with_wheels else "",
        install=(CLEAN if with_wheels else "") + (INSTALL if project else ""),
        health=site.health,
        volumes=VOLUMES.format(volumes=" ".join(volumes)) if volumes else "",
        entry=(REHEARSED_ENTRY if site.rehearse else ENTRY).format(inside=here, seconds=40 + site.drain),
    )
    check = check_of(inside(root, Path(site.rehearse)) if site.rehearse else "")
    ini_inside = HOME + site.ini.removeprefix(str(root))
    script = script_of(site, here, ini_inside, "/run/secrets/variables.json", "python", check)
    # Every address of the container, for a proxy in front of it: its ports say who else can reach it.
    inner = site._replace(prefix="", behind_proxy=False)
    leftovers = [inside(root, Path(path)) for path in site.leftovers]
    gunicorn = configuration_of(inner, here, "0.0.0.0:8080", "/tmp/gunicorn.pid", leftovers)
    lock = site.directory / "requirements.txt"
    mounts = "".join(f" -v site{volume.replace('/', '-')}:{volume}" for volume in volumes)
    compose = compose_of(site, root, volumes)
    environment = f" --env-file {site.directory}/{ENVIRONMENT}" if site.variables else ""
    return Deployment(
        {
            "Dockerfile": dockerfile,
            "Dockerfile.dockerignore": IGNORED.format(
                directory=directory,
                needed="\n".join(f"!{one}" for one in needed(root, ini, project, site)),
                more="\n".join(ignored(root, volumes)),
            ),
            "requirements.txt": lock.read_text("utf-8") if lock.exists() else lock_of(root),
            "wsgi.py": script,
            "gunicorn.conf.py": gunicorn + IN_MEMORY,
            "compose.yaml": compose,
            **site.environment,
        },
        start=[
            f"docker build -t site -f {site.directory}/Dockerfile {root}",
            f"docker run -d --name site{environment}{mounts} -p {site.address}:8080 --read-only --tmpfs /tmp site",
        ],
        stop=[f"docker stop -t {40 + site.drain} site"],
        reload=["docker kill -s HUP site"],
        syntax=[],
        notes=[
            f"The versions are those of {lock}; remove it for newer ones.",
            "Let the site trust the proxy in front by its address in the container, such as proxies=172.17.0.1.",
            *(f"In the container {server} is the container itself." for server in site.servers if is_local(server)),
        ],
    )


def compose_of(site: Site, root: Path, volumes: list[str]) -> str:
    """Return the file for ``docker compose``: the site, and a PostgreSQL for each name that it calls one by."""
    hosts = dict.fromkeys(server.rpartition(":")[0] for server in site.servers if server.endswith(":5432"))
    databases = [host for host in hosts if re.fullmatch(r"[a-z][a-z0-9-]*", host) and host != "localhost"]
    named = {volume: f"site{volume.replace('/', '-')}" for volume in volumes}
    more = f"    env_file: {site.directory}/{ENVIRONMENT}\n" if site.variables else ""
    if named:
        more += "    # The data, which outlives the container.\n    volumes:\n"
        more += "".join(f"    - {name}:{volume}\n" for volume, name in named.items())
    if databases:
        more += "    # It starts when they answer.\n    depends_on:\n"
        more += "".join(f"      {name}:\n        condition: service_healthy\n" for name in databases)
    more += "".join(COMPOSE_DATABASE.format(name=name, directory=site.directory) for name in databases)
    if named or databases:
        more += "volumes:\n" + "".join(f"  {name}: {{}}\n" for name in (*named.values(), *databases))
    return COMPOSE.format(
        directory=site.directory, root=root, address=site.address, seconds=40 + site.drain, more=more
    )


def root_of(ini: Path) -> Path:
    """Return the directory of the project: the first one, from that of the ini on, that has pyproject.toml."""
    places = (place for place in ini.parents if (place / "pyproject.toml").exists())
    return next(places, ini.parent)


def inside(root: Path, path: Path) -> str:
    """Return where a path is in the container: that of a file of the project, or the same elsewhere."""
    return str(Path(HOME) / path.relative_to(root) if path.is_relative_to(root) else path)


def volumes_of(root: Path, ini: Path, site: Site) -> list[str]:
    """Return the directories of the container that the site writes to.

    Raises ConfigurationError for a file beside the code: nothing can be written there.
    """
    volumes: list[str] = []
    for step, told in site.facts:
        for path in told.writes:
            file = Path(os.path.normpath(site.directory / path))
            place = file if path.endswith("/") else file.parent
            with_code = has_code(place, root, ini.parent, site.directory)
            above = root.parent != Path("/") and place.is_relative_to(root.parent)
            if with_code or (above and not place.is_relative_to(root)):
                raise ConfigurationError(
                    f"{step.where}: {step} writes to {path}. In a container it can write neither beside its code "
                    f"nor beside its project {root}: let this section name a directory of its own, such as "
                    f"%(here)s/var/{file.name}"
                )
            volume = inside(root, place)
            if not any(Path(volume).is_relative_to(one) for one in volumes):
                volumes = [one for one in volumes if not Path(one).is_relative_to(volume)] + [volume]
    return volumes


OF_A_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in", "README*", "LICENSE*")
"""Files that an installation reads."""


def needed(root: Path, ini: Path, project: dict[str, Any], site: Site) -> Iterator[str]:
    """Yield the files and directories that the image needs, as lines of a .dockerignore: those that the
    installation reads, the packages, the modules beside the ini, and the inis that it reads."""
    for name in OF_A_PROJECT:
        yield from sorted(file.name for file in root.glob(name))
    if (root / WHEELS).is_dir():
        yield f"{WHEELS}/**"
    setuptools = project.get("tool", {}).get("setuptools", {})
    named = setuptools.get("packages", ())
    packages = {name.partition(".")[0] for name in named} if isinstance(named, list) else set()
    packages = packages or {file.parent.name for file in root.glob("*/__init__.py")} - {"test", "tests"}
    if (root / "src").is_dir():
        packages = {"src"}
    if not project:  # a site that is not installed
        packages |= {"static", "templates"}
    yield from (f"{name}/**" for name in sorted(packages) if (root / name).is_dir())
    inis = {ini, *(Path(one) for step, _ in site.facts for one in step.source.inis)}
    for place in sorted({root, *(one.parent for one in inis)}):
        if place.is_relative_to(root) and any(place.glob("*.py")):
            yield str((place / "*.py").relative_to(root))
    yield from sorted(str(one.relative_to(root)) for one in inis if one.is_relative_to(root))


def ignored(root: Path, volumes: list[str]) -> Iterator[str]:
    """Yield the environments of Python in the project, and its directories with data."""
    for marker in sorted((*root.glob("*/pyvenv.cfg"), *root.glob("*/*/pyvenv.cfg"))):
        yield str(marker.parent.relative_to(root))
    for volume in volumes:
        if volume.startswith(f"{HOME}/"):
            yield volume.removeprefix(f"{HOME}/")


def is_local(server: str) -> bool:
    """Return whether "host:port" is on this machine."""
    return server.rpartition(":")[0] in ("localhost", "127.0.0.1", "[::1]")


def refuse_passwords(directories: set[Path], site: Site) -> None:
    """Refuse an ini with a password: every user of the image could read it (S25)."""
    for ini in sorted(ini for directory in directories for ini in directory.glob("*.ini")):
        if line := password_in(ini, site.facts):
            raise ConfigurationError(
                f"{ini}, {line}: this line has a password, which the image would have. Let the line take the value "
                f"of a variable (get option = name), and give the variable here: pipeline deploy container ... "
                f"name=value. It is written to {ENVIRONMENT}, which docker run reads, and which is not in the image"
            )
