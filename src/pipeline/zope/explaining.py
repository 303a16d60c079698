"""The steps of a Zope site for ``pipeline explain``: how each was found, the roles, the user, the hooks.

The request of Zope gets a ``traverseName`` that notes the step and calls Zope's own. The walk, its hooks and the
user folders are Zope's.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from itertools import pairwise
from traceback import walk_tb
from types import MethodType
from typing import Any

from AccessControl import getSecurityManager
from AccessControl.ZopeSecurityPolicy import getRoles
from Acquisition import aq_base, aq_chain, aq_inner, aq_parent
from zExceptions import Forbidden, NotFound, Redirect, Unauthorized
from zope.component import getSiteManager
from zope.interface import Interface
from zope.publisher.interfaces import IPublishTraverse
from zope.publisher.interfaces import NotFound as ToolkitNotFound
from zope.traversing.interfaces import ITraversable
from zope.traversing.namespace import nsParse
from ZPublisher.BaseRequest import UNSPECIFIED_ROLES, DefaultPublishTraverse
from ZPublisher.BaseRequest import __file__ as WALK_FILE
from ZPublisher.BeforeTraverse import __file__ as HOOK_FILE

from pipeline.explaining.walking import Taken, Walk, near
from pipeline.telling.words import kind_name, line_of_the_site, place_of, short
from pipeline.toolkit.pages import bare_class, called, dotted, lookup, template_of

log = logging.getLogger("pipeline.zope")

GETITEM = "its __getitem__"
NOTHING = "nothing has the name"
MOST_OTHERS = 3
"""Views of the wanted name for other objects that are told."""


class Watcher:
    """The notes of one attempt. A request of Zope that has a watcher notes its steps."""

    def __init__(self, walk: Walk, zope: Any) -> None:
        walk.reset()
        self.walk = walk
        self.zope = zope
        self.source = "path"
        self.left: list[str] = []
        """The names that were to come when a step was over, the next one last."""
        self.address: Any = None
        """The address of the server, as the site sees it."""
        self.ob: Any = None
        """The object that the walk stands on."""
        self.traverse_name = zope.traverseName
        self.traverse = zope.traverse
        zope.traverseName = self.traverseName
        zope.traverse = self.traverse_path

    def traverse_path(self, path: str, *arguments: Any, **options: Any) -> Any:
        """Walk as Zope does. A request that a view clones walks for itself."""
        self.ob = root = self.zope["PARENTS"][-1]
        self.address = self.zope.get("SERVER_URL")
        self.left = [name for name in reversed(path.split("/")) if name not in ("", ".")]
        self.note("", root, "the root", short_of(root))
        found = self.traverse(path, *arguments, **options)
        self.hooks([])
        user = getSecurityManager().getUser()
        last = self.walk.steps[-1]
        told = f"{last.result}; {needed(self.zope.roles)}; asked by {who_is(user)}"
        self.walk.steps[-1] = last._replace(result=told)
        self.walk.view = (place_of_view(found), named(found, self.zope.steps))
        return found

    def traverseName(self, ob: Any, name: str) -> Any:
        """Take a step as Zope does, and note it."""
        self.ob = ob
        now = list(self.zope["TraversalRequestNameStack"])
        self.hooks([*now, name])
        if not self.left and not now:
            self.source = f"default view of {short_of(ob)}"
        try:
            who = found_by(ob, name, self.zope)
        except Exception as error:  # of an attribute of the site, which Zope may never ask for
            who = f"(looking for it raised {type(error).__name__})"
        try:
            found = self.traverse_name(ob, name)
        except Exception as error:
            self.note(name, ob, who, f"raised: {type(error).__name__}", near(aq_base(ob), name))
            self.walk.cause = self.cause_of_step(ob, name, error)
            raise
        self.note(name, ob, who, short_of(found))
        if "acquired from" in who:
            self.walk.surprises.append(f"the step {name!r} was {who[who.index('acquired from') :]}")
        self.left, self.ob = now, found
        return found

    def hooks(self, names: list[str]) -> None:
        """Note the hooks of the object that the walk stands on, and what they have changed.

        names  the names that are to come now, the next one last
        """
        told = hooks_of(self.ob)
        if not told:
            return
        changed = []
        if self.left and names != self.left:
            changed.append(f"the path goes on with {' '.join(reversed(names)) or 'nothing'}")
        address = self.zope.get("SERVER_URL")
        if address != self.address:
            self.address = address
            changed.append(f"the site is at {address}")
        result = " and ".join(changed)
        self.note("(hook)", self.ob, ", ".join(told), result or "the path is as it was")
        if result:
            called_hook = f"the hook of {short_of(self.ob)} was called ({', '.join(told)})"
            self.walk.surprises.append(f"{called_hook}, and {result}")

    def note(self, name: str, ob: Any, who: str, result: str, near: str = "") -> None:
        ok = not result.startswith("raised: ")
        # Texts alone: the connection may be closed when the steps are shown.
        self.walk.steps.append(Taken(name, self.source, short_of(ob), who, result, ok, near=near))

    def published(self) -> None:
        """Note what a product does to the answer of a view, while the transaction is there."""
        theme = theme_is_off(self.zope)
        if theme:
            self.walk.surprises.append(theme)

    def failed(self, error: BaseException) -> None:
        """Note the cause of an exception, while the transaction and the user are there."""
        if self.walk.cause is None or isinstance(error, Unauthorized):
            try:
                self.walk.cause = self.cause_of(error)
            except Exception:  # what cannot be told must not change the answer
                log.debug("the cause of an exception cannot be told", exc_info=True)

    def cause_of_step(self, ob: Any, name: str, error: Exception) -> tuple[str, str, str] | None:
        """Return why a step leads nowhere."""
        where = "zope_traverse"
        step = f"the step {name!r} from {short_of(ob)}"
        if isinstance(error, Forbidden):
            hidden = "A name in a path must not start with '_'."
            remedy = hidden if name[:1] == "_" else "Decorate it with @zpublish if clients may call it."
            place = place_of_view(getattr(ob, name, ob))
            return place, f"{step} is refused: {short(str(error), 300)}", remedy
        if isinstance(error, (KeyError, AttributeError, NotFound, ToolkitNotFound)):
            last = self.walk.steps[-1]
            for view, kind in others(name.removeprefix("@@"), ob, self.zope):
                why = f"{step} found nothing: the view {view.__qualname__} of that name is for {kind}"
                return place_of(view), why, "Register it for this object as well, or ask another object."
            meant = f" Did you mean {last.near!r}?" if last.near else ""
            return where, f"{step} found nothing ({last.answered_by})", f"Add it, or register a view.{meant}"
        return None

    def cause_of(self, error: BaseException) -> tuple[str, str, str]:
        """Return where an error comes from, what it is, and what to do about it."""
        where = self.walk.view[0] if self.walk.view else "zope_traverse"
        hook = hook_that_raised(error)
        if hook is not None and not self.walk.view:
            told = ", ".join(hooks_of(self.ob))
            self.note("(hook)", self.ob, told, f"raised: {type(error).__name__}")
            what = f"raised {type(error).__name__}: {error}"
            if isinstance(error, Redirect):
                what = f"redirects to {error}"
            return hook, f"a hook of {short_of(self.ob)} {what} ({told})", "Change or remove that hook."
        if isinstance(error, Unauthorized):
            return self.cause_of_refusal(error, where)
        if isinstance(error, Redirect):
            return line_of_the_site(error) or where, f"{self.who_raised()} raised a redirect to {error}", ""
        if isinstance(error, (NotFound, ToolkitNotFound)) and not self.walk.view:
            return where, f"the path is refused: {short(str(error), 300)}", "Ask another path."
        what = f"{self.who_raised()} raised {type(error).__name__}: {short(str(error), 600)}"
        return line_of_the_site(error) or where, what, "The log below says more."

    def who_raised(self) -> str:
        if not self.walk.steps:
            return "reading the inputs of the request"
        last = self.walk.steps[-1]
        return f"the view {self.walk.view[1]}" if self.walk.view else f"the step {last.name!r} from {last.obj}"

    def cause_of_refusal(self, error: Unauthorized, where: str) -> tuple[str, str, str]:
        """Return why a user was refused: the roles that are needed, and those that are held."""
        zope = self.zope
        if self.walk.view:
            user = getSecurityManager().getUser()
            folders = ""
            ob, name = getattr(error, "value", None), getattr(error, "name", None)
            needs = needed(getRoles(None, name, ob, UNSPECIFIED_ROLES)) if ob is not None else ""
            what = f"{self.who_raised()} raised Unauthorized: {short(str(error), 300)}"
            what += f"; {needs}" if needs else ""
            ob = zope.get("PUBLISHED")
        else:
            user, folders = login(zope)
            ob = zope.get("PUBLISHED")
            what = f"{needed(zope.roles)} for {named(ob, zope.steps)}"
            where = place_of_view(ob)
        held = ", ".join(sorted(user.getRolesInContext(ob))) if user is not None else "Anonymous"
        what += f", and {who_is(user)} held {held} on {path_of(parent_of(ob))}{folders}"
        return where, what, "Log in (-H 'Authorization: Basic ...'), or give the user or the permission a role."


def theme_is_off(zope: Any) -> str:
    """Return why a site with plone.app.theming puts no theme around an answer, or "" if it does or has none."""
    theming = sys.modules.get("plone.app.theming.utils")
    if theming is None:
        return ""
    answer = zope.response
    if not (answer.getHeader("content-type") or "").startswith("text/html"):
        return ""
    policy = theming.theming_policy(zope)
    settings = policy.getSettings()
    if settings is None or policy.isThemeEnabled():
        return ""
    if answer.getHeader("X-Theme-Disabled"):
        why = "the view has set the header X-Theme-Disabled"
    elif not settings.enabled:
        why = "it is turned off in the control panel of themes"
    else:
        why = f"diazo.off is asked for, or {zope.get('SERVER_URL')} is a host without themes"
    return f"the theme is off: {why}"


def found_by(ob: Any, name: str, zope: Any) -> str:
    """Return how a step is found, as ``traverseName`` and ``DefaultPublishTraverse`` look for it."""
    space, rest = nsParse(name) if name[:1] in "@+" else ("", name)
    if space:
        if space == "view":
            return f"a view: {called(lookup(ob, zope, Interface, rest))}"
        return f"the namespace {space}: {called(lookup(ob, zope, ITraversable, space))}"
    if IPublishTraverse.providedBy(ob):
        return f"{class_of(ob).__qualname__}.publishTraverse ({place_of(class_of(ob))})"
    adapter = lookup(ob, zope, IPublishTraverse)
    if adapter is not None:
        how = found_in(ob, name, zope) if issubclass(bare_class(adapter), DefaultPublishTraverse) else NOTHING
        return f"IPublishTraverse adapter {called(adapter)}" + ("" if how in (GETITEM, NOTHING) else f": {how}")
    how = found_in(ob, name, zope)
    if hasattr(ob, "__bobo_traverse__"):
        own = how in (GETITEM, NOTHING)
        return f"__bobo_traverse__ of {class_of(ob).__qualname__}" + ("" if own else f": {how}")
    return how


def found_in(ob: Any, name: str, zope: Any) -> str:
    """Return where an object has a name: itself, by a view, acquired, or nowhere."""
    bare = aq_base(ob)
    if hasattr(bare, name):
        is_item = hasattr(bare, "objectIds") and name in ob.objectIds()
        return "an item" if is_item else f"an attribute of {class_of(ob).__qualname__}"
    view = lookup(ob, zope, Interface, name)
    if view is not None:
        return f"a view: {called(view)}"
    for chain, how in (aq_chain(aq_inner(ob)), ""), (aq_chain(ob), ", which the path has passed"):
        for above in chain[1:]:
            if name[:1] != "_" and hasattr(aq_base(above), name):
                return f"acquired from {path_of(above)}{how}"
    return GETITEM if hasattr(bare, "__getitem__") else NOTHING


def others(name: str, ob: Any, zope: Any) -> Iterator[tuple[Any, str]]:
    """Yield the views of a name that are for other objects or other kinds of requests."""
    found = 0
    for one in getSiteManager().registeredAdapters():
        if one.name == name and name and len(one.required) == 2 and found < MOST_OTHERS:
            found += 1
            is_for = one.required[0]
            layer = "" if one.required[1].providedBy(zope) else f" and requests of {kind_name(one.required[1])}"
            yield bare_class(one.factory), f"{kind_name(is_for)}{layer}, which {short_of(ob)} is not"


def hooks_of(ob: Any) -> list[str]:
    """Return the hooks that Zope calls before it goes on from an object."""
    bare = aq_base(ob)
    hook = getattr(bare, "__before_publishing_traverse__", None)
    if hook is None:
        return []
    found = []
    if hasattr(type(bare), "__before_publishing_traverse__"):
        found.append(f"{type(bare).__qualname__}.__before_publishing_traverse__")
    for (_, registered), one in sorted(getattr(bare, "__before_traverse__", {}).items()):
        name = getattr(one, "name", None)
        calls = f" that calls {name!r}" if isinstance(name, str) and name else ""
        found.append(f"{type(one).__qualname__} {registered!r}{calls}")
    return found or [f"{type(hook).__qualname__}"]


def hook_that_raised(error: BaseException) -> str | None:
    """Return the place of the hook that raised an error, or None if none did."""
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__)]
    for (frame, _), (inner, _) in pairwise(frames):
        is_walk = frame.f_code.co_filename == WALK_FILE and frame.f_code.co_name == "traverse"
        code = inner.f_code
        is_hook = code.co_name == "__before_publishing_traverse__" or code.co_filename == HOOK_FILE
        if is_walk and is_hook:
            last, line = frames[-1]
            return f"{last.f_code.co_filename}, line {line}"
    return None


def login(zope: Any) -> tuple[Any, str]:
    """Return the user that the credentials of a request belong to, and what the user folders said.

    They are asked again, and for no roles: the user is told although it lacks the roles.
    """
    asked = []
    for above in zope["PARENTS"]:
        folder = getattr(aq_base(above), "__allow_groups__", None)
        if folder is None:
            continue
        folder = above.__allow_groups__
        try:
            user = folder.validate(zope, zope._auth, None)
        except Exception:
            user = None
        if user is not None and user.getUserName() != "Anonymous User":
            return user, ""
        asked.append(path_of(folder))
    if zope._auth is None or not asked:
        return None, ""
    return None, f"; no user of {' or '.join(asked)} has these credentials"


def needed(roles: Any) -> str:
    """Return which roles may see an object."""
    if roles is None or roles == UNSPECIFIED_ROLES or "Anonymous" in roles:
        return "no role was needed"
    words = list(dict.fromkeys(role for role in roles if role != "Shared"))
    return f"{' or '.join(words)} was needed" if words else "it is private, so that no role is enough"


def who_is(user: Any) -> str:
    """Return the name of a user, and the folder that knew it."""
    if user is None or user.getUserName() in (None, "Anonymous User"):
        return "a visitor who is not logged in"
    return f"{user.getUserName()!r} of {path_of(aq_parent(aq_inner(user)))}"


def path_of(ob: Any) -> str:
    """Return the path of an object."""
    try:
        return "/".join(ob.getPhysicalPath()) or "/"
    except AttributeError:
        return short(aq_base(ob))


def parent_of(ob: Any) -> Any:
    """Return the object itself, or the one that a view, a method or a template of a class is of."""
    ob = getattr(ob, "__self__", ob)
    while ob is not None and not is_content(ob):
        above = getattr(aq_base(ob), "context", None)
        ob = above if above is not None else aq_parent(aq_inner(ob))
    return ob


def is_content(ob: Any) -> bool:
    """Return whether an object has a place of its own in the site."""
    if not hasattr(aq_base(ob), "getPhysicalPath"):
        return False
    above = aq_parent(aq_inner(ob))
    return not hasattr(aq_base(above), "objectIds") or ob.getId() in above.objectIds()


def short_of(ob: Any) -> str:
    """Return an object in a few words."""
    bare = aq_base(ob)
    cls = class_of(ob)
    if hasattr(bare, "getPhysicalPath"):
        return f"the {cls.__qualname__} {path_of(ob)}"
    if isinstance(ob, MethodType):
        return f"the method {name_of(ob)}"
    return f"the view {dotted(cls)}" if hasattr(bare, "context") else short(bare)


def class_of(ob: Any) -> type:
    """Return the class of an object, or of the object of a method. ZCML makes subclasses, which do not count."""
    ob = getattr(ob, "__self__", ob)
    cls: type = bare_class(type(aq_base(ob)))
    return cls


def name_of(found: Any) -> str:
    """Return the name of a view or method."""
    cls = class_of(found)
    name = found.__name__ if isinstance(found, MethodType) else "__call__"
    if name == "__call__" and template_of(type(aq_base(found))):
        return repr(found.__name__)
    return dotted(cls) if name == "__call__" else f"{dotted(cls)}.{name}"


def named(found: Any, steps: list[str]) -> str:
    """Return the name of what was published. A template of a class is named by the step that leads to it."""
    is_of_class = hasattr(aq_base(found), "getPhysicalPath") and not is_content(found)
    return f"{steps[-1]} of {short_of(parent_of(found))}" if is_of_class and steps else name_of(found)


def place_of_view(found: Any) -> str:
    """Return the place of a method, or of the class of a view."""
    is_named = isinstance(found, MethodType) and found.__name__ != "__call__"
    template = template_of(type(aq_base(found)))
    return template if template and not is_named else place_of(found.__func__ if is_named else class_of(found))
