"""The ini that puts a pipeline around a site: a table of what is found, what is set for it, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.adopting.reading import Existing, Middleware
from pipeline.ini import text_of
from pipeline.telling.words import texts_of


class Known(NamedTuple):
    """A middleware that is known: what becomes of it, and why."""

    why: str
    is_kept: bool = False
    without: Sequence[str] = ()
    """Elements that are not put around it."""


OF_THE_THREAD = "manager = pipeline.toolkit.manager:ImplicitManager"
"""The option of ``zodb`` or ``transaction`` for code that uses the transaction of the thread."""
ZOPE = "Zope2.Startup.run:"
"""The factory of a Zope site begins so."""
TRUSTED_PROXY = re.compile(r"^[ \t]*trusted-proxy[ \t]", re.MULTILINE | re.IGNORECASE)
"""A line of a zope.conf by which Zope itself reads ``X-Forwarded-For``, which ``vhost`` would drop."""

MIDDLEWARE = {begin: Known(**told) for begin, told in texts_of(Path(__file__).with_name("middleware.toml")).items()}
"""The middleware that is known, by the beginning of its factory."""
WHY = texts_of(Path(__file__).with_name("why.toml"))
"""Why the new ini has a part, or why a thing is left as it is."""


class Line(NamedTuple):
    """One thing that the new ini has, or that is left as it is."""

    name: str
    lines: tuple[str, ...]
    """The lines of its section; none for what is left alone, and for a part that the pipeline names by a URI."""
    why: str


def parts_of(existing: Existing, found: Mapping[str, Any]) -> tuple[list[Line], list[Line]]:
    """Return the elements, middleware and the application of the new ini, outermost first; and what is left as it
    is, or left out.

    found  what its Pyramid application has included, from ``asking``
    """
    middleware = [(one, known(one)) for one in existing.filters]
    left = [Line(one.name, (), row.why) for one, row in middleware if not row.is_kept]
    without = {name for _, row in middleware for name in row.without}
    if existing.factory.startswith(ZOPE):
        elements: list[Line] = []
        app = of_zope(existing)
        if TRUSTED_PROXY.search(Path(existing.options["zope_conf"]).read_text("utf-8", "replace")):
            without.add("vhost")
            left.append(Line("vhost", (), WHY["trusted-proxy"]))
    else:
        elements, app = of_transactions(existing, found, left)
    outside = [Line(name, ours(name), WHY[name]) for name in ("log", "vhost") if name not in without]
    kept = [
        Line(one.name, () if ":" in one.name else (f"use = config:{existing.path.name}#{one.name}",), row.why)
        for one, row in middleware
        if row.is_kept
    ]
    return [*outside, *elements, *kept, app], left


def known(one: Middleware) -> Known:
    """Return what is known of a middleware."""
    return next(row for prefix, row in MIDDLEWARE.items() if one.factory.startswith(prefix))


def ours(name: str, *lines: str) -> tuple[str, ...]:
    """Return the lines of the section of an element."""
    return (f"use = egg:wsgi-pipeline#{name}", *lines)


def of_zope(existing: Existing) -> Line:
    """Return the line of a Zope site."""
    conf = value_of(existing.options["zope_conf"], existing.path)
    return Line("site", ours("zope", f"zope_conf = {conf}"), WHY["zope"])


def of_transactions(
    existing: Existing, found: Mapping[str, Any], left: list[Line]
) -> tuple[list[Line], Line]:
    """Return the elements for an application that commits by pyramid_tm, by other means, or not at all, and the
    line of the application."""
    settings = existing.options if existing.factory else {}
    begin = (f"use = config:{existing.path.name}#{existing.app}",)
    again, errors = (Line(name, ours(name), WHY[name]) for name in ("retry", "errors"))
    app = Line("site", begin, WHY["site"])
    if not existing.factory:
        app = Line(begin[0].removeprefix("use = "), (), WHY["site"])
    if not any("pyramid_tm" in name for name in found.get("tweens", ())):
        left.append(Line("transactions", (), WHY["no pyramid_tm"]))
        return [errors], app
    if "pyramid_retry" in found["modules"]:
        left.append(Line("pyramid_retry", (), WHY["pyramid_retry"]))
    has_sql = "zope.sqlalchemy" in found["modules"]
    left += of_isolation(settings) if has_sql else ()
    is_explicit = found["has_manager_hook"]
    has_zodb = "" in found["databases"] and bool(settings.get("zodbconn.uri"))
    if not existing.factory or not (has_zodb or has_sql or is_explicit):
        left.append(Line("pyramid_tm", (), WHY["pyramid_tm" if existing.factory else "pyramid_tm of a closed app"]))
        return [again, errors], app
    lines = [f"veto = {found['commit_veto']}"] if found["commit_veto"] else []
    transaction = managed("transaction", lines, is_explicit or has_zodb)
    includes = " ".join(["pipeline.mounting", *settings.get("pyramid.includes", "").split()])
    shares = [f"pyramid.includes = {includes}"]
    elements = [again, errors, transaction]
    if has_zodb:
        elements.insert(1, of_zodb(settings, existing.path, is_explicit))
        shares += [f"{name} =" for name in settings if re.match(r"zodbconn\.uri(\.|$)", name)]
    return elements, Line("site", (*begin, *shares), WHY["mounting"])


def managed(name: str, lines: Sequence[str], is_explicit: bool) -> Line:
    """Return the element that begins the transactions.

    is_explicit  False if the code of the application may use the transaction of the thread
    """
    if is_explicit:
        return Line(name, ours(name, *lines), WHY[name])
    return Line(name, ours(name, *lines, OF_THE_THREAD), f"{WHY[name]}; {WHY['manager']}")


def of_isolation(settings: Mapping[str, str]) -> Iterator[Line]:
    """Yield each setting of SQLAlchemy that is not there, and without which changes of one row do not conflict."""
    for name, value in settings.items():
        setting = f"{name.removesuffix('.url')}.isolation_level"
        if name.endswith(".url") and not value.startswith("sqlite") and setting not in settings:
            yield Line(setting, (), WHY["isolation_level"])


def of_zodb(settings: Mapping[str, str], path: Path, is_explicit: bool) -> Line:
    """Return the element for the database of pyramid_zodbconn."""
    others = [
        f"    {name.removeprefix('zodbconn.uri.')} = {value_of(value, path)}"
        for name, value in settings.items()
        if name.startswith("zodbconn.uri.")
    ]
    lines = [f"uri = {value_of(settings['zodbconn.uri'], path)}"]
    lines += ["databases =", *others] if others else []
    return managed("zodb", lines, is_explicit)


def value_of(text: str, path: Path) -> str:
    """Return a value as an ini has it, with ``%(here)s`` for the directory of the ini."""
    return text.replace("%", "%%").replace(f"{path.parent}/", "%(here)s/")


def text_of_ini(existing: Existing, parts: Sequence[Line]) -> Iterator[str]:
    """Yield the lines of the new ini."""
    old = existing.path.name
    yield f"# The site of {old} in a pipeline, written by `pipeline adopt {old}`."
    yield f"# {old} is as it was, and serves the site without the pipeline."
    yield ""
    sections = sections_that_stay(existing.path)
    if defaults := text_of(existing.path, "DEFAULT"):
        yield f"[DEFAULT]\n{defaults.rstrip()}\n"
    yield from (f"# {part.name}: {part.why}" for part in parts if not part.lines)
    yield f"[pipeline:main]\npipeline = {' '.join(part.name for part in parts)}\n"
    for part in parts:
        if part.lines:
            kind = "app" if part is parts[-1] else "filter"
            yield "\n".join([f"# {part.why}", f"[{kind}:{part.name}]", *part.lines, ""])
    for section, text in sections:
        yield f"[{section}]\n{text.strip()}\n"


def sections_that_stay(path: Path) -> Sequence[tuple[str, str]]:
    """Return the sections of the server and of the logging, each with its text. The access log is told by the
    handlers of the root logger."""
    names = re.findall(r"(?m)^\[([^]\n]+)\]", path.read_text("utf-8"))
    kinds = ("server:", "loggers", "handlers", "formatters", "logger_", "handler_", "formatter_")
    stays = {name: text_of(path, name) for name in names if name.startswith(kinds)}
    if "loggers" in stays:
        lines = stays["loggers"].rstrip()
        stays["loggers"] = f"{lines},{' ' if lines[-1:] != ',' else ''}pipeline_access"
        stays["logger_pipeline_access"] = "level = INFO\nhandlers =\nqualname = pipeline.access"
    return list(stays.items())
