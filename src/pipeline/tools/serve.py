"""``pipeline serve INI [name=value ...]``: serve an ini, by waitress with reload, gunicorn or Granian."""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import hupper
from hupper.worker import WatchSysModules
from paste.deploy.loadwsgi import SERVER, loadcontext

from pipeline.http import debug_key
from pipeline.interfaces import ConfigurationError
from pipeline.loading.command_line import (
    facts_of,
    make_importable,
    options_of,
    parse_variables,
    parser_of,
    plan_of,
    refuse_several,
    split_name,
)
from pipeline.loading.site import application_of
from pipeline.serving import on_waitress
from pipeline.serving.choice import Choice, is_everywhere
from pipeline.serving.not_loaded import HELD, files_of, site_of
from pipeline.serving.on_waitress import DRAIN
from pipeline.serving.reloading import Monitor, Starts
from pipeline.telling.errors import put_error, refusal

SERVERS = {
    "waitress": "pipeline.serving.on_waitress",
    "gunicorn": "pipeline.serving.on_gunicorn",
    "granian": "pipeline.serving.on_granian",
}
"""The module of each server, whose ``serve(choice, listener, load)`` returns when the server has stopped."""

ADDRESSES = ("listen", "unix_socket", "bind", "uds")
"""Options of [server:main] with which a server opens its sockets by itself."""
PAUSE = 0.25
"""Seconds between two looks at the modules that the site has imported."""
BETWEEN = 0.01
"""Seconds from the end of a process that a change has stopped to the start of the next one."""
IDLE = 0.1
"""Seconds after which a connection is idle when a change starts the site again."""
TEMPLATES = ("html", "htm", "jinja2", "j2", "pt", "xml", "txt", "md", "rst", "mo", "css", "js", "svg")
"""Suffixes of files beside the code whose change reloads the site."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = parse(arguments)
    path, _ = split_name(options.ini)
    chains = plan_of(options.ini, options.variables, has_order=True)
    choice = choose(options)
    facts = facts_of(chains)
    refuse_several(choice.workers, facts)
    if choice.server in SERVERS and find_spec(choice.server) is None:
        raise ModuleNotFoundError(name=choice.server)
    is_given = os.environ.get("LISTEN_PID") == str(os.getpid())  # the variables reach other processes, too
    if is_given:
        if choice.server == "waitress" and (number := os.environ.get("LISTEN_FDS")) != "1":
            raise ConfigurationError(f"systemd has opened {number} sockets, and waitress takes one: name one there")
        listener = socket.socket(fileno=3) if choice.server == "waitress" else None  # opened by systemd (S18)
    else:
        listener = listen(choice)
        announce(choice, path)
    for leftover in (Path(file) for _, told in facts for file in told.leftovers):  # no other process listens here
        leftover.unlink(missing_ok=True)
    if choice.server == "waitress" and options.reload and listener is not None and not is_given:
        # The socket stays open while the site starts again, so that no client is refused.
        listener.set_inheritable(True)
        worker = [list(arguments), listener.fileno(), secrets.token_urlsafe(32), False]
        starts = Starts(worker)
        hupper.start_reloader(
            "pipeline.tools.serve.reloaded",
            worker_args=worker,
            reload_interval=BETWEEN,
            shutdown_interval=DRAIN + 1,
            logger=starts,
            monitor_factory=partial(Monitor, starts),
        )
    return run(arguments, listener)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command line."""
    return options_of(parser_of("serve", server=SERVERS), arguments)


def choose(options: argparse.Namespace) -> Choice:
    """Return the server and its settings, from the command line and [server:main]."""
    path, _ = split_name(options.ini)
    named, settings = server_section(path, parse_variables(options.variables))
    server = options.server or named
    if server != named:  # what another server calls its settings is not known here
        settings = {key: settings[key] for key in ("host", "port", "threads") if key in settings}
    given = given_by(options)
    if {"host", "port"} & given.keys():
        settings = {key: value for key, value in settings.items() if key not in ADDRESSES}
    settings |= given

    def number(option: str, default: int, least: int, most: int) -> int:
        text = settings.pop(option, str(default))
        if not text.isdecimal() or not least <= int(text) <= most:
            said = f"{option} = {text} is not a whole number from {least} to {most}"
            raise ConfigurationError(f"{path}, section [server:main]: {said}")
        return int(text)

    choice = Choice(
        server=server,
        host=settings.pop("host", "127.0.0.1"),
        port=number("port", 8080, 0, 65535),
        workers=number("workers", 1, 1, 1000),
        threads=number("threads", 8, 1, 10000),
        settings=settings,
    )
    if choice.server == "waitress" and choice.workers > 1:
        raise refusal("waitress is one process")
    return choice


def given_by(options: argparse.Namespace) -> dict[str, str]:
    """Return the settings of the server that stand on the command line, which beat those of [server:main]."""
    found = {name: getattr(options, name) for name in ("host", "port", "workers", "threads")}
    return {name: str(value) for name, value in found.items() if value is not None}


