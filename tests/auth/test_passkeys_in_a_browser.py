"""The passkeys of ``docs/howto/passkeys.rst``, in Chromium with a software key, and by attackers without one."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.virtual_authenticator import VirtualAuthenticatorOptions
from selenium.webdriver.support.ui import WebDriverWait

from asking import served
from browsing import chromium
from pipeline import Pipeline
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.session import session
from pipeline.elements.shield import shield
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all, zodb
from pipeline.publisher import publisher
from pipeline.testing import site
from recipes import module_of

pytest.importorskip("webauthn")


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    name = f"passkeys_of_{tmp_path.name}"
    module = module_of("passkeys.rst", "mysite/passkeys.py", monkeypatch, name)
    keys = str(tmp_path / "keys")
    outer = (
        shield(),
        retry(),
        zodb(uri=f"memory://{name}", root=module.root),
        errors(),
        transaction(),
        session(keys=keys),
    )
    inner = (forms(), authenticate(by=("session",), realm="my-site", keys=keys), traverse())
    yield Pipeline(*outer, *inner, publisher(scan=(name, "pipeline.publishing.json")))
    close_all()


@pytest.mark.browser
def test_a_member_comes_back(app: Pipeline, program: Callable[[str, str], str], tmp_path: Path) -> None:
    with served(app, "localhost") as address, chromium(program, tmp_path / "profile") as browser:
        options = VirtualAuthenticatorOptions(
            has_resident_key=True, has_user_verification=True, is_user_verified=True, protocol="ctap2"
        )
        browser.add_virtual_authenticator(options)

        def make_one() -> None:
            browser.get(f"{address}/@@login")
            browser.find_element(By.NAME, "name").send_keys("ann")
            browser.find_element(By.CSS_SELECTOR, "#new button").click()

        def said() -> Any:
            return WebDriverWait(browser, 30).until(lambda _: browser.find_element(By.ID, "said").text)

        make_one()
        assert said() == "Hello ann"
        browser.get(f"{address}/")
        assert "<p>Hello ann</p>" in browser.page_source
        browser.delete_all_cookies()
        browser.get(f"{address}/@@login")
        browser.find_element(By.ID, "use").click()
        assert said() == "Hello ann"
        browser.get(f"{address}/")
        assert "<p>Hello ann</p>" in browser.page_source
        browser.delete_all_cookies()
        make_one()
        assert said() == "Another member has this name."


def test_without_a_key_nobody_gets_in(app: Pipeline) -> None:
    visitor = site(app)
    asked = visitor.post_json("/@@ask-passkey", {}).json
    assert asked["userVerification"] == "required" and asked["rpId"] == "localhost"
    for credential in ({}, {"id": "AAAA"}, {"id": "AAAA", "rawId": "AAAA", "type": "public-key", "response": {}}):
        visitor.post_json("/@@use-passkey", {"credential": credential}, status=400)
        visitor.post_json("/@@new-passkey", {"name": "ann"})
        visitor.post_json("/@@keep-passkey", {"credential": credential}, status=400)
    assert visitor.get("/").html.p.text == "Hello visitor"


class Key:
    """A passkey in the memory of the test."""

    def __init__(self) -> None:
        ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
        self.private, self.ecdsa = ec.generate_private_key(ec.SECP256R1()), ec.ECDSA
        self.id = b"0123456789abcdef"

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the credential that a browser sends for what the site has asked."""
        import cbor2
        from cryptography.hazmat.primitives.hashes import SHA256

        is_new = "rp" in asked
        kind = "webauthn.create" if is_new else "webauthn.get"
        told = json.dumps({"type": kind, "challenge": asked["challenge"], "origin": "http://localhost"}).encode()
        data = hashlib.sha256(b"localhost").digest() + bytes([0x45 if is_new else 0x05]) + bytes(4)
        response = {"clientDataJSON": told}
        if is_new:
            point = self.private.public_key().public_numbers()
            key = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32), -3: point.y.to_bytes(32)}
            data += bytes(16) + len(self.id).to_bytes(2) + self.id + cbor2.dumps(key)
            response["attestationObject"] = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        else:
            signed = data + hashlib.sha256(told).digest()
            response |= {"authenticatorData": data, "signature": self.private.sign(signed, self.ecdsa(SHA256()))}
        written = {name: urlsafe_b64encode(value).decode().rstrip("=") for name, value in response.items()}
        id = urlsafe_b64encode(self.id).decode().rstrip("=")
        return {"id": id, "rawId": id, "type": "public-key", "response": written}


def test_a_login_that_was_recorded_is_worth_nothing(app: Pipeline) -> None:
    """The cookie with the challenge can be sent again, together with the answer to it."""
    visitor, key = site(app), Key()

    def answer_to(question: str, **fields: str) -> dict[str, Any]:
        return {"credential": key.answer(visitor.post_json(f"/@@{question}", fields).json)}

    visitor.post_json("/@@keep-passkey", answer_to("new-passkey", name="ann"))
    visitor.reset()
    earlier, earlier_cookies = answer_to("ask-passkey"), dict(visitor.cookies)
    credential, cookies = answer_to("ask-passkey"), dict(visitor.cookies)
    assert visitor.post_json("/@@use-passkey", credential).json == {"name": "ann"}
    assert visitor.get("/").html.p.text == "Hello ann"
    for recorded, answer in ((cookies, credential), (earlier_cookies, earlier)):
        thief = site(app)
        sent = "; ".join(f"{name}={value}" for name, value in recorded.items())
        thief.post_json("/@@use-passkey", answer, headers={"Cookie": sent}, status=400)
        assert thief.get("/").html.p.text == "Hello visitor"
    visitor.reset()
    assert visitor.post_json("/@@use-passkey", answer_to("ask-passkey")).json == {"name": "ann"}
