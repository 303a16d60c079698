"""``pipeline check INI [name=value ...]``: load every pipeline, and report what only a reader can find."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pipeline.checking.branches import of_switches
from pipeline.checking.logs import of_logging
from pipeline.checking.servers import is_for_development, of_paster, of_server
from pipeline.checking.values import slips_in
from pipeline.composition import Element
from pipeline.explaining.unscanned import unscanned
from pipeline.ini import lines_from, place_in, sections_of, text_of, variables_of
from pipeline.loading.building import Built, build
from pipeline.loading.command_line import (
    facts_of,
    options_of,
    parse_variables,
    parser_of,
    plan_of,
    split_name,
    unread,
)
from pipeline.options import resolve
from pipeline.paste import Chain, Step, refuse_unadded
from pipeline.rendering import with_render
from pipeline.request import SAFE_METHODS
from pipeline.telling.descriptions import providers
from pipeline.telling.errors import in_one_line, is_ours
from pipeline.telling.findings import Finding, Level, of_error, put_findings, put_json
from pipeline.telling.secrets import MASK, masked_urls
from pipeline.telling.words import place_of, written
from pipeline.tools.shell import in_site

ORDER = ("error", "warning", "note")
WEAK = {"", "admin", "changeme", "password", "postgres", "root", "secret", "test", "zope"}
"""Passwords that are tried first."""
CLEANED = ("/tmp/", "/var/tmp/", "/dev/shm/")
"""Directories whose files a restart or a timer of the system removes."""
MOST_MEMORY = 1 << 30
"""A limit in bytes beyond this is not a limit."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = options_of(parser_of("check"), arguments)
    path, name = split_name(options.ini)
    findings, chains = check_file(path, name, options.variables)
    if options.database and not any(finding.level == "error" for finding in findings):
        findings += stored_in(options.ini, path, options.variables)
    findings.sort(key=lambda finding: ORDER.index(finding.level))
    levels = {finding.level for finding in findings}
    bad = "error" in levels or (options.strict and "warning" in levels)
    if options.json:
        put_json({"ini": str(path), "ok": not bad, "findings": [finding.as_dict() for finding in findings]})
    else:
        put_findings(findings)
        count = sum(len(chain.steps) for chain in chains)
        said = "does not load" if "error" in levels else "in order and complete"
        print(f"{options.ini}: {len(chains)} pipeline{'s' * (len(chains) != 1)}, {count} parts, {said}")
    return 1 if bad else 0


def stored_in(ini: str, path: Path, words: list[str]) -> list[Finding]:
    """Return what is found in the databases of a site. They are opened as for a request."""
    found: list[Finding] = []

    def work(names: Mapping[str, Any]) -> int:
        found.extend(resolve("pipeline.checking.stored:of_stored")(names["request"], path.parent))
        return 0

    try:
        in_site(ini, words, work, has_root=False)
    except Exception as error:
        if is_ours(error):
            raise
        found.append(of_error(error, str(path)))
    return found


def check_file(path: Path, name: str | None, words: list[str]) -> tuple[list[Finding], list[Chain]]:
    """Return all that is found in an ini, and the pipelines that could be planned."""
    findings: list[Finding] = []
    chains: list[Chain] = []
    for start in [name] if name is not None else starts(path):
        ini = f"{path}#{start}"
        try:
            planned = plan_of(ini, words, has_order=True)
            chains += planned
            built = build(ini, words)
            refuse_unadded(planned)
        except Exception as error:
            if is_ours(error):
                raise
            findings.append(of_error(error, str(path)))
            continue
        findings += of_views(built)
        findings += of_unscanned(built, path)
        modules = {view.function.__module__ for _, views in built.views() for _, _, _, view in views}
        if rendering := with_render(modules):
            findings += resolve("pipeline.checking.templates:of_templates")(rendering)
    if findings:  # loading stops at the first package that is missing
        told = [f"{finding.where} {finding.what}" for finding in findings]
        findings += [one for one in of_packages(path) if not any(one.where in text for text in told)]
    debug: Level = "note" if is_for_development(path) else "warning"
    for chain in chains:
        findings += of_chain(chain, debug)
    variables = variables_of(path)
    for given, near in unread(chains, variables):
        findings.append(Finding.of("unread variable", variables[given], name=given, near=near))
    if name is None:
        others = path.parent.glob("*.ini")
        beside = [ini for ini in others if f"config:{path.name}#" in ini.read_text("utf-8", "replace")]
        findings += [*of_sections(path, beside), *of_used(path, chains)]
    findings += of_indented(path)
    if chains:
        findings += of_switches(path, parse_variables(words))
    bodies = [told.max_body for _, told in facts_of(chains) if told.max_body is not None]
    findings += of_server(path, parse_variables(words), max(bodies, default=None))
    findings += of_logging(path, parse_variables(words))
    findings += of_paster(Path.cwd())
    return list(dict.fromkeys(findings)), chains


