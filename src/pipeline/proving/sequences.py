"""Sequences: several requests one after the other, by several users, made of the links and forms that the pages of
the site show then. A sequence that fails is made as short as it can be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from random import Random
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes, urlsplit

from pipeline.interfaces import ConfigurationError
from pipeline.proving.links import CHANGED, DEAD, landed, leading
from pipeline.proving.report import Report
from pipeline.proving.rules import NOBODY, REFUSED, broken_invariants, failing, is_open
from pipeline.proving.values import FILES, MARK, SCRIPT, SHAPES, is_markup
from pipeline.staging.asked import FORM, JSON, MULTIPART, NUMBER, Asked, asked, with_values
from pipeline.staging.copies import Stored
from pipeline.staging.runs import Run
from pipeline.staging.site import Site
from pipeline.telling.secrets import masked_query
from pipeline.views import View

SEQUENCES = 150
"""How many sequences are tried at least, unless their number is given."""
FOR_EACH = 40
"""How many sequences are tried for each view that changes something."""
LONGEST = 6
"""Requests of a sequence."""
ALIKE = 5
"""How many requests are known that are alike."""
PAGES = 2
"""How many links of a page are followed once more."""
LINKS = 6
"""How many links of a page are followed."""
TOKEN = re.compile(r"prove\d+q\d")
"""A value that one sequence alone has sent. What it has stored is undone before the next one."""
FIGURES = ("0", "1", "-1", "-1", "-5", "3", "10", "1000")
"""Values of fields that have a number, besides the numbers of pages."""
TEXTS = ("0", "-1", "", "x" * 1500, "//elsewhere.example/", "ž" * 60, MARK, MARK, MARK, SCRIPT)
"""Values of fields, besides tokens and the names of users."""
RATES = (0.0, 0.3, 0.5, 0.7)
"""Parts of the fields of a request that get other values."""
KINDS = {"%7B": JSON, "%5B": JSON, "--": MULTIPART}
"""Types of other bodies than those of plain forms, by how they begin in the command of a finding."""
SHORTENED = 3
"""How many sequences with one finding are made as short as they can be; the shortest of them is told."""
SAFE = ("GET ", "HEAD ")
UNDONE = ("sql.rollback:after", ".abort:after")
"""Points at which what was changed is taken back."""
NUMBERS = 8
"""How many numbers of the last pages are known: a stock, say, of which one more is ordered."""


def prove_sequences(
    site: Site, requests: Sequence[Asked], report: Report, users: Sequence[str] = (), most: int | None = None
) -> None:
    """Try sequences of requests by the user of the site, further users and strangers: ``most``, or as many as the
    views that change something ask for. As many again are tried until each of these has succeeded."""
    explorer = Explorer(site, requests, [site.user or NOBODY, *users, NOBODY])
    with report.line("sequences", "several requests one after the other") as line:
        site.copies.reset()
        for what in broken_invariants(site):
            report.note(line, what, "before any request")
        changing = sum(not request.is_safe for request in requests)
        enough = most or max(SEQUENCES, FOR_EACH * changing)
        for number in report.within_budget(range(most or 2 * enough)):
            succeed = explorer.welcome.keys() >= {kind for kind in explorer.given if not kind.startswith(SAFE)}
            if not explorer.known or (number >= enough and succeed):
                return
            explorer.to_refusing = 0.2 if number < enough else 0.6
            line.runs += 1
            steps, found = explorer.explore()
            last = explorer.runs[-1]
            if found and (last.hangs or last.is_error):  # it is not asked again
                explorer.known.pop(steps[-1].alike, None)
            for what in found:
                known = sum(one.count for one in report.found if one.what == what)
                shown = explorer.shortest(steps, what) if known < SHORTENED else steps
                cause = last.answered_by if what in failing(last) else ""  # such words say nothing of the view
                report.note(line, what, str(shown[-1]), last.answered_by, written(shown), cause)


class Explorer:
    """Makes sequences from what the pages of a site show.

    users  the users who ask, NOBODY among them
    """

    def __init__(self, site: Site, requests: Sequence[Asked], users: Sequence[str]) -> None:
        self.site = site
        self.users = list(dict.fromkeys(users))
        """The users who ask, besides a stranger with a name that no other sequence has."""
        self.random = Random(site.seed)
        self.known: dict[str, list[Asked]] = {}
        """The last requests that pages have led to, by what they are instances of."""
        self.begins: list[list[Asked]] = [[]]
        """Sequences at whose end a user has called a view with success for the first time. Others begin so."""
        self.planned: list[list[Asked]] = []
        """The same, with the last request once more: by the same user, and by each other one."""
        self.welcome: dict[str, list[str]] = {}
        """The users who were not refused, by what they have asked."""
        self.refused: dict[str, set[str]] = {}
        """The users who were."""
        self.numbers: list[str] = []
        self.asked: dict[str, View | None] = {}
        """The views that were reached, by what was asked."""
        self.last: object = None
        """The view that was reached last."""
        self.user = self.users[0] if users else NOBODY
        """The user who has asked last, and is likely to go on."""
        self.number = 0
        self.sent: list[Asked] = []
        self.runs: list[Run] = []
        """The requests and the runs of the sequence that was run last."""
        self.stored = Stored((), ())
        """All that it has stored until now."""
        self.rate = 0.0
        self.to_refusing = 0.2
        """The chance of a request that has never succeeded, with that of a new one."""
        for request in requests:
            self.learn(request)
        self.given = frozenset(self.known)

    def learn(self, request: Asked) -> None:
        """Note a request that may be made later, but for a secret in its URL, which a finding would print."""
        if masked_query(request.url) != request.url:
            return
        alike = self.known.setdefault(request.alike, [])
        alike[:] = [*(one for one in alike if one.url != request.url), request][-ALIKE:]

    def explore(self) -> tuple[list[Asked], list[str]]:
        """Run a new sequence. Return its requests, and what is wrong with the last one."""
        self.number += 1
        chosen = self.random.choice(self.begins)[: LONGEST - 2] if self.random.random() < 0.7 else []
        if self.planned and self.number % 2:
            chosen = self.planned.pop(0)
        found = self.run(self.grown(chosen))
        return self.sent, found

    def grown(self, chosen: Sequence[Asked]) -> Iterator[Asked]:
        """Yield the chosen requests and some more, each made when its turn comes."""
        for number in range(max(len(chosen), self.random.randint(3, LONGEST))):
            request = chosen[number] if number < len(chosen) else self.next()
            known = {*self.welcome.get(request.alike, ())}
            yield request
            if {*self.welcome.get(request.alike, ())} > known:
                done = [one for one, run in zip(self.sent, self.runs, strict=True) if run.is_acknowledged]
                self.begins.append(done)
                if not request.is_safe and len(done) < LONGEST:
                    users = filter(None, self.users)
                    self.planned += [[*done, done[-1]._replace(user=user)] for user in users]

    def next(self) -> Asked:
        """Return a request with values of chance, by a user of chance."""
        kinds = sorted(self.known)
        by_view: dict[object, list[str]] = {}
        for kind in kinds:  # many objects have the views of one
            by_view.setdefault(self.asked.get(kind) or kind, []).append(kind)
        new = [kind for kind in kinds if kind not in self.asked]
        changing = [alike for alike in by_view.values() if not alike[0].startswith(SAFE)]
        refusing = [alike for alike in changing if self.welcome.keys().isdisjoint(alike)]
        chance = self.random.random()
        if chance < 0.15 and new:
            alike = new
        elif chance < self.to_refusing and refusing:
            alike = self.random.choice(refusing)
        elif chance < 0.45 and self.last in by_view:  # the second loan of a book, the third of a visitor
            alike = by_view[self.last]
        else:
            alike = self.random.choice(changing if changing and chance < 0.85 else [*by_view.values()])
        kind = self.random.choice(alike)
        request = self.random.choice(self.known[kind])
        users = [*self.users, f"prove{self.number}q9"]
        if self.random.random() < 0.5:
            self.user = self.random.choice(users)
        if self.user in self.refused.get(kind, ()) and kind in self.welcome and self.random.random() < 0.8:
            self.user = self.random.choice(self.welcome[kind])
        self.rate = self.random.choice(RATES)
        shapes = SHAPES if request.kind == JSON and kind not in self.welcome else ()
        return with_values(request, partial(self.value, shapes))._replace(user=self.user)

    def value(self, shapes: Sequence[Any], old: Any) -> Any:
        """Return the value of a field, or another one of its type. A word of ours becomes one that can be found.

        shapes  values of the types that it may have, if that is not known
        """
        token = f"prove{self.number}q{self.random.randrange(3)}"
        old = self.random.choice(shapes) if shapes else old
        if self.random.random() >= self.rate or isinstance(old, (bool, list, dict, type(None))):
            return token if old == "prove" else old
        if isinstance(old, tuple):
            return self.random.choice([*FILES, *((text, old[1]) for text in (*TEXTS, token))])
        if (isinstance(old, float) or NUMBER.fullmatch(str(old))) and self.random.random() < 0.9:
            shown = [self.random.choice(self.numbers)] if self.numbers else []
            value = self.random.choice([*FIGURES, *shown, *shown, *(str(int(one) + 1) for one in shown)])
            return type(old)(value)
        parts = {part for kind in self.known for part in kind.split("/")[1:] if part and part[0] != "@"}
        names = self.random.sample(sorted(parts), min(2, len(parts)))
        return self.random.choice([*TEXTS, token, token, *filter(None, self.users), *names])

    def run(self, steps: Iterable[Asked]) -> list[str]:
        """Run requests on the databases as they were. Return what is wrong with the last one, behind which none
        is asked."""
        self.site.copies.reset()
        self.sent, self.runs, self.stored = [], [], Stored((), ())
        for request in steps:
            self.sent.append(request)
            run = self.site.ask(request)
            self.runs.append(run)
            kind = request.alike
            self.last = self.asked[kind] = run.views[-1] if run.views else None
            if run.is_acknowledged:
                if kind not in self.welcome and request.kind == JSON:  # the types of its fields are known now
                    self.learn(with_values(request, lambda old: "prove" if TOKEN.fullmatch(str(old)) else old))
                self.welcome.setdefault(kind, []).append(run.user or NOBODY)
            elif run.status in REFUSED:
                self.refused.setdefault(kind, set()).add(run.user or NOBODY)
            if run.status == HTTPStatus.NOT_FOUND and not run.views and kind not in self.given:
                self.known.pop(kind, None)  # it is there after other requests
            if found := list(dict.fromkeys(self.wrong(request, run))):
                return found
        return []

    def wrong(self, request: Asked, run: Run) -> Iterator[str]:
        """Yield what is wrong with one request, the last one that was sent."""
        what = request.alike
        yield from failing(run)
        yield from self.shown(what, run)
        if run.owners and (run.user or "") not in run.owners:
            yield from filter(None, [is_open(run.owners, run)])
        if run.hangs or run.is_error:
            return
        yield from broken_invariants(self.site)
        before, self.stored = self.stored, self.site.copies.stored()
        earlier = zip(self.sent, self.runs, strict=True)
        if self.stored == before and undoes(run) and any(is_alike(request, run, *one) for one in earlier):
            yield "R1: the view takes back what it has changed, and answers as if it were stored"
        if "html" in run.header("Content-Type"):
            shown = [one for one in NUMBER.findall(run.body.decode("latin-1")) if len(one) < 7]
            self.numbers = list(dict.fromkeys([*shown, *self.numbers]))[:NUMBERS]
        led = list(leading(self.site, request, run))
        for one in led:
            self.learn(one)
        links = [one for one in led if one.method == "GET"]
        new = [one for one in links if one.alike not in self.asked]
        for one in [*new[:LINKS], *self.random.sample(links, min(PAGES, len(links)))]:
            self.asked.setdefault(one.alike, None)
            end, reached = landed(self.site, one._replace(user=request.user))
            is_dead = reached.status in DEAD and not is_made_of(one.url, request)
            if is_dead or reached.is_error:
                yield f"{what} leads to {one.alike}, which is answered {reached.answer}"
            if reached.finished and self.site.copies.stored() != self.stored:
                yield f"{CHANGED}: {what}, then {one.alike}"
            yield from self.shown(f"{what}, then {one.alike}", reached)
            if reached.status == 200 and run.status in (302, 303):
                for further in leading(self.site, end, reached):
                    self.learn(further)

    def shown(self, what: str, run: Run) -> Iterator[str]:
        """Yield what a page must not show: a value as HTML, or one of a sequence that was undone."""
        if is_markup(run):
            yield f"S7: a page has a value of a visitor as HTML: {what}"
        text = " ".join(f"{one.user} {one.url} {one.body.decode('latin-1')}" for one in self.sent)
        page = f"{run.headers} {run.body.decode('latin-1')}"
        if not {*TOKEN.findall(page)} <= {*TOKEN.findall(text)}:
            yield f"R13: a value that was sent before, and undone, is on a page: {what}"

    def shortest(self, steps: list[Asked], what: str) -> list[Asked]:
        """Return the fewest of the requests that have the same finding; all, if it comes by chance."""
        best = list(steps)
        for request in steps[:-1]:
            fewer = [one for one in best if one is not request]
            if what in self.run(fewer):
                best = fewer
        return best


def undoes(run: Run) -> bool:
    """Return whether a view has taken back what it has changed, and has answered a success."""
    within = " ".join(run.trace).partition("view:enter")[2].partition("view:exit")[0]
    return run.is_acknowledged and any(point in within for point in UNDONE)


def is_alike(request: Asked, run: Run, earlier: Asked, stored: Run) -> bool:
    """Return whether an answer is that to an earlier request of the kind, whose other values were stored."""
    values = ([pair for pair in one.fields if pair[0] not in one.tokens] for one in (request, earlier))
    answers = {NUMBER.sub("N", f"{one.status} {one.headers} {one.body!r}") for one in (run, stored)}
    differ = request.alike == earlier.alike and next(values) != next(values)
    return differ and bool(stored.finished) and not undoes(stored) and len(answers) == 1


def is_made_of(url: str, request: Asked) -> bool:
    """Return whether a URL has a value of the fields of a request, such as the way back from a login."""
    fields = [*parse_qsl(urlsplit(request.url).query), *request.fields]
    told, given = unquote(url), [str(value) for _, value in fields]
    return any((len(value) > 3 and value in told) or value.strip("/") == told.strip("/") != "" for value in given)


def written(steps: Sequence[Asked]) -> str:
    """Return requests as ``--replay`` takes them: user, method, URL and body of each. What has tokens or cookies
    has the page of its form in the place of them."""
    texts = []
    for one in steps:
        kept = one.with_fields([pair for pair in one.fields if pair[0] not in one.tokens]) if one.tokens else one
        page = one.page if one.tokens or "Cookie" in dict(one.headers) else ""
        words = [one.user, one.method, one.url, quote(kept.body, safe="=&%+"), page]
        texts.append(" ".join(word or "-" for word in words[: 5 if page else 4]).removesuffix(" -"))
    return " then ".join(texts)


def is_sequence(text: str) -> bool:
    """Return whether a text is that of a sequence, and not of one request with its faults."""
    return any(word.startswith("/") for word in text.split()[2:3])


def steps_from(text: str) -> list[Asked]:
    """Return the requests that a finding prints."""
    steps = []
    for words in (one.split() for one in text.split(" then ")):
        if len(words) not in (3, 4, 5):
            raise ConfigurationError(f"{' '.join(words)!r} is not of the form USER METHOD URL [BODY [PAGE]]")
        user, method, url, body, page = (*words, *("-", "")[len(words) - 3 :])
        body = "" if body == "-" else body
        kind = next((kind for begin, kind in KINDS.items() if body.startswith(begin)), FORM)
        sent = body.encode() if kind == FORM else unquote_to_bytes(body)
        made = asked(method, url, kind=kind, user=NOBODY if user == "-" else user, page=page)
        steps.append(made._replace(body=sent))
    return steps


def with_tokens(site: Site, steps: Iterable[Asked]) -> Iterator[Asked]:
    """Yield requests, each with the tokens and cookies that the page of its form has when its turn comes."""
    for step in steps:
        page = Asked("GET", step.page, user=step.user)
        forms = leading(site, page, site.ask(page)) if step.page else ()
        found = next((one for one in forms if (one.method, one.url) == (step.method, step.url)), Asked("GET", ""))
        given = [(name, value) for name, value in found.fields if name in found.tokens]
        made = step.with_fields([*step.fields, *given]) if given else step
        yield made.with_headers({name: value for name, value in found.headers if name == "Cookie"})