def server_section(ini: Path, variables: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the server that [server:main] names, and the options there; waitress if there is no section."""
    try:
        context = loadcontext(SERVER, f"config:{ini}", "main", global_conf=variables)
    except LookupError as error:
        if "[server:main]" in ini.read_text(encoding="utf-8"):
            raise ConfigurationError(f"{ini}, section [server:main]: {error}") from error
        return "waitress", {}
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{ini}, section [server:main]", name=error.name) from error
    package = context.object.__module__.partition(".")[0]
    if package == "pipeline":  # egg:wsgi-pipeline#granian
        package = context.object.__name__
    settings = {key: str(value) for key, value in context.local_conf.items()}
    return package, settings


def listen(choice: Choice) -> socket.socket | None:
    """Return a listening socket for waitress; only try the address for other servers, which open their own.

    Raises ConfigurationError, with the remedy, if the address cannot be listened on.
    """
    if any(name in choice.settings for name in ADDRESSES):
        return None
    host = "" if choice.host == "*" else choice.host
    try:
        found = socket.getaddrinfo(host or None, choice.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        listener = socket.create_server((host, choice.port), family=found[0][0], backlog=1024)
    except OSError as error:
        what = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)
        said = f"{choice.host}:{choice.port}: {what}; choose another with --host or --port"
        raise ConfigurationError(said) from error
    if choice.server == "waitress":
        return listener
    listener.close()
    return None


def announce(choice: Choice, ini: Path) -> None:
    """Say on the terminal where the site is, and what it means to listen on every address."""
    own = [choice.settings[name] for name in ADDRESSES if name in choice.settings]
    where = " ".join(own) or f"{address_of(choice)}/"
    print(f"{ini.name}: {where} by {choice.server}. Ctrl-C stops it.", flush=True)
    if any(map(is_everywhere, " ".join(own).split() or [choice.host])):
        print(
            "It listens on every address of this machine: every client that reaches the machine can use the site, "
            "without TLS and without a proxy's limits. --host 127.0.0.1 keeps it to this machine.",
            file=sys.stderr,
            flush=True,
        )


def address_of(choice: Choice) -> str:
    """Return the address of the site, or "" if the server opens sockets of its own."""
    if any(name in choice.settings for name in ADDRESSES):
        return ""
    host = "127.0.0.1" if is_everywhere(choice.host) else choice.host
    return f"http://{f'[{host}]' if ':' in host else host}:{choice.port}"


def run(
    arguments: Sequence[str], listener: socket.socket | None, key: str | None = None, again: bool = False
) -> int:
    """Serve in this process; return the exit status.

    key    the key of debug mode, if it is chosen already
    again  whether the site was started before, with that key
    """
    options = parse(arguments)
    path, _ = split_name(options.ini)
    make_importable(path)
    choice = choose(options)
    if key is not None:  # the developer waits for the next start
        choice = choice._replace(idle=IDLE)
    debug_key.choose(key, address_of(choice), again)
    variables = parse_variables(options.variables)
    load = partial(application_of, options.ini, **variables)
    if choice.server in SERVERS:
        import_module(SERVERS[choice.server]).serve(choice, listener, load)
    else:
        context = loadcontext(SERVER, f"config:{path}", "main", global_conf=variables)
        context.local_conf.update(given_by(options))
        context.create()(load())
    return 0


def reloaded(arguments: Sequence[str], descriptor: int, key: str, again: bool) -> None:
    """Serve in a process of the reloader, on the socket that the reloader keeps open.

    A site that does not load is a page with the mistake.
    """
    reloader = hupper.get_reloader()
    WatchSysModules.poll_interval = PAUSE
    WatchSysModules.join = lambda watcher: None  # the watcher is a daemon: this process ends within its pause
    options = parse(arguments)
    listener = socket.socket(fileno=descriptor)
    try:
        reloader.watch_files(watched(options))
        status = run(arguments, listener, key, again)
    except Exception as error:
        put_error("pipeline serve", error)
        reloader.watch_files([str(split_name(options.ini)[0]), *files_of(error)])
        host, number = listener.getsockname()[:2]
        settings = {"channel_request_lookahead": "1"}  # so that it notices a visitor who goes away
        choice = Choice("waitress", host, number, workers=1, threads=HELD + 4, settings=settings, idle=IDLE)
        debug_key.choose(key, address_of(choice), again)
        on_waitress.serve(choice, listener, partial(site_of, error, on_waitress.STOPPING))
        status = 1
    sys.exit(status)


def watched(options: argparse.Namespace) -> list[str]:
    """Return the files beside the modules whose change starts the site again: inis and templates."""
    path, _ = split_name(options.ini)
    files = [str(path)]
    for chain in plan_of(options.ini, options.variables):
        for step in chain.steps:
            files += step.source.inis
            for name in step.facts.packages:
                found = find_spec(name.partition(".")[0])
                if found is None:
                    continue
                if found.submodule_search_locations is None:  # a module, with its templates beside it
                    beside = Path(found.origin or "").parent
                    places = [str(beside), f"{beside}/templates/**"]
                else:
                    places = [f"{place}/**" for place in found.submodule_search_locations]
                files += [f"{place}/*.{suffix}" for place in places for suffix in TEMPLATES]
    return sorted(set(files))
