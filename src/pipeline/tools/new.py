"""``pipeline new DIR``: a site to start from, with its tests.

Its files stand in ``site``, with the word NAME for its package. The files of a variant stand in a directory such as
``site-api``. They replace those of ``site``; one that is empty leaves the file out. The word DOCS stands for the
address of the documentation. A line with it is left out if the package names no address.
"""

from __future__ import annotations

import keyword
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path

from pipeline.interfaces import ConfigurationError
from pipeline.loading.command_line import options_of, parser_of

FILES = Path(__file__).with_name("site")
VARIANTS = {
    place.parent.name.partition("-")[2]: tomllib.loads(place.read_text("utf-8"))
    for place in sorted(FILES.parent.glob(f"{FILES.name}-*/variant.toml"))
}
"""The variants of a site, each with what its ``variant.toml`` says."""
SUFFIX = ".txt"
"""Suffix of each file here, so that no tool takes them for code of this package."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = parser_of("new")
    for name, variant in VARIANTS.items():
        parser.add_argument(f"--{name}", action="store_true", help=variant["help"])
    options = options_of(parser, arguments)
    directory: Path = options.directory
    variants = [name for name in VARIANTS if getattr(options, name)]
    for name in variants:
        for other, why in VARIANTS[name].get("not_with", {}).items():
            if other in variants:
                parser.error(f"--{other} and --{name}: {why}. Choose one")
    for file in make(directory, package_name(directory.absolute().name), variants):
        print(f"  {file}")
    first = [f"    {VARIANTS[name]['first']}\n" for name in variants if "first" in VARIANTS[name]]
    print(
        f"The site is made. To serve it:\n\n"
        f"    cd {directory}\n"
        f"    {Path(sys.executable).name} -m pip install -e '.[test]'\n"
        f"{''.join(first)}"
        f"    pipeline serve development.ini\n\n"
        f"README.rst says what the files are for. Its tests: {Path(sys.executable).name} -m pytest"
    )
    return 0


def package_name(directory: str) -> str:
    """Return the name of the package for a directory. Raise ConfigurationError if it cannot be one."""
    name = directory.replace("-", "_").lower()
    remedy = "choose a name of letters, digits and hyphens that begins with a letter, such as my-site"
    if not (name.isascii() and name.isidentifier()) or name[0] == "_" or keyword.iskeyword(name):
        raise ConfigurationError(f"{directory!r} cannot be the name of a package: {remedy}")
    is_taken = name in (*sys.stdlib_module_names, "test", "tests")
    if is_taken or getattr(find_spec(name), "origin", None) is not None:  # a directory without code does not count
        hidden = f"there is a module {name!r} already, which the new package would hide"
        raise ConfigurationError(f"{hidden}: choose another")
    return name


def make(directory: Path, name: str, variants: Sequence[str] = ()) -> Iterator[Path]:
    """Write the site and yield each file. Nothing is replaced: the directory must be new or empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigurationError(f"{directory} is not empty: name a directory that is new or empty")
    tops = [FILES, *(FILES.with_name(f"{FILES.name}-{variant}") for variant in variants)]
    sources = {source.relative_to(top): source for top in tops for source in sorted(top.rglob(f"*{SUFFIX}"))}
    urls = metadata("wsgi-pipeline").get_all("Project-URL") or ()
    docs = dict(url.split(", ", 1) for url in urls).get("Documentation")
    for place, source in sorted(sources.items()):
        if not source.stat().st_size:
            continue
        lines = source.read_text("utf-8").splitlines(keepends=True)
        text = "".join(line.replace("DOCS", docs or "") for line in lines if docs or "DOCS" not in line)
        target = directory / str(place).removesuffix(SUFFIX).replace("NAME", name).replace("dot-", ".")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(text.replace("NAME", name))
        yield target
