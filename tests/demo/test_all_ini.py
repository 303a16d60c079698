"""etc/all.ini on a real server: each protocol by a client of its own, namespaces, all forms of virtual hosting."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xmlrpc.client
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request as Asked
from urllib.request import urlopen

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

from browsing import follow, press, text_of, type_in
from pipeline.paste import load
from pipeline.tools.command import main
from pipeline_demo import site, users
from pipeline_demo.models import Document, Folder
from ports import unused_port
from processes import TOP, Process

PASSWORD = "correct horse"
TEXT = "# Tea\n\nGreen tea at **80** degrees.\n"


class Served(NamedTuple):
    port: int
    process: Process

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Answer(NamedTuple):
    status: int
    headers: HTTPMessage
    text: str


def write_ini(directory: Path) -> Path:
    """etc/all.ini with a proxy that is trusted, and with the views of ``extras``."""
    text = (TOP / "etc" / "all.ini").read_text()
    forms = "VirtualHostBase ++vh++ X-Vhm Forwarded X-Forwarded"
    for old, new in [
        ("egg:waitress#main\n", "egg:waitress#main\nclear_untrusted_proxy_headers = false\n"),
        ("config:deploy.ini", f"config:{TOP}/etc/deploy.ini"),
        ("#vhost\n", f"#vhost\ntrusted = 127.0.0.1\naccept = {forms}\nallowed_hosts = www.example.com 127.0.0.1\n"),
        (f"config:{TOP}/etc/deploy.ini#errors\n", f"config:{TOP}/etc/deploy.ini#errors\ndebug = true\n"),
        ("pipeline.publishing.namespaces\n", "pipeline.publishing.namespaces demo.extras\n"),
    ]:
        assert old in text, old
        text = text.replace(old, new)
    ini = directory / "all.ini"
    ini.write_text(text)
    return ini


def fill(uri: str) -> None:
    # Under this name the server imports it, too, when it loads what is stored.
    from demo.extras import Album, Person

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "documentation", lambda: None)
        site.create(uri)
    with site.connected(uri) as connection, connection.transaction_manager:
        root = site.root(connection.root())
        users.set_password(root, "admin", PASSWORD)
        users.set_password(root, "eve", "eve's own")
        root["tea"] = Document("Tea", TEXT)
        root["ann"] = Person("Ann", "Rome")
        root["sites"] = Folder("Sites")
        root["sites"]["one"] = Folder("One")
        root["sites"]["one"]["page"] = Document("Page", "A [link](other).")
        root["album"] = album = Album("Album")
        album["cover"] = Document("The cover", "Of the album.")


DEBUG_KEY = "k" * 43


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("all")
    port = unused_port()
    uri = f"file://{directory}/Data.fs?blobstorage_dir={directory}/blobs"
    fill(uri)
    chosen = [f"http_port={port}", f"zodb_uri={uri}", f"session_keys={directory}/session_keys"]
    command = [Path(sys.executable).with_name("paster"), "serve", write_ini(directory), *chosen]
    environment = {"PYTHONPATH": str(TOP / "tests"), "PIPELINE_DEBUG_KEY": DEBUG_KEY}
    process = Process(command, directory / "said", env=environment)
    try:
        process.wait_for_port(port)
        yield Served(port, process)
    finally:
        process.stop()
    assert "Traceback" not in process.said()


def ask(
    served: Served, path: str, method: str = "GET", body: str | None = None, peer: str = "127.0.0.1", **headers: str
) -> Answer:
    """One request, from an address of this machine."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30, source_address=(peer, 0))
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read().decode())
    finally:
        connection.close()


def basic(login: str = "admin", password: str = PASSWORD) -> str:
    return f"Basic {b64encode(f'{login}:{password}'.encode()).decode()}"


Curl = Callable[..., tuple[int, str]]


