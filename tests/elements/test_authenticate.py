"""``authenticate``: who asks, by HTTP basic authentication, and what is refused to whom."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paste.deploy import loadfilter
from webob import Request
from webob.exc import HTTPUnauthorized
from zope.interface import implementer

from pipeline import Pipeline, element
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.vhost import vhost
from pipeline.interfaces import PUBLIC, ConfigurationError, ISecurityPolicy, OptionError

asked: list[tuple[str, str]] = []
seen: list[Any] = []


def check(request: Any, login: str, password: str) -> str | None:
    asked.append((login, password))
    return f"principal of {login}" if password == "right" else None


class View:
    """Enough of a view to be asked for."""

    def __init__(self, permission: str | None) -> None:
        self.permission = permission


@element
def show() -> Any:
    """The end: shows the principal; `/permission` asks for one, `/401` and `/raise` refuse."""

    def show(request: Any, response: Any) -> None:
        seen.append(request)
        wanted = request.environ["PATH_INFO"].strip("/")
        if wanted == "401":
            response.status = 401
        elif wanted == "raise":
            raise HTTPUnauthorized("Log in.")
        elif wanted:
            request.authorize(request, View(None if wanted == "undeclared" else wanted))
        response.text = f"{request.principal} {request.environ.get('REMOTE_USER')}"

    return show


def basic(text: str | bytes) -> str:
    return "Basic " + b64encode(text.encode() if isinstance(text, str) else text).decode()


def ask(
    header: str | None = None, path: str = "/", method: str = "GET", app: Any = None, **environ: str
) -> Any:
    asked.clear()
    seen.clear()
    if header is not None:
        environ["HTTP_AUTHORIZATION"] = header
    app = app or Pipeline(errors(), authenticate(check=check), show())
    return Request.blank(path, environ=environ, method=method).get_response(app)


ADA = "principal of ada principal of ada"

HEADERS: list[tuple[str, str, list[tuple[str, str]]]] = [
    (basic("ada:right"), ADA, [("ada", "right")]),
    (basic("ada:right").replace("Basic", "bAsIc"), ADA, [("ada", "right")]),
    (basic("ada:right").replace(" ", "  ") + " ", ADA, [("ada", "right")]),
    (basic("ada:wrong"), "None None", [("ada", "wrong")]),
    (basic("ada:wr:ng"), "None None", [("ada", "wr:ng")]),
    (basic("ada:"), "None None", [("ada", "")]),
    (basic(":right"), "principal of  principal of ", [("", "right")]),
    (basic("ädä:ü€"), "None None", [("ädä", "ü€")]),
    (basic("ada"), "None None", []),
    (basic(b"\xff:x"), "None None", []),
    ("Basic", "None None", []),
    ("Basic ", "None None", []),
    ("Basic !!!", "None None", []),
    ("Basic YWRhOnJpZ2h0\n", ADA, [("ada", "right")]),
    ("Basic YWRh OnJpZ2h0", "None None", []),
    ("Basic \xff\xfe", "None None", []),
    ("Basic " + "A" * 100_000, "None None", []),
    ("Bearer YWRhOnJpZ2h0", "None None", []),
    ("Digest x", "None None", []),
    ("", "None None", []),
]


@pytest.mark.parametrize(("header", "shown", "checked"), HEADERS)
def test_the_header(header: str, shown: str, checked: list[tuple[str, str]]) -> None:
    """What is no basic authentication is nobody's, and never an error (RFC 7617)."""
    answer = ask(header)
    assert (answer.status_int, answer.text) == (200, shown) and asked == checked