def starts(path: Path) -> list[str]:
    """Return the names of the apps to load: main, and each pipeline or composite that no section names."""
    sections = sections_of(str(path))
    named = {word for section in sections for word in _words(path, section)}
    others = [
        name.strip()
        for kind, _, name in (section.partition(":") for section in sections)
        if kind in ("pipeline", "composite", "composit") and name.strip() not in named
    ]
    return list(dict.fromkeys(["main", *others]))


def _words(path: Path, section: str) -> set[str]:
    """Return the words of the values of a section, which may be names of other sections."""
    text = text_of(path, section)
    lines = [re.sub(r"^[^\s=:#;][^=:]*+[=:]", "", line) for line in text.splitlines() if line[:1] not in "#;"]
    return {word.partition("#")[2] or word for word in " ".join(lines).replace(",", " ").split()}


def of_sections(path: Path, others: Iterable[Path] = ()) -> Iterator[Finding]:
    """Yield the sections of an ini that no pipeline uses, and that no other ini names. One of another kind may be
    for another program, and counts if it has the name of a part, or nearly that of a kind."""
    sections = sections_of(str(path))
    kinds = ("app", "application", "filter", "filter-app", "pipeline", "composite", "composit")
    ours = {section: section.partition(":") for section in sections if section.partition(":")[0] in kinds}
    names = {section: name.strip() or "main" for section, (_, _, name) in ours.items()}
    reached, more = set[str](), {"main", *starts(path)}
    more |= {word for other in others for section in sections_of(str(other)) for word in _words(other, section)}
    while not more <= reached:
        reached |= more
        more = {word for section, name in names.items() if name in reached for word in _words(path, section)}
    for section in sections:
        kind, colon, _ = section.partition(":")
        if section in names:
            is_unused = names[section] not in reached
        else:
            is_unused = section in reached or bool(colon and kind != "server" and get_close_matches(kind, kinds))
        if is_unused:
            named = {"section": section, "name": names.get(section, section)}
            yield Finding.of("unused section", place_in(path, section), **named)


def of_packages(path: Path) -> Iterator[Finding]:
    """Yield the packages that are not installed, and the modules that are missing for what a section uses."""
    for section, (_, keys) in sections_of(str(path)).items():
        _, value = keys.get("use", (0, None))
        scheme, _, used = (value or "").strip().partition(":")
        package, _, name = used.partition("#")
        if scheme != "egg" or section.startswith("server:"):
            continue
        where = place_in(path, section, "use")
        try:
            for point in distribution(package).entry_points:
                if point.name == (name or "main") and point.group.startswith("paste."):
                    point.load()
        except PackageNotFoundError:
            yield Finding("error", where, f"the package {package!r} is not installed", f"pip install {package}")
        except ModuleNotFoundError as error:
            yield Finding("error", where, in_one_line(error), "")
        except Exception:  # loading the section says it
            continue


def of_used(path: Path, chains: Iterable[Chain]) -> Iterator[Finding]:
    """Yield the filters of the inis that an ini uses, if no pipeline has them."""
    places = [step.where for chain in chains for step in chain.steps]
    files = {path, *(Path(place.partition(", section ")[0]) for place in places if place)}
    for other in sorted(files - {path}):
        yield from (one for one in of_sections(other, files - {other}) if ", section [filter:" in one.where)


def of_indented(path: Path) -> Iterator[Finding]:
    """Yield the options that are indented below another one, and so belong to its value."""
    for section, (_, keys) in sections_of(str(path)).items():
        is_plain = section.startswith(("server:", "logger", "handler", "formatter"))
        for option, (number, value) in keys.items():
            first, *more = (value or "").splitlines() or [""]
            for line in more if first and (option == "use" or is_plain) else ():
                if re.match(r"\s*\w+\s*=", line):
                    where = f"{path}, section [{section}], line {number + 1 + more.index(line)}"
                    yield Finding.of("indented option", where, line=line.strip())


def of_views(built: Built) -> Iterator[Finding]:
    """Yield what is wrong with the views of the publishers."""
    for step, views in built.views():
        if not any(True for _ in views):
            yield Finding.of("no views", step.where)
        for view in dict.fromkeys(view for _, _, _, view in views):
            never = getattr(view.fill, "never_of_query", ()) if SAFE_METHODS.issuperset(view.methods) else ()
            if never:
                name, methods = view.function.__qualname__, " and ".join(view.methods)
                where = place_of(view.function)
                yield Finding.of("file of a query", where, view=name, methods=methods, files=", ".join(never))


def of_unscanned(built: Built, path: Path) -> Iterator[Finding]:
    """Yield the views beside the ini that no scan names."""
    for view in unscanned((views for _, views in built.views()), path.parent):
        told = "view that is refused" if view.why else "view without scan"
        named = {"function": view.function, "name": view.name or "a default view", "why": view.why}
        yield Finding.of(told, f"{view.file}, line {view.line}", **named)


def _elements(chain: Chain) -> list[tuple[Step, Element]]:
    return [(step, step.element) for step in chain.steps if step.element is not None]