@pytest.fixture
def curl(served: Served, program: Callable[[str, str], str]) -> Curl:
    """``curl("/path", "-X", "DELETE")`` is the status, and headers and body as they came."""
    run = [program("curl", "apt install curl"), "-sS", "-i", "--max-time", "30", "-H", "Expect:"]

    def curl(path: str, *options: str) -> tuple[int, str]:
        command = [*run, *options, f"{served.address}{path}"]
        said = subprocess.run(command, check=True, capture_output=True).stdout.decode("utf-8", "replace")
        return int(said.split()[1]), said

    return curl


AS_ADMIN = ("-u", f"admin:{PASSWORD}")


# PUT and DELETE, by curl.


def test_a_page_by_put_and_delete(curl: Curl, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(TEXT)
    put = ("-T", str(page))
    status, said = curl("/page.md", *put, *AS_ADMIN)
    assert status == 201
    assert re.search(r"(?mi)^location: http://127\.0\.0\.1:\d+/page\.md\r?$", said)
    assert "<strong>80</strong>" in curl("/page.md")[1]
    assert "<h1>Tea</h1>" in curl("/page.md")[1]

    page.write_text("# White tea\n")
    assert curl("/page.md", *put, *AS_ADMIN, "-H", 'If-Match: "7"')[0] == 412
    assert curl("/page.md", *put, *AS_ADMIN, "-H", "If-None-Match: *")[0] == 412
    status, said = curl("/page.md", *put, *AS_ADMIN, "-H", 'If-Match: "1"')
    assert status == 204 and re.search(r'(?mi)^etag: "2"', said)
    assert "White tea" in curl("/page.md")[1]

    assert "Allow: DELETE, GET, HEAD, OPTIONS, PUT" in curl("/page.md", "-X", "OPTIONS")[1]
    assert "Allow: DELETE, GET, HEAD, OPTIONS\r" in curl("/sites/", "-X", "OPTIONS")[1]
    assert curl("/page.md", "-X", "DELETE", *AS_ADMIN)[0] == 204
    assert curl("/page.md")[0] == 404
    assert curl("/page.md", "-X", "DELETE", *AS_ADMIN)[0] == 404


def test_a_file_by_put(curl: Curl, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG first")
    assert curl("/sites/picture.png", "-T", str(picture), *AS_ADMIN)[0] == 201
    tag = re.search(r'(?mi)^etag: ("\w+")', curl("/sites/picture.png")[1])
    assert tag
    picture.write_bytes(b"\x89PNG second")
    put = ("-T", str(picture), *AS_ADMIN, "-H", f"If-Match: {tag[1]}")
    assert curl("/sites/picture.png", *put, "-H", "Content-Range: bytes 0-10/20")[0] == 400
    assert curl("/sites/picture.png", *put)[0] == 204
    assert curl("/sites/picture.png", *put)[0] == 412
    status, said = curl("/sites/picture.png")
    assert status == 200 and "Content-Type: image/png" in said and said.endswith("PNG second")
    assert curl("/sites/picture.png", "-X", "DELETE", *AS_ADMIN)[0] == 204


@pytest.mark.parametrize(
    ("path", "options", "status"),
    [
        ("/new", (), 401),
        ("/new", ("-u", "admin:wrong"), 401),
        ("/new", ("-u", "eve:eve's own"), 403),
        ("/tea", (), 401),
        ("/tea", ("-u", "eve:eve's own"), 403),
        ("/none/new", AS_ADMIN, 404),
        ("/_new", AS_ADMIN, 404),  # S3
        ("/", AS_ADMIN, 405),
        ("/sites/", AS_ADMIN, 405),
        ("/counter", AS_ADMIN, 405),
        ("/new/../x", ("--path-as-is", *AS_ADMIN), 400),
        ("/a%00b", AS_ADMIN, 400),
        ("/a%E2%80%AEb.md", AS_ADMIN, 400),  # a name that looks like another one
    ],
)
def test_what_put_refuses(curl: Curl, path: str, options: tuple[str, ...], status: int) -> None:
    assert curl(path, "-X", "PUT", "--data-binary", "text", "-H", "Content-Type: text/plain", *options)[0] == status
    assert curl("/new")[0] == 404


@pytest.mark.parametrize("path", ["/", "/tea", "/counter"])
def test_what_delete_refuses(curl: Curl, path: str) -> None:
    assert curl(path, "-X", "DELETE")[0] == 401
    assert curl(path, "-X", "DELETE", "-u", "eve:eve's own")[0] == 403
    assert curl(path)[0] == 200
    if path != "/tea":  # these stay where they are
        assert curl(path, "-X", "DELETE", *AS_ADMIN)[0] == 403


def test_a_text_is_limited(served: Served) -> None:
    answer = ask(served, "/big.md", "PUT", "x" * (1024 * 1024 + 1), Authorization=basic())
    assert answer.status == 413
    answer = ask(served, "/bad.md", "PUT", "a\0b", Authorization=basic())
    assert (answer.status, "control character" in answer.text) == (400, True)
    assert ask(served, "/big.md").status == ask(served, "/bad.md").status == 404


# XML-RPC, by Python's own client.


def proxy(served: Served, login: str = "") -> xmlrpc.client.ServerProxy:
    return xmlrpc.client.ServerProxy(f"http://{login and login + '@'}127.0.0.1:{served.port}/sites/")


def test_calls_by_xmlrpc(served: Served) -> None:
    with proxy(served, "admin:correct%20horse") as sites:
        url = sites.one.add_document("A note", "first", "text")
        assert url == f"{served.address}/sites/one/a-note"
        assert [item["name"] for item in sites.one.list()] == ["a-note", "page"]  # type: ignore[union-attr, index, call-overload]
        note = getattr(sites.one, "a-note")
        assert note.edit("second", 1) == 2
        assert note.get()["text"] == "second"
        with pytest.raises(xmlrpc.client.Fault, match="This was changed by another author") as late:
            note.edit("third", 1)
        assert late.value.faultCode == 409
        with pytest.raises(xmlrpc.client.Fault, match="already") as taken:
            sites.one.add_document("A note", "again")
        assert taken.value.faultCode == 409
    assert "second" in ask(served, "/sites/one/a-note").text


@pytest.mark.parametrize(
    ("login", "call", "code"),
    [
        ("", lambda sites: sites.one.add_document("Title", "text"), 401),
        ("eve:eve%27s%20own", lambda sites: sites.one.add_document("Title", "text"), 403),
        ("", lambda sites: sites.one.page.edit("text", 1), 401),
        ("admin:correct%20horse", lambda sites: sites.one.add_document(" ", "text"), 400),
        ("admin:correct%20horse", lambda sites: sites.one.add_document("Title", 7), 400),
        ("admin:correct%20horse", lambda sites: sites.one.add_document("Title"), 400),
        ("admin:correct%20horse", lambda sites: sites.one.add_document("Title", "text", "word"), 400),
        ("admin:correct%20horse", lambda sites: sites.one.page.delete({"revision": 1}), 404),  # S20: a browser's
        ("", lambda sites: sites.nothing(), 404),
        ("", lambda sites: sites.one.nothing.get(), 404),
        ("", lambda sites: sites.one.keys(), 404),  # S2
        ("", lambda sites: sites.list(-1), 400),
    ],
)
def test_faults(served: Served, login: str, call: Callable[[Any], object], code: int) -> None:
    with proxy(served, login) as sites:
        with pytest.raises(xmlrpc.client.Fault) as fault:
            call(sites)
        assert fault.value.faultCode == code
        assert [item["name"] for item in sites.list()] == ["one"]  # type: ignore[union-attr, index, call-overload]
        assert sites.one.page.get()["revision"] == 1  # type: ignore[union-attr, index, call-overload]


def test_a_wrong_password_of_a_call_is_nobody_s(served: Served) -> None:
    with proxy(served, "admin:wrong") as sites, pytest.raises(xmlrpc.client.Fault) as fault:
        sites.one.add_document("Title", "text")
    assert fault.value.faultCode == 401


# JSON.


def ask_json(served: Served, path: str, data: dict[str, Any] | None = None, **headers: str) -> tuple[int, Any]:
    """By urllib, as a script does it."""
    body = None if data is None else json.dumps(data).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()} | {"Accept": "application/json"}
    if data is not None:
        named["Content-Type"] = "application/json"
    with urlopen(Asked(served.address + path, body, named), timeout=30) as answer:
        return answer.status, json.load(answer)


def test_json_by_a_script(served: Served) -> None:
    assert ask_json(served, "/tea")[1]["text"] == TEXT
    tree = ask_json(served, "/sites/@@tree?depth=2")[1]
    assert tree["items"]["one"]["items"]["page"]["url"] == f"{served.address}/sites/one/page"
    assert "items" not in ask_json(served, "/sites/@@tree?depth=0")[1]
    allowed = {"Authorization": basic(), "X-Requested-With": "a script"}
    status, made = ask_json(served, "/@@add-document", {"title": "By JSON", "text": "x"}, **allowed)
    assert (status, made["url"]) == (201, f"{served.address}/by-json")
    status, made = ask_json(served, "/by-json/@@edit", {"text": "y", "revision": 1}, **allowed)
    assert (status, made["revision"]) == (200, 2)


def test_what_json_refuses(served: Served, curl: Curl) -> None:
    accept = ("-H", "Accept: application/json")
    add = ("-H", "Content-Type: application/json", "-d", '{"title": "x"}')
    assert curl("/@@add-document", *accept, *add)[0] == 401
    assert curl("/@@add-document", *accept, *add, *AS_ADMIN)[0] == 403  # for want of X-Requested-With
    status, said = curl("/nothing", *accept)
    assert status == 404 and "application/problem+json" in said
    status, said = curl("/sites/@@tree?depth=many", *accept)
    assert status == 400 and "'depth'" in said
    assert curl("/sites/@@tree")[0] == 404, "a view of another type of requests"


# Namespaces, a default step, a converter.


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/++skin++plain/tea", 200, "/++skin++plain/tea]"),
        ("/++skin++none/tea", 404, ""),
        ("/++lang++de/@@greeting", 200, '<p lang="de">Willkommen</p>'),
        ("/++lang++en/@@greeting", 200, '<p lang="en">Welcome</p>'),
        ("/++lang++../@@greeting", 400, ""),
        ("/++item++tea", 200, "<h1>Tea</h1>"),
        ("/++item++login", 404, ""),
        ("/ann/++attribute++address", 200, "lives in Rome"),
        ("/ann/++attribute++diary", 404, ""),  # S4
        ("/ann/++attribute++__class__", 404, ""),
        ("/ann/address", 404, ""),
        ("/++etc++about", 200, "served at http://127.0.0.1:"),
        ("/++etc++nothing", 404, ""),
        ("/++newest++1", 200, ""),
        ("/++newest++1000", 404, ""),
        ("/++resource++demo/site.css", 200, "color-scheme"),
        ("/++resource++demo/_x.css", 404, ""),
        ("/++resource++demo/../site.css", 400, ""),
        ("/++resource++nothing/site.css", 404, ""),
        ("/++nothing++x", 404, ""),
        ("/@@greeting", 200, "Welcome"),
        ("/++view++greeting", 200, "Welcome"),
        ("/album", 200, "Of the album."),
        ("/album/", 200, "Of the album."),
        ("/album/cover", 200, "Of the album."),
    ],
)
def test_namespaces(served: Served, path: str, status: int, said: str) -> None:
    answer = ask(served, path)
    assert answer.status == status
    assert said in answer.text