@pytest.mark.parametrize("principal", ["", b"ada", 1, ["ada"]])
def test_a_principal_that_is_not_a_name_is_nobody(principal: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A look-up that returns "" for a login that it does not know would let everyone in."""
    app = Pipeline(errors(), authenticate(check=lambda request, login, password: principal), show())
    assert ask(basic("ada:wrong"), app=app).status_int == 500
    assert seen == [] and "or None to refuse the login" in caplog.text


@given(st.text(max_size=60) | st.binary(max_size=60).map(basic) | st.text(max_size=40).map("Basic {}".format))
def test_any_header_has_an_answer(header: str) -> None:
    answer = ask(header)
    assert (answer.status_int, "right" in [password for _, password in asked]) == (200, answer.text != "None None")


def test_a_user_that_came_from_outside_is_dropped() -> None:
    """Some servers copy it from a header that nobody has verified."""
    assert ask(REMOTE_USER="admin").text == "None None"
    assert ask(basic("ada:wrong"), REMOTE_USER="admin").text == "None None"
    assert ask(basic("ada:right"), REMOTE_USER="admin").text == ADA


def test_what_others_are_told_is_fit_for_the_environ() -> None:
    """Bytes, as letters of latin-1 (PEP 3333)."""
    principal, said = "principal of €", "principal of €".encode().decode("latin-1")
    assert ask(basic("€:right")).text == f"{principal} {said}"


def test_without_a_header_nobody_is_asked() -> None:
    assert ask().text == "None None" and asked == []


CHALLENGE = 'Basic realm="site", charset="UTF-8"'


@pytest.mark.parametrize("path", ["/401", "/raise", "/edit"])
@pytest.mark.parametrize("header", [None, basic("ada:wrong"), "Bearer x"])
def test_who_is_nobody_is_asked_to_log_in(path: str, header: str | None) -> None:
    answer = ask(header, path)
    assert answer.status_int == 401 and answer.headers.getall("WWW-Authenticate") == [CHALLENGE]


def test_the_realm_is_quoted() -> None:
    app = Pipeline(errors(), authenticate(check=check, realm='a "b" \\c'), show())
    assert ask(path="/edit", app=app).headers["WWW-Authenticate"].startswith(r'Basic realm="a \"b\" \\c"')


def test_another_challenge_is_left_alone() -> None:
    @element
    def own() -> Any:
        def own(request: Any, response: Any) -> None:
            raise HTTPUnauthorized(headers={"WWW-Authenticate": "Own"})

        return own

    app = Pipeline(errors(), authenticate(check=check), own())
    assert ask(app=app).headers.getall("WWW-Authenticate") == ["Own"]


# Who may: (permission, method) and who asks


@pytest.mark.parametrize(
    ("permission", "method", "nobody", "ada"),
    [
        ("edit", "GET", 401, 200),
        ("edit", "POST", 401, 200),
        (PUBLIC, "GET", 200, 200),
        (PUBLIC, "POST", 200, 200),
        ("undeclared", "GET", 200, 200),
        ("undeclared", "HEAD", 200, 200),
        ("undeclared", "OPTIONS", 200, 200),
        ("undeclared", "POST", 401, 200),
        ("undeclared", "DELETE", 401, 200),
        ("undeclared", "BREW", 401, 200),
    ],
)
def test_who_may(permission: str, method: str, nobody: int, ada: int) -> None:
    assert ask(None, f"/{permission}", method).status_int == nobody
    assert ask(basic("ada:right"), f"/{permission}", method).status_int == ada


@pytest.mark.parametrize(
    ("undeclared", "method", "status"),
    [("allow", "POST", 200), ("deny", "GET", 401), ("read", "GET", 200), ("read", "POST", 401)],
)
def test_what_is_not_declared(undeclared: str, method: str, status: int) -> None:
    app = Pipeline(errors(), authenticate(check=check, undeclared=undeclared), show())
    assert ask(None, "/undeclared", method, app).status_int == status


@implementer(ISecurityPolicy)
class Nobody:
    """Refuses everything."""

    def permits(self, request: Any, permission: str, context: Any) -> bool:
        return False


def test_a_policy_of_ones_own() -> None:
    app = Pipeline(errors(), authenticate(check=check, policy=Nobody), show())
    assert ask(None, "/edit", app=app).status_int == 401
    refused = ask(basic("ada:right"), "/edit", app=app)
    assert refused.status_int == 403 and "WWW-Authenticate" not in refused.headers


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ({}, 200),
        ({"HTTP_SEC_FETCH_SITE": "same-origin"}, 200),
        ({"HTTP_SEC_FETCH_SITE": "none"}, 200),
        ({"HTTP_SEC_FETCH_SITE": "cross-site"}, 403),
        ({"HTTP_SEC_FETCH_SITE": "same-site"}, 403),
        ({"HTTP_ORIGIN": "http://localhost"}, 200),
        ({"HTTP_ORIGIN": "http://evil.example"}, 403),
        ({"HTTP_ORIGIN": "null"}, 403),
    ],
)
def test_another_site_cannot_use_the_password_that_a_browser_sends(
    origin: dict[str, str], status: int
) -> None:
    assert ask(basic("ada:right"), "/edit", "POST", **origin).status_int == status
    assert ask(basic("ada:right"), "/edit", "GET", **origin).status_int == 200


# Load


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "authenticate needs the option 'check'"),
        ({"check": check, "relm": "x"}, "did you mean 'realm'?"),
        ({"check": check, "realm": "a\nb"}, "authenticate: .*control character"),
        ({"check": check, "by": ()}, "'by' is empty"),
        ({"check": check, "policy": dict}, "does not provide ISecurityPolicy"),
        ({"check": check, "by": ("session",)}, "sessions need the option 'keys'"),
    ],
)
def test_what_is_refused_at_load(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Pipeline(authenticate(**options), show())


def test_a_check_that_fails_is_an_error_and_nobody_is_let_in() -> None:
    def broken(request: Any, login: str, password: str) -> str | None:
        raise ZeroDivisionError

    app = Pipeline(errors(), authenticate(check=broken), show())
    assert ask(basic("ada:right"), app=app).status_int == 500 and seen == []


def test_a_check_that_is_not_there_is_named_with_its_line(tmp_path: Path) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text("[filter:auth]\nuse = egg:wsgi-pipeline#authenticate\ncheck = nowhere:check\n")
    with pytest.raises(OptionError) as refused:
        loadfilter(f"config:{ini}", "auth")
    assert str(refused.value).startswith(
        f"{ini}, section [filter:auth], line 3: option 'check' of authenticate"
    )


# Guessing


@pytest.mark.parametrize(
    ("logins", "addresses"),
    [
        (["ada", "ADA", " Ada"], ["192.0.2.1", "192.0.2.2", "192.0.2.3"]),
        (["ada", "ben", "cyd"], ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3"]),
    ],
)
def test_guesses_are_counted_for_an_account_in_any_spelling_and_for_a_network(
    logins: list[str], addresses: list[str]
) -> None:
    app = Pipeline(errors(), authenticate(check=check, failures=2), show())
    answers = [
        ask(basic(f"{login}:wrong"), app=app, REMOTE_ADDR=address)
        for login, address in zip(logins, addresses, strict=True)
    ]
    assert [answer.status_int for answer in answers] == [200, 200, 429]


PROXY = {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": "203.0.113.5"}


@pytest.mark.parametrize(
    ("environ", "user"),
    [
        ({"REMOTE_ADDR": "10.0.0.1"}, "ada"),
        (PROXY, "ada"),
        ({"REMOTE_ADDR": "203.0.113.5"}, None),
        ({**PROXY, "REMOTE_ADDR": "203.0.113.5"}, None),
        ({"REMOTE_ADDR": "10.0.0.2", "HTTP_X_FORWARDED_FOR": "10.0.0.1"}, None),
        ({"REMOTE_ADDR": "203.0.113.5", "HTTP_X_FORWARDED_FOR": "10.0.0.1"}, None),
        ({"REMOTE_ADDR": ""}, None),
    ],
)
@pytest.mark.parametrize("behind", [True, False])
def test_a_user_in_a_header_is_believed_from_a_trusted_peer_alone__S13(
    environ: dict[str, str], user: str | None, behind: bool
) -> None:
    """Also if vhost believes the peer, and has put the visitor in its place."""
    outer = [vhost(trusted=("10.0.0.0/24",), accept=("X-Forwarded",), allowed_hosts=("*",))] if behind else []
    by_header = authenticate(check=check, by=("header", "basic"), header="X-Forwarded-User", trusted=("10.0.0.1",))
    app = Pipeline(*outer, errors(), by_header, show())
    assert ask(app=app, HTTP_X_FORWARDED_USER="ada", **environ).text == f"{user} {user}"
    assert ("HTTP_X_FORWARDED_USER" in seen[0].environ) is (user is not None)
    assert ask(app=app, HTTP_X_FORWARDED_USER=" ", **environ).text == "None None"
    assert ask(basic("ada:right"), app=app, **environ).text == ADA


def test_a_header_is_sent_as_utf_8() -> None:
    app = Pipeline(errors(), authenticate(check=check, by=("header",), trusted=("unix",)), show())
    name = "änn".encode().decode("latin-1")
    assert ask(app=app, HTTP_X_FORWARDED_USER=name, REMOTE_ADDR="").text == f"änn {name}"
    assert ask(app=app, HTTP_X_FORWARDED_USER="\xe4", REMOTE_ADDR="").status_int == 400
    for other in ("ada\xa0", "\u3000ada", "ada\x85"):  # blanks of Unicode are part of a name (S27)
        sent = other.encode().decode("latin-1")
        assert ask(app=app, HTTP_X_FORWARDED_USER=f" {sent}\t", REMOTE_ADDR="").text == f"{other} {sent}"


@pytest.mark.parametrize(
    "options", [{"by": ("header",)}, {"trusted": ("10.0.0.1",)}, {"by": ("header",), "trusted": ("x",)}]
)
def test_a_header_needs_its_peers(options: Any) -> None:
    with pytest.raises((ConfigurationError, OptionError), match="trusted"):
        Pipeline(authenticate(check=check, **options), show())
