"""``pipeline deploy TARGET INI DIR [name=value ...]``: write all that a server needs, and say how it is run."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pipeline.deploying import tls
from pipeline.deploying.site import (
    VARIABLES,
    Site,
    StepFacts,
    getgrnam,
    getpwnam,
    health_of,
    limit_of,
    need_readable,
    password_in,
    places_of,
    refusal,
    refuse_misread,
)
from pipeline.deploying.target import Deployment, deployment_of, targets, title
from pipeline.interfaces import ConfigurationError
from pipeline.loading.command_line import (
    facts_of,
    options_of,
    parse_variables,
    parser_of,
    plan_of,
    refuse_several,
    split_name,
)


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = parse(arguments)
    if not hasattr(os, "geteuid"):  # Windows
        raise ConfigurationError("it writes configurations for Linux: run it on the machine that serves the site")
    site = site_of(options)
    deployment = deployment_of(options.target, site)
    if site.drain and "gunicorn.conf.py" not in deployment.files:  # gunicorn does so itself, on SIGTERM
        drain = ("stop", f"touch {site.mark} && sleep {site.drain}")
        deployment = deployment._replace(commands=[drain, *deployment.commands])
    if os.geteuid() == 0:  # then the user of the server is another one
        need_readable(site.directory, "the server's own user")
    if site.rehearse and "wsgi.py" not in deployment.files:
        raise ConfigurationError("--rehearse: the site runs elsewhere, so nothing is reloaded here")
    put(site, deployment, write_files(site, deployment))
    return check_deployment(options.target, site, deployment) if options.check else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_of("deploy", target=targets())
    width = max(map(len, targets()))
    parser.epilog = "\n".join(["targets:", *(f"  {name:{width}}  {title(one)}" for name, one in targets().items())])
    return options_of(parser, arguments)


def site_of(options: argparse.Namespace) -> Site:
    """Return the site; refuse an ini that does not load and options that do not fit it."""
    path, name = split_name(options.ini)
    chains = plan_of(options.ini, options.variables, has_order=True)
    facts = facts_of(chains)
    prefix = options.prefix.rstrip("/")
    refuse_unfit(options, prefix, facts)
    workers = options.workers or (1 if any(told.one_process for _, told in facts) else 2)
    refuse_several(workers, facts)
    directory = Path(options.directory).absolute()
    refuse_misread(directory, f"{prefix}/", health_of(chains, prefix), options.user, options.group)
    mark = f"{directory}/run/draining"
    leftovers = [str(directory / file) for _, told in facts for file in told.leftovers]
    if options.drain:
        leftovers.append(mark)
    host = options.host or ("0.0.0.0" if options.tls else "127.0.0.1")
    refuse_misread(host, *(one.replace("[", "").replace("]:", ":") for one in options.upstream))
    number = options.port or (443 if options.tls else 8080)
    return Site(
        ini=f"{path}#{name}" if name else str(path),
        variables=parse_variables(options.variables),
        directory=directory,
        host=host,
        port=number,
        tls=tls.tls_of(options, host, number),
        proxies=tuple(options.trusted_proxy),
        prefix=prefix,
        workers=workers,
        threads=options.threads or (4 if workers > 1 else 8),
        behind=options.behind,
        embedded=options.embedded,
        user=options.user,
        group=options.group,
        upstreams=tuple(options.upstream),
        drain=options.drain,
        mark=mark,
        rehearse=str(Path(options.rehearse).absolute()) if options.rehearse else "",
        max_body=limit_of(facts),
        health=health_of(chains, prefix),
        writable=sorted({str(place) for _, _, place in places_of(facts, directory)}),
        leftovers=leftovers,
        servers=sorted({server for _, told in facts for server in told.servers}),
        locations={place: location for _, told in facts for place, location in told.locations.items()},
        facts=facts,
    )


def refuse_unfit(options: argparse.Namespace, prefix: str, facts: StepFacts) -> None:
    """Refuse options that do not fit the target, or the site."""
    if (prefix and not prefix.startswith("/")) or "/../" in f"{prefix}/":
        raise ConfigurationError(f"--prefix {options.prefix}: a path begins with a slash, and has no '..'")
    if options.drain and not any(told.is_health for _, told in facts):  # then no proxy could see it
        raise refusal("no health")
    if options.upstream and options.target != "nginx":
        raise ConfigurationError(f"--upstream {options.upstream[0]}: of the targets only nginx asks instances")


def write_files(site: Site, deployment: Deployment) -> list[str]:
    """Write all files, or none if one cannot be written: a server may run by them. Return a note on the
    variables of an earlier deployment, which are removed."""
    for directory in (site.directory, site.directory / "run", site.directory / "log"):
        directory.mkdir(parents=True, exist_ok=True)
        if directory.stat().st_mode & 0o002:  # also with the sticky bit: a link could stand there already
            raise ConfigurationError(f"{directory}: others may put files of theirs there: chmod o-w {directory}")
    if group := deployment.one("group"):
        run = site.directory / "run"
        os.chown(run, -1, getgrnam(group).gr_gid)
        run.chmod(0o2755)  # what is made there gets the group
    pairs = [(site.directory / name, site.directory / f"{name}.new") for name in deployment.files]
    for (path, new), text in zip(pairs, deployment.files.values(), strict=True):
        new.unlink(missing_ok=True)
        if path.name == VARIABLES:
            write_secret(new, text, deployment.one("user"))
            continue
        new.write_text(text, encoding="utf-8")
        if path.exists():
            new.chmod(path.stat().st_mode)
        if path.suffix == ".sh":
            new.chmod(0o755)
    for path, new in pairs:
        new.replace(path)
    old = site.directory / VARIABLES
    if VARIABLES in deployment.files or not old.exists():
        return []
    old.unlink()
    return [f"{VARIABLES} is removed. Give its variables again (name=value) if the site needs them"]


def write_secret(path: Path, text: str, user: str) -> None:
    """Write a new file that one user alone can read: this one, or the user of the service if this is root (S25)."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        if os.geteuid() == 0:
            with suppress(KeyError):  # this machine does not have the user
                os.fchown(file.fileno(), getpwnam(user).pw_uid, -1)
        file.write(text)