def test_debug_flags_of_a_developer(served: Served) -> None:
    """S17: in debug mode, with the key."""
    handed = ask(served, f"/?debug-key={DEBUG_KEY}")
    assert (handed.status, handed.headers["Location"]) == (303, "/")
    answer = ask(served, "/++debug++timing/@@flags", Cookie=handed.headers["Set-Cookie"].partition(";")[0])
    assert (answer.status, answer.text) == (200, "timing")


def test_debug_flags_of_anybody_else(served: Served) -> None:
    """S17"""
    assert ask(served, "/++debug++timing/@@flags").status == 404
    assert ask(served, "/++debug++timing/@@flags", Cookie="debug-key=x").status == 404


def test_the_styles_are_kept_for_ever(served: Served) -> None:
    found = re.search(r'href="http://127\.0\.0\.1:\d+(/\+\+resource\+\+demo@\w+/site\.css)"', ask(served, "/").text)
    assert found
    style = ask(served, found[1], Range="bytes=0-9")
    assert (style.status, len(style.text)) == (206, 10)
    assert style.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert ask(served, found[1], If_None_Match=style.headers["ETag"]).status == 304


def test_an_upload_with_a_converter(curl: Curl, tmp_path: Path) -> None:
    scan = tmp_path / "scan.pdf"
    scan.write_bytes(b"%PDF" * 50_000)
    sent = ("-F", f"scan=@{scan}", "-F", "pages:int=7", "-F", "tags:tokens=tea green")
    told = ("-u", f"admin:{PASSWORD}")
    status, said = curl("/@@catalogue", *sent, *told, "-F", "isbn:isbn=978-0-306-40615-7")
    assert status == 200
    assert said.endswith("9780306406157, 7 pages, scan.pdf of 200000 bytes, ['tea', 'green']")
    status, said = curl("/@@catalogue", *sent, *told, "-F", "isbn:isbn=978-0-306-40615-8")
    assert (status, "its last figure is wrong" in said) == (400, True)
    status, said = curl("/@@catalogue", *told, "-F", "isbn=x", "-F", "scan=no file")
    assert (status, "it is not a file" in said) == (400, True)


