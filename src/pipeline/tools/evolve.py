"""``pipeline evolve INI --steps MODULE``: bring stored objects to the classes of today, by numbered steps."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from persistent.mapping import PersistentMapping
from transaction.interfaces import DoomedTransaction

from pipeline.declared import runs_nothing
from pipeline.interfaces import ConfigurationError
from pipeline.loading.command_line import make_importable, options_of, parser_of, split_name
from pipeline.telling.errors import refusal
from pipeline.tools.shell import in_site

KEY = "pipeline.evolved"
"""Key of the root of the database: a mapping from the name of a module to the number of its last step."""
FAILED = {
    "": "Nothing of this step is stored",
    "committed": "A part of this step is stored, by a commit of its own",
    "unknown": "This step may be stored: the next run tells",
}
"""Words for a step that has failed, by the outcome of its changes (R4)."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = options_of(parser_of("evolve"), arguments)
    make_importable(split_name(options.ini)[0])
    module = import_module(options.steps)
    steps = steps_of(module)
    return in_site(options.ini, options.variables, lambda names: evolve(names, module, steps, options.dry_run))


def steps_of(module: ModuleType) -> list[Callable[[Any], object]]:
    """Return the steps of a module in their order. Raise ConfigurationError if a number is missing."""
    found = {
        int(match[1]): value
        for name, value in vars(module).items()
        if (match := re.fullmatch(r"evolve_(\d+)", name))
    }
    if sorted(found) != list(range(1, len(found) + 1)) or not found:
        missing = next(number for number in range(1, len(found) + 2) if number not in found)
        raise refusal("no step", module=module.__name__, number=missing)
    for number, step in found.items():
        if reason := runs_nothing(step):
            raise ConfigurationError(f"{module.__name__}: evolve_{number} {reason}")
    return [found[number] for number in sorted(found)]


def evolve(
    names: Mapping[str, Any], module: ModuleType, steps: Sequence[Callable[[Any], object]], is_dry: bool
) -> int:
    """Run the steps that the database has not had; return the exit status."""
    request = names["request"]
    try:
        done = int(request.zodb.root().get(KEY, {}).get(module.__name__, 0))
    except AttributeError:
        said = "this pipeline has no element zodb. The tables of sql evolve by Alembic"
        raise ConfigurationError(said) from None
    if done > len(steps):
        raise refusal("steps are missing", done=done, module=module.__name__, last=len(steps))
    for number, step in list(enumerate(steps, 1))[done:]:
        said = (inspect.getdoc(step) or step.__name__).partition("\n")[0]
        request.tm.outcome = ""
        if is_dry:
            request.tm.get().doom()
        try:
            step(request.root)
            mapping = request.zodb.root().setdefault(KEY, PersistentMapping())
            mapping[module.__name__] = number
            if not is_dry:
                names["commit"]()
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            why = "commits by itself, so it has no dry run" if isinstance(error, DoomedTransaction) else "failed"
            print(f"{number}. {said}: {why}. {FAILED[request.tm.outcome]}")
            names["abort"]()
            return 1
        print(f"{number}. {said}")
    if is_dry:
        names["abort"]()
    what = "would be done, and nothing is stored" if is_dry else "done"
    print(
        f"{module.__name__}: {len(steps) - done} of {len(steps)} steps {what}"
        if done < len(steps)
        else f"{module.__name__}: all {len(steps)} steps were done before"
    )
    return 0