def put(site: Site, deployment: Deployment, gone: Sequence[str]) -> None:
    """Print the commands and the notes."""
    print(f"Written to {site.directory}: {', '.join(sorted(deployment.files))}")
    for verb in ("start", "stop", "reload", "check"):
        ready = [site.check] if verb == "check" else []  # asks the site; the server's own check reads the files
        for number, command in enumerate([*deployment.all(verb), *ready]):
            print(f"  {'' if number else verb:7} {command}")
    text = "".join(deployment.files.values())  # which names the files that the server removes itself
    left = [f"Before a start: rm -f {one}" for one in site.leftovers if Path(one).name not in text]
    for note in (*deployment.all("note"), *left, *notes_on_passwords(site), *gone):
        print(f"  note    {note}")


def notes_on_passwords(site: Site) -> list[str]:
    """Warn of inis with a password that every user of the machine can read (S25)."""
    inis = {file for step, _ in site.facts for file in step.source.inis}
    return [
        f"{ini}, {line}, has a password, and every user of this machine can read it: chmod o-r {ini}, or give the "
        f"value as a variable (name=value), which is written to a file for the user of the service alone."
        for ini in sorted(inis)
        if (line := password_in(Path(ini), site.facts)) and os.stat(ini).st_mode & 0o004
    ]


def check_deployment(target: str, site: Site, deployment: Deployment) -> int:
    """Try whether the site loads, and have the server check what was written; return the exit status."""
    if target in ("container", "kubernetes"):
        print("  checked: nothing yet; its health check says whether the site serves")
        return 0
    trial = [sys.executable, str(site.directory / "wsgi.py")] if "wsgi.py" in deployment.files else []
    for command in (trial, shlex.split(deployment.one("check"))):
        if not command:
            continue
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if done.returncode:
            sys.stderr.write(done.stdout.decode(errors="replace"))
            print(f"pipeline deploy: {' '.join(command)}: refused, see above", file=sys.stderr)
            return 1
    own = bool(deployment.one("check"))
    print(f"  checked: {'good' if own else 'the site loads; the server has no check of its own'}")
    return 0