def of_chain(chain: Chain, debug: Level) -> Iterator[Finding]:
    """Yield what a reader finds in the elements of one pipeline and their options.

    debug  the level of an element in debug mode
    """
    steps = _elements(chain)
    provided = {thing for _, element in steps for thing in element.contract.provides}
    tells = any(step.facts.may_be_behind for step, _ in steps)
    alone = len(steps) == len(chain.steps)  # a foreign app or middleware may join a transaction, or want a retry
    for step, element in steps:
        facts = step.facts
        thing = facts.useless_without
        if thing and thing not in provided and alone:
            named = {"element": element.name, "thing": thing, "providers": providers(thing)}
            yield Finding.of("nothing to do", step.where, **named)
        if "written" in element.contract.provides and alone and not tells:
            yield Finding.of("own reads", step.where, element=element.name)
        for what, remedy in facts.advice:
            yield Finding("warning", step.where, what, remedy)
        yield from of_options(step, element, debug)
        yield from of_files(step)
    end = chain.steps[-1]
    if "attempts" in provided and end.element is None and not any(map(_is_repeatable, chain.steps)):
        yield Finding.of("not repeated", end.where, end=end)
    is_again = False
    last = chain.steps.index(steps[-1][0]) if steps else 0
    for step in chain.steps[:last]:  # what is behind it is a part of a foreign end
        if step.element is not None:
            is_again = is_again or "attempts" in step.element.contract.provides
        elif is_again and not _is_repeatable(step):
            yield Finding.of("passed again", step.where, step=step, providers=providers("attempts"))
    if "content_policy" in provided and end.element is None:
        yield Finding.of("scripts of another app", end.where, end=end)
    if "error_pages" not in provided and len(steps) > 1:
        yield Finding.of("no error pages", steps[0][0].where, providers=providers("error_pages"))


def _is_repeatable(step: Step) -> bool:
    says_so = getattr(step.factory, "__module__", "") == "pipeline.mounting"
    return says_so or "pipeline.mounting" in step.strings.get("pyramid.includes", "").split()


def of_options(step: Step, element: Element, debug: Level) -> Iterator[Finding]:
    """Yield the options of an element that are not safe in production, or that say nothing."""
    source = step.source
    parameters = inspect.signature(element.factory).parameters
    secrets = step.facts.secrets
    for option, value in element.options.items():
        where = source.option(option)
        if option == "debug" and value is True:
            places = (variables_of(ini).get(variable(where)) for ini in source.inis)
            place = next(filter(None, places), where)
            yield Finding.of("debug mode", place, element=element.name)._replace(level=debug)
        elif option.startswith("max_") and isinstance(value, int) and value > MOST_MEMORY:
            yield Finding.of("no limit", where, option=option, value=value, element=element.name)
        elif value is None or option in secrets or variable(where):
            pass  # None may stand for something else
        elif parameters[option].default == value:
            yield Finding.of("default", where, option=option, value=written(value), element=element.name)
        text = masked_urls(step.strings.get(option, ""))
        for found, what, remedy in slips_in({f"{element.name}.{option}", type(value).__name__}, text):
            shown = MASK if option in secrets else found
            yield Finding("warning", where, f"{option}: {shown!r} {what}", remedy)
        if isinstance(value, str) and (weak := _weak_password(value)):
            yield Finding.of("weak password", where, user=weak)


def variable(where: str) -> str:
    """Return the name of the variable that an option takes its value from (``get option = name``), or ""."""
    line = "".join(lines_from(where)[:1])
    return line.partition("=")[2].strip() if line.startswith("get ") else ""


def _weak_password(uri: str) -> str:
    """Return the user of a URI whose password is easily guessed, or ""."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    user = parts.username or "nobody"
    return user if parts.password is not None and unquote(parts.password).lower() in {*WEAK, user.lower()} else ""


def of_files(step: Step) -> Iterator[Finding]:
    """Yield the files that an element writes and that are missing, with their directories, and relative paths."""
    for file in (Path(path) for path in step.facts.writes if not path.endswith("/")):
        where = place_of_value(step, str(file))
        if not file.is_absolute():
            yield Finding.of("relative path", where, file=file)
        if str(file).startswith(CLEANED) and not step.where.startswith(CLEANED):
            what = f"the file {file} is lost when the system cleans this directory, at the latest at its next start"
            yield Finding("warning", where, what, "Choose a directory that stays, such as %(here)s/var.")
        if file.exists():
            continue
        if re.search(r"[$]|^~|\s(?:[#;]|$)", str(file)):
            yield Finding.of("path as it is", where, file=str(file))
        if file.parent.is_dir():
            yield Finding("note", where, f"the file {file} is not there yet", "The site makes it.")
        else:
            yield Finding("error", where, f"the directory {file.parent} is missing", f"mkdir -p {file.parent}")


def place_of_value(step: Step, text: str) -> str:
    """Return the place of the first option of a step that has a text in its value; of the step if none has."""
    found = (name for name, value in step.strings.items() if text in unquote(value))
    option = next(found, None)
    return step.where if option is None else step.source.option(option)
