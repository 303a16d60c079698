"""The login by OpenID Connect of ``docs/howto/oidc.rst``, with a provider that is served here, and attackers."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

from asking import served
from pipeline import Pipeline, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.session import session
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher
from pipeline.testing import site
from recipes import module_of

requests = pytest.importorskip("requests")
pytest.importorskip("authlib")
jwt = pytest.importorskip("joserfc.jwt")
RSAKey: Any = pytest.importorskip("joserfc.jwk").RSAKey


class Provider:
    """A provider whose user has a session there, and agrees."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one"})
        self.signs = self.key
        self.codes: dict[str, dict[str, str]] = {}
        self.claims: dict[str, Any] = {}
        """Claims that differ from what is right."""
        self.issuer = ""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        path, query = environ["PATH_INFO"], dict(parse_qsl(environ["QUERY_STRING"]))
        answer: dict[str, Any] = {}
        if path == "/.well-known/openid-configuration":
            answer = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
            answer |= {"authorization_endpoint": f"{self.issuer}/ask", "token_endpoint": f"{self.issuer}/token"}
        elif path == "/keys":
            answer = {"keys": [self.key.as_dict(private=False)]}
        elif path == "/ask":
            assert (query["code_challenge_method"], query["response_type"]) == ("S256", "code")
            code = f"code{len(self.codes)}"
            self.codes[code] = query
            back = urlencode({"code": code, "state": query["state"]})
            start_response("303 See Other", [("Location", f"{query['redirect_uri']}?{back}")])
            return [b""]
        else:
            form = dict(parse_qsl(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])).decode()))
            asked = self.codes.pop(form["code"], None)
            challenge = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
            if asked is None or challenge != asked["code_challenge"]:
                start_response("400 Bad Request", [("Content-Type", "application/json")])
                return [b'{"error": "invalid_grant"}']
            now = int(time())
            right = {"iss": self.issuer, "aud": asked["client_id"], "sub": "ann", "email": "ann@example.com"}
            right |= {"nonce": asked["nonce"], "iat": now, "exp": now + 60}
            claims = {name: value for name, value in {**right, **self.claims}.items() if value is not None}
            token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.signs)
            answer = {"access_token": "x", "token_type": "Bearer", "id_token": token}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    with served(provider) as address:
        provider.issuer = address
        yield provider


@pytest.fixture
def visitor(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A browser, and the site with the code of the page."""
    name = f"oidc_of_{tmp_path.name}"
    module = module_of("oidc.rst", "mysite/oidc.py", monkeypatch, name)
    vars(module)["ISSUER"] = provider.issuer

    def who(context: Any, request: Any) -> str:
        return f"{request.principal} {(request.claims or {}).get('mail')}"

    who.__module__ = name
    vars(module)["who"] = view(permission="public")(who)
    keys = str(tmp_path / "keys")
    elements = (errors(), session(keys=keys), forms(), authenticate(by=("session",), realm="my-site", keys=keys))
    return site(Pipeline(*elements, traverse(root=dict), publisher(scan=(name,))))


def way_back(visitor: Any) -> str:
    """Begin a login, and return the address by which the provider sends the browser back."""
    asked = visitor.get("/@@login").location
    answer = requests.get(asked, allow_redirects=False, timeout=10)
    assert answer.status_code == 303
    return str(answer.headers["Location"])


def test_a_visitor_logs_in(visitor: Any) -> None:
    assert visitor.get("/").text == "None None"
    visitor.get(way_back(visitor)).follow()
    assert visitor.get("/").text == "ann ann@example.com"


def test_a_login_counts_once(visitor: Any) -> None:
    back = way_back(visitor)
    visitor.get(back)
    visitor.get(back, status=400)


def test_another_browser_is_not_logged_in_by_the_address(visitor: Any) -> None:
    """An attacker sends a victim the address that ends a login of the attacker."""
    back = way_back(visitor)
    visitor.reset()
    visitor.get(back, status=400)
    for address in (back, "/@@logged-in?code=x&state=%C3%A4"):
        visitor.get("/@@login")
        visitor.get(address, status=400)
    assert visitor.get("/").text == "None None"


WRONG: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://elsewhere.example"},
    "another client": {"aud": "another"},
    "another login": {"nonce": "another"},
    "no nonce": {"nonce": None},
    "too old": {"exp": 1},
    "no end": {"exp": None},
    "nobody": {"sub": None},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_token_for_something_else_is_refused(name: str, visitor: Any, provider: Provider) -> None:
    provider.claims = WRONG[name]
    visitor.get(way_back(visitor), status=400)
    assert visitor.get("/").text == "None None"


def test_a_token_that_somebody_else_signed_is_refused(visitor: Any, provider: Provider) -> None:
    provider.signs = RSAKey.generate_key(2048, {"kid": "one"})
    visitor.get(way_back(visitor), status=400)
    assert visitor.get("/").text == "None None"


def test_a_code_of_another_login_is_worthless(visitor: Any) -> None:
    """PKCE: the code is stolen, and brought by a browser with a login of its own."""
    stolen = dict(parse_qsl(way_back(visitor).partition("?")[2]))["code"]
    own = way_back(visitor)
    visitor.get(own.replace("code=code1", f"code={stolen}"), status=400)
    assert visitor.get("/").text == "None None"
