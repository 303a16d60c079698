"""``shield``: every answer has secure headers, once, and what an inner part says counts (S24)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from webob.exc import HTTPNotFound
from ZODB.POSException import ConflictError

from asking import Answer, ask
from pipeline import Pipeline, Request, Response, element
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.shield import ShieldRequest, in_a_page, shield
from pipeline.elements.vhost import vhost
from pipeline.http.content_policy import hash_of, with_sources
from pipeline.http.files import PASSED_ON
from pipeline.interfaces import ConfigurationError, OptionError
from pipeline.testing import check_element

CSP = "Content-Security-Policy"
REPORTED = f"{CSP}-Report-Only"
USUAL = "default-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
PLAIN = {
    CSP: USUAL,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
SECURE = {**PLAIN, "Strict-Transport-Security": "max-age=31536000"}
HTTPS = {"wsgi.url_scheme": "https"}
PROXIED = {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_PROTO": "https"}
BEHIND = vhost(trusted=("127.0.0.1",), accept=("X-Forwarded",), allowed_hosts=("*",))


def page(request: Request, response: Response) -> None:
    response.blocks = [b"<p>A page"]


def answered(view: Callable[..., None], *outer: Any, environ: Any = None, **options: Any) -> Answer:
    """What a visitor gets for a view. No header of ``shield`` is sent twice."""

    @element
    def end() -> Any:
        return view

    app = Pipeline(*outer, shield(**options), retry(delay=0), errors(), end())
    answer = ask(app, environ={"HTTP_ACCEPT": "text/html", **(environ or {})})
    names = [name.lower() for name, _ in answer.headerlist]
    assert [name for name in (*SECURE, REPORTED) if names.count(name.lower()) > 1] == []
    return answer


def secure(answer: Answer) -> dict[str, str]:
    return {name: answer.headers[name] for name in (*SECURE, REPORTED) if name in answer.headers}


def test_it_keeps_the_rules() -> None:
    check_element(shield())
    check_element(shield(report_only=True, hsts=0, referrer="", opener=""))


@pytest.mark.parametrize(
    ("outer", "environ", "options", "expected"),
    [
        ((), {}, {}, PLAIN),
        ((), HTTPS, {}, SECURE),
        ((), HTTPS, {"hsts": 0}, PLAIN),
        ((BEHIND,), PROXIED, {}, SECURE),
        ((vhost(),), PROXIED, {}, PLAIN),
        ((), {}, {"referrer": "", "opener": ""}, {name: PLAIN[name] for name in list(PLAIN)[:2]}),
        ((), {}, {"report_only": True}, {**{n: v for n, v in PLAIN.items() if n != CSP}, REPORTED: USUAL}),
        ((), {}, {"sources": {"Frame-Ancestors": "'self'", "img-src": "*"}},
         {**PLAIN, CSP: USUAL.replace("ancestors 'none'", "ancestors 'self'; img-src *")}),
        ((), {"PATH_INFO": "/trac/x"}, {"policies": {"/trac": "default-src  *"}}, {**PLAIN, CSP: "default-src *"}),
        ((), {"PATH_INFO": "/trac", **HTTPS}, {"policies": {"/trac": ""}},
         {name: value for name, value in SECURE.items() if name != CSP}),
        ((), {"PATH_INFO": "//trac//x"}, {"policies": {"/trac": "sandbox"}}, {**PLAIN, CSP: "sandbox"}),
        ((), {"PATH_INFO": "/.//./trac/./x"}, {"policies": {"/trac": "sandbox"}}, {**PLAIN, CSP: "sandbox"}),
        ((), {"PATH_INFO": "/trac/../page"}, {"policies": {"/trac": ""}}, PLAIN),
        ((), {"PATH_INFO": "/trac/.."}, {"policies": {"/trac": ""}}, PLAIN),
        ((), {"PATH_INFO": "/trac/..x.html"}, {"policies": {"/trac": "sandbox"}}, {**PLAIN, CSP: "sandbox"}),
        ((), {"PATH_INFO": "/trac/.../x"}, {"policies": {"/trac": "sandbox"}}, {**PLAIN, CSP: "sandbox"}),
        ((), {"PATH_INFO": "/tracs"}, {"policies": {"/trac": ""}}, PLAIN),
        ((), {"PATH_INFO": "/b"}, {"policies": {"/a": "", "/b": "img-src *"}, "report_only": True},
         {**{n: v for n, v in PLAIN.items() if n != CSP}, REPORTED: "img-src *"}),
    ],
    ids=["http", "https", "no hsts", "proxy", "proxy that is not believed", "off", "report only", "sources",
         "mounted", "left to what is mounted", "by two slashes", "by dots", "up again", "up at its end",
         "two dots in a name", "three dots", "beside it",
         "mounted, report only"],
)  # fmt: skip
def test_every_answer_has_them__S24(outer: Any, environ: Any, options: Any, expected: dict[str, str]) -> None:
    assert secure(answered(page, *outer, environ=environ, **options)) == expected


@pytest.mark.parametrize("path", ["/x/../trac/page", "/trac/../trac/page", "/x/.//..", "/trac/..", "/x/..page"])
@pytest.mark.parametrize("report_only", [False, True])
def test_a_path_that_goes_up_has_the_policies_of_all_places__S24(path: str, report_only: bool) -> None:
    """Some applications go up, as browsers do (RFC 3986 section 5.2.4), and others do not. A browser obeys all of
    several policies (CSP, section 4.2)."""
    policies = {"/trac": "sandbox", "/own": "", "/old": "img-src *"}

    @element
    def end() -> Any:
        return page

    answer = ask(Pipeline(shield(policies=policies, report_only=report_only), end()), environ={"PATH_INFO": path})
    sent = answer.headers.getall(REPORTED if report_only else CSP)
    assert set(sent) == ({USUAL, "sandbox", "img-src *"} if "/.." in path and path != "/x/..page" else {USUAL})


def test_an_error_page_has_them_and_a_policy_of_its_own__S24() -> None:
    for error in (HTTPNotFound(), ZeroDivisionError(), ConflictError()):  # the last one after several attempts

        def fail(request: Request, response: Response, error: Exception = error) -> None:
            raise error

        answer = answered(fail, environ=HTTPS)
        assert answer.status >= 400
        [style] = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
        policy = f"default-src 'none'; style-src {hash_of(style)}; form-action 'none'; base-uri 'none'"
        assert secure(answer) == {**SECURE, CSP: f"{policy}; frame-ancestors 'none'"}
        assert REPORTED not in answered(fail, report_only=True).headers
    assert secure(answered(fail, environ={"HTTP_ACCEPT": "application/json"})) == PLAIN


def test_what_an_inner_part_says_counts() -> None:
    own = "default-src 'none'; sandbox"

    def sets(request: Request, response: Response) -> None:
        response.headers[CSP] = own

    def adopts(request: Request, response: Response) -> None:
        response.adopt("200 OK", [("Content-Type", "text/html"), ("content-security-policy", own)], [b"file"])

    for view in (sets, adopts):
        assert secure(answered(view)) == {**PLAIN, CSP: own}


def test_what_an_outer_part_has_said_counts() -> None:
    @element
    def outer(next: Any) -> Any:
        def outer(request: Request, response: Response) -> None:
            response.headers["referrer-policy"] = "no-referrer"
            next(request, response)

        return outer

    assert secure(answered(page, outer())) == {**PLAIN, "Referrer-Policy": "no-referrer"}


def test_a_view_allows_more_for_its_own_answer() -> None:
    def view(request: ShieldRequest, response: Response) -> None:
        request.allow_source("img-src", "https://tiles.example.com")
        request.allow_source("img-src", "data:")
        request.allow_source("frame-ancestors", "https://partner.example.com")

    policy = answered(view).headers[CSP]
    assert "; img-src 'self' https://tiles.example.com data:" in policy
    assert "frame-ancestors https://partner.example.com;" in policy
    assert secure(answered(page)) == PLAIN, "only for its own answer"
    assert "img-src" in answered(view, report_only=True).headers[REPORTED]


@pytest.mark.parametrize("asked", ["csp_nonce", "allow_source"])
def test_a_further_policy_of_a_view_does_not_take_the_place_of_the_first(asked: str) -> None:
    """A browser obeys both (CSP, section 3.1)."""

    def view(request: ShieldRequest, response: Response) -> None:
        response.headers.add(CSP, "img-src 'none'; frame-src 'none'")
        for _ in range(2):
            found = getattr(request, asked)
            if callable(found):
                found("img-src", "https://tiles.example.com")

    @element
    def end() -> Any:
        return view

    first, second = ask(Pipeline(shield(), end())).headers.getall(CSP)
    assert first.startswith(USUAL) and "frame-src 'none'" in second


@pytest.mark.parametrize("word", ["x; script-src *", "x *", "x\t*", "x\n*", "x,*", "x\x00", "x\x7f", ""])
def test_a_source_is_one_word_and_adds_no_directive(word: str) -> None:
    def view(request: ShieldRequest, response: Response) -> None:
        for directive, source in (("img-src", word), (word, "x")):
            with pytest.raises(ValueError, match="is not a word of a policy"):
                request.allow_source(directive, source)

    assert secure(answered(view)) == PLAIN


def test_a_nonce_is_new_for_each_answer() -> None:
    def view(request: ShieldRequest, response: Response) -> None:
        response.blocks = [f"<script nonce='{request.csp_nonce}'>".encode() + request.csp_nonce.encode()]

    seen = set()
    for _ in range(3):
        answer = answered(view, sources={"script-src": "'none'"})
        [nonce] = re.findall("nonce='([^']{24})'", answer.text)
        assert answer.text.endswith(f">{nonce}"), "one nonce for an answer"
        assert f"script-src 'nonce-{nonce}'" in answer.headers[CSP]
        assert f"style-src 'self' 'nonce-{nonce}'" in answer.headers[CSP]
        assert answer.headers["Cache-Control"] == "no-store"
        seen.add(nonce)
    assert len(seen) == 3
    assert "nonce" not in answered(page).headers[CSP]


def test_a_nonce_holds_after_an_attempt_that_failed() -> None:
    attempts = []

    def view(request: ShieldRequest, response: Response) -> None:
        response.blocks = [request.csp_nonce.encode()]
        attempts.append(request.csp_nonce)
        if len(attempts) < 3:
            raise ConflictError

    answer = answered(view)
    assert len(attempts) == 3
    assert f"'nonce-{answer.text}'" in answer.headers[CSP]
    assert answer.headers[CSP].count("nonce-") == 2, "one for scripts and one for styles"


@pytest.mark.parametrize(
    ("value", "directives", "expected"),
    [
        ("default-src 'none'", ("img-src",), "default-src 'none'; img-src x"),
        ("default-src a; img-src b", ("img-src",), "default-src a; img-src b x"),
        ("default-src a; script-src b", ("script-src-elem",), "default-src a; script-src b; script-src-elem b x"),
        ("IMG-SRC x", ("img-src",), "img-src x"),
        ("img-src a", ("style-src", "form-action"), "img-src a"),  # these allow everything
        ("default-src a", ("form-action",), "default-src a"),
        ("form-action", ("form-action",), "form-action x"),
        ("", ("img-src",), ""),
    ],
)
def test_a_source_is_only_added(value: str, directives: tuple[str, ...], expected: str) -> None:
    assert with_sources(value, directives, "x") == expected


def test_scripts_and_styles_of_templates_are_allowed_by_their_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package = tmp_path / "shielded"
    (package / "templates").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('a template does not need its code')")
    (package / "templates" / "page.html").write_bytes(
        b"<STYLE>\r\np { color: red }</STYLE><script type='module'>go()</script>"
        b"<script src='/a.js'></script><script nonce='{{ request.csp_nonce }}'>tell({{ name }})</script>"
        b"<scripted>no</scripted>\n<script>tell({{ name }})</script><style>never ends"
    )
    (package / "notes.txt").write_text("<script>bad()</script>")
    monkeypatch.syspath_prepend(tmp_path)
    with caplog.at_level(logging.WARNING, "pipeline"):
        policy = answered(page, inline=("shielded",)).headers[CSP]
    style, script = hash_of("\np { color: red }"), hash_of("go()")
    assert policy == f"{USUAL}; style-src 'self' {style}; script-src 'self' {script}"
    [said] = caplog.messages
    assert "refuse the <script> of" in said and "page.html, line 3" in said and "request.csp_nonce" in said
    with pytest.raises(ConfigurationError, match="inline: 'not_there' is not a package that can be imported"):
        answered(page, inline=("not_there",))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\u0130<script>a()</script>", ["a()"]),
        ("<script data-a='x > y'>a()</script>", ["a()"]),
        ("<!-- <script>no()</script> --><script>a()</script>", ["a()"]),
        ("<script>a('<style>')</script><style>p {}</style>", ["a('<style>')", "p {}"]),
        ("<script>a()</SCRIPT ><script/>b()</script>", ["a()", "b()"]),
        ("<script>a &amp; b</script>", ["a &amp; b"]),
        ("<script\nasync>a()</script>", ["a()"]),
        ("<script data-nonce=1 data-src=1>a()</script><script NONCE=1>b()</script>", ["a()"]),
    ],
)
def test_a_script_is_what_a_browser_finds(text: str, found: list[str]) -> None:
    assert [inner for _, _, inner in in_a_page(text)] == found


def test_nginx_keeps_its_headers_with_a_file_that_it_sends_itself() -> None:
    """Otherwise ``sendfile`` would have the site send each file."""
    assert {*SECURE, REPORTED} <= set(PASSED_ON)


def test_a_time_that_browsers_ignore_is_refused() -> None:
    """RFC 6797 section 6.1.1: max-age is a number without a sign."""
    with pytest.raises(OptionError, match="hsts"):
        Pipeline(shield(hsts=-1), lambda environ, start_response: [])