# Virtual hosting.

SITE = "http://www.example.com"
PATH_FORMS = [
    ("/VirtualHostBase/http/www.example.com:80/sites/one/VirtualHostRoot/page/@@where", f"{SITE}/page"),
    (
        "/VirtualHostBase/https/www.example.com:443/sites/one/VirtualHostRoot/_vh_docs/page/@@where",
        "https://www.example.com/docs/page",
    ),
    ("/sites/one/++vh++http:www.example.com:80/++/page/@@where", f"{SITE}/page"),
    (
        "/sites/++vh++https:www.example.com:8443/docs/++/one/page/@@where",
        "https://www.example.com:8443/docs/one/page",
    ),
]
HEADER_FORMS: list[tuple[str, dict[str, str], str]] = [
    (
        "/page/@@where",
        {"X_Vhm_Host": f"{SITE}/docs", "X_Vhm_Root": "/sites/one"},
        f"{SITE}/docs/page for 127.0.0.1",
    ),
    (
        "/tea/@@where",
        {"X_Forwarded_Host": "www.example.com", "X_Forwarded_Proto": "https", "X_Forwarded_For": "192.0.2.7"},
        "https://www.example.com/tea for 192.0.2.7",
    ),
    (
        "/tea/@@where",
        {"X_Forwarded_Host": "www.example.com", "X_Forwarded_Port": "81", "X_Forwarded_Prefix": "/docs"},
        f"{SITE}:81/docs/tea for 127.0.0.1",
    ),
    (
        "/tea/@@where",
        {"Forwarded": 'for="[2001:db8::7]:4711";host=www.example.com;proto=https'},
        "https://www.example.com/tea for 2001:db8::7",
    ),
]


@pytest.mark.parametrize(("path", "seen"), PATH_FORMS)
def test_virtual_hosting_by_path(served: Served, path: str, seen: str) -> None:
    """S9: of a trusted peer, and of no other; for hosts that are served."""
    assert ask(served, path).text == f"{seen} for 127.0.0.1"
    assert ask(served, path, peer="127.0.0.2").status == 404
    assert ask(served, path.replace("www.example.com", "evil.example")).status == 400


@pytest.mark.parametrize(("path", "headers", "seen"), HEADER_FORMS)
def test_virtual_hosting_by_headers(served: Served, path: str, headers: dict[str, str], seen: str) -> None:
    """S9, S13."""
    assert ask(served, path, **headers).text == seen
    evil = {name: text.replace("www.example.com", "evil.example") for name, text in headers.items()}
    dropped = ask(served, path, peer="127.0.0.2", **headers)
    assert "example" not in dropped.text and (dropped.status == 404 or served.address in dropped.text)
    assert ask(served, path, **evil).status == 400


def test_a_page_behind_a_proxy_has_its_links_there(served: Served) -> None:
    page = ask(served, "/++skin++plain/VirtualHostBase/x")
    assert page.status == 404
    page = ask(served, "/VirtualHostBase/https/www.example.com:443/sites/one/VirtualHostRoot/page")
    links = re.findall(r'(?:href|action)="([^"]+)"', page.text)
    assert all(link.startswith(("https://www.example.com/", "other", "#")) for link in links) and len(links) > 4
    slash = ask(served, "/VirtualHostBase/https/www.example.com:443/sites/VirtualHostRoot/one")
    assert (slash.status, slash.headers["Location"]) == (302, "/one/")


# A browser.


@pytest.mark.browser
@pytest.mark.timeout(180)
def test_a_browser(browser: WebDriver, served: Served) -> None:
    """It is the same site: pages with their styles, forms, and what other clients have stored."""
    ask(served, "/from-curl.md", "PUT", "# From curl\n", Authorization=basic())
    browser.get(f"{served.address}/from-curl.md")
    assert text_of(browser, "h1") == "From curl"
    style = browser.find_element(By.CSS_SELECTOR, "link[rel=stylesheet]").get_property("href")
    assert "/++resource++demo@" in str(style)
    assert browser.execute_script("return document.styleSheets[0].cssRules.length") > 10

    browser.get(f"{served.address}/@@login")
    type_in(browser, login="admin", password=PASSWORD)
    press(browser, "Log in")
    press(browser, "New document")
    type_in(browser, title="From a browser", text="Typed.")
    press(browser, "Save")
    assert text_of(browser, "article") == "Typed."
    assert ask_json(served, "/from-a-browser")[1]["text"] == "Typed."

    browser.get(f"{served.address}/++lang++de/sites/one/")
    follow(browser, "//a[.='Page']")
    assert browser.current_url == f"{served.address}/++lang++de/sites/one/page"
    browser.get(f"{served.address}/++skin++plain/tea")
    assert "Green tea at **80** degrees." in text_of(browser, "pre")
    browser.get(f"{served.address}/album")
    assert text_of(browser, "h1") == "The cover"


# The ini.


def test_it_is_complete_and_says_what_each_kind_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--long", str(TOP / "etc" / "all.ini")]) == 0
    shown = capsys.readouterr().out
    assert re.findall(r"(?m)^\[(\w+)", shown) == ["calls", "authors", "programs", "browsers"]
    assert len(re.findall(r"request_type = pipeline[._]", shown)) == 3


def test_without_its_line_a_protocol_is_not_served(tmp_path: Path, no_documentation: None) -> None:
    """S20: the views of PUT, DELETE and XML-RPC are not there for browsers."""
    from webob import Request

    text = write_ini(tmp_path).read_text()
    for line in ("calls", "authors"):
        text = re.sub(rf"(?m)^    {line}  .*\n", "", text)
    (tmp_path / "less.ini").write_text(text)
    data = {"zodb_uri": "memory://all-ini-without", "session_keys": str(tmp_path / "keys")}
    app = load(f"config:{tmp_path / 'less.ini'}", **data)
    for method, path in [("PUT", "/"), ("DELETE", "/counter"), ("PUT", "/counter"), ("DELETE", "/index.md")]:
        answer = Request.blank(path, method=method, base_url="http://127.0.0.1").get_response(app)
        assert (answer.status_int, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert Request.blank("/new.md", method="PUT", base_url="http://127.0.0.1").get_response(app).status_int == 404
    body = xmlrpc.client.dumps((), "list").encode()
    call = Request.blank("/", method="POST", body=body, content_type="text/xml", base_url="http://127.0.0.1")
    assert call.get_response(app).status_int == 405
