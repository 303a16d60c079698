"""``pipeline deploy nginx`` and ``apache`` with ``--tls``: a real handshake, with a certificate of the test."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlencode

import pytest

from pipeline.tools.command import main
from pipeline_demo import site
from pipeline_demo.users import set_password
from ports import unused_port
from servers.base import Missing, find, find_behind_nginx, wait_until
from servers.deployed import TOP, Deployed, deployed, own

pytestmark = pytest.mark.timeout(180)
NAME = "www.example.com"
INI = str(TOP / "etc" / "deploy.ini")


def make_pair(directory: Path, *names: str) -> tuple[Path, Path]:
    """Write a certificate that signs itself, and its key."""
    certificate, key = directory / "site.pem", directory / "site.key"
    subject = ",".join(f"DNS:{name}" for name in names)
    command = [find("openssl", "apt install openssl"), "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=test"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-addext", f"subjectAltName={subject}"]
    subprocess.run([*command, *curve, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    return certificate, key


class Visited(NamedTuple):
    """A site, and the port of its redirect."""

    server: Deployed
    http: int
    certificate: Path

    @property
    def url(self) -> str:
        return f"https://{NAME}:{self.server.port}"

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    def connect(self, context: ssl.SSLContext | None = None, name: str = NAME) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
        try:
            return (context or self.context()).wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> tuple[HTTPResponse, str]:
        connection = HTTPSConnection(NAME, self.server.port)
        with closing(connection):
            connection.sock = self.connect()
            return asked(connection, method, path, body, headers)

    def ask_http(self, method: str, path: str, body: str = "", **headers: str) -> tuple[HTTPResponse, str]:
        with closing(HTTPConnection("127.0.0.1", self.http, timeout=30)) as connection:
            return asked(connection, method, path, body, {"Host": f"{NAME}:{self.http}", **headers})


def asked(connection: HTTPConnection, *request: Any) -> tuple[HTTPResponse, str]:
    method, path, body, headers = request
    connection.request(method, path, body or None, headers)
    answer = connection.getresponse()
    return answer, answer.read().decode()


LOGIN = urlencode({"login": "admin", "password": "secret"})
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
VIEW = """
from pipeline import redirect, view
from pipeline_demo.models import Site
from pipeline.interfaces import PUBLIC

@view(context=Site, name="here", permission=PUBLIC)
def here(context, request):
    return f"{request.absolute_url(context)} {request.application_url} {request.environ['REMOTE_ADDR']}"

@view(context=Site, name="there", permission=PUBLIC)
def there(context, request):
    return redirect(request.absolute_url(context))
"""


def prepare(place: Path) -> list[str]:
    """Return what a deployment of the demo needs: its variables. The ini is in ``etc``."""
    etc = shutil.copytree(TOP / "etc", place / "etc")
    (etc / "tls_views.py").write_text(VIEW)
    ini = etc / "deploy.ini"
    text = ini.read_text()
    assert text.count("scan = pipeline_demo.views ") == text.count(" shield retry") == 1
    text = text.replace("scan = pipeline_demo.views ", "scan = tls_views pipeline_demo.views ")
    ini.write_text(text.replace(" shield retry", " retry"))  # so HSTS is the server's
    uri = f"file://{place}/Data.fs?blobstorage_dir={place}/blobs"
    with site.connected(uri) as connection, connection.transaction_manager:
        set_password(site.root(connection.root()), "admin", "secret")
    own(place)
    return [f"zodb_uri={uri}", f"session_keys={place}/keys"]


def python_for(target: str, request: pytest.FixtureRequest, missing: Callable[[str, str], NoReturn]) -> Path:
    """Return the Python that a target is deployed by; skip if a server is missing."""
    try:
        if target == "apache":
            find("apache2", "apt install apache2")
            if not Path("/usr/lib/apache2/modules/mod_wsgi.so").exists():
                missing("Apache's mod_wsgi.so", "apt install libapache2-mod-wsgi-py3")
            python: Path = request.getfixturevalue("python")
            return python
        here = Path(os.environ.get("PIPELINE_SERVERS_PYTHON", sys.executable))
        find_behind_nginx(target.split()[-1] if "--behind" in target else "gunicorn", here)
        return here
    except Missing as error:
        missing(*error.args)


@pytest.fixture(scope="module", params=["nginx", "nginx --behind uwsgi", "apache"])
def visited(
    request: pytest.FixtureRequest, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> Iterator[Visited]:
    target = request.param
    python = python_for(target, request, missing)
    place = public_dir / f"tls-{target.replace(' ', '')}"
    variables = prepare(place)
    certificate, key = make_pair(place, NAME, "example.com")
    own(place)
    http = unused_port()
    options = ["--tls", str(certificate), str(key), "--name", NAME, "--name", "example.com"]
    words = [*options, "--http-port", str(http), "--host", "127.0.0.1", *variables]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CURL_CA_BUNDLE", str(certificate))  # the command that is printed trusts authorities
        with deployed(python, place / "etc" / "deploy.ini", place / "site", target, *words) as server:
            yield Visited(server, http, certificate)
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.servers
def test_the_site_knows_that_it_is_https(visited: Visited) -> None:
    answer, text = visited.ask("GET", "/@@here")
    assert (answer.status, text) == (200, f"{visited.url}/ {visited.url} 127.0.0.1")
    answer, _ = visited.ask("GET", "/@@there")
    assert (answer.status, answer.getheader("Location")) == (302, f"{visited.url}/")
    answer, text = visited.ask("GET", "/a%2Fb")
    assert answer.status == 404 and "on this server" not in text, "the site says so, not Apache"
    answer, _ = visited.ask("POST", "/@@login", LOGIN, **FORM)
    assert answer.status == 303
    cookies = answer.headers.get_all("Set-Cookie", [])
    [session] = [cookie for cookie in cookies if "login=" in cookie]
    assert session.startswith("__Host-") and "; secure" in session.lower()


@pytest.mark.servers
@pytest.mark.parametrize("path", ["/@@here", "/missing", "/VirtualHostBase/x"])
def test_hsts_is_sent_once_with_each_answer(visited: Visited, path: str) -> None:
    """Answers of the site, and the last one is nginx' own."""
    answer, _ = visited.ask("GET", path)
    assert answer.status == 200 if path == "/@@here" else answer.status in (400, 404)
    assert answer.headers.get_all("Strict-Transport-Security") == ["max-age=63072000"]


@pytest.mark.servers
def test_http_2(visited: Visited) -> None:
    context = visited.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with visited.connect(context) as connection:
        assert connection.selected_alpn_protocol() == "h2"
    curl = [find("curl", "apt install curl"), "--cacert", visited.certificate, "--http2", "-sw", " %{http_version}"]
    resolved = ["--resolve", f"{NAME}:{visited.server.port}:127.0.0.1", f"{visited.url}/@@here"]
    done = subprocess.run([*curl, *resolved], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == f"{visited.url}/ {visited.url} 127.0.0.1 2"


@pytest.mark.servers
def test_tls_1_1_is_refused_by_the_server(visited: Visited) -> None:
    for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
        context = visited.context()
        context.minimum_version = context.maximum_version = version
        with visited.connect(context) as connection:
            assert connection.version() == name
    context = visited.context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError) as caught:
        visited.connect(context)
    assert caught.value.reason == "TLSV1_ALERT_PROTOCOL_VERSION"


@pytest.mark.servers
@pytest.mark.parametrize("path", ["/", "/a%2Fb//c/%C3%A9?x=%20&y=a/b", "/x%3Fy?z", "/?next=https://other.example/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_port_80_leads_to_https(visited: Visited, method: str, path: str) -> None:
    """The path, the query and the method stay."""
    answer, _ = visited.ask_http(method, path, "a=b" if method == "POST" else "")
    assert (answer.status, answer.getheader("Location")) == (308, f"{visited.url}{path}")
    assert answer.getheader("Strict-Transport-Security") is None  # RFC 6797 section 7.2


@pytest.mark.servers
def test_other_names_are_not_served(visited: Visited) -> None:
    for ask in (visited.ask, visited.ask_http):
        answer, _ = ask("GET", "/", Host="other.example")
        assert answer.status == 421
        assert answer.getheader("Location") is None


@pytest.mark.servers
def test_the_host_of_a_request_line_counts(visited: Visited) -> None:
    """S10: Host cannot name one that the server did not look at (RFC 9112 section 3.2.2)."""
    with visited.connect() as connection:
        line = f"GET https://{NAME}:{visited.server.port}/@@here HTTP/1.1"
        connection.sendall(f"{line}\r\nHost: other.example:99\r\nConnection: close\r\n\r\n".encode())
        text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    assert "other.example" not in text and ":99" not in text
    assert text.startswith("HTTP/1.1 400") or f"https://{NAME}" in text


@pytest.mark.servers
def test_a_certificate_is_renewed(visited: Visited) -> None:
    """By the file that an authority asks for, and the command that is printed."""
    challenge = visited.server.directory / "acme" / ".well-known" / "acme-challenge" / "token"
    challenge.parent.mkdir(parents=True)
    challenge.write_text("an answer")
    own(challenge.parents[2])
    answer, text = visited.ask_http("GET", "/.well-known/acme-challenge/token")
    assert (answer.status, text) == (200, "an answer")
    with visited.connect() as connection:
        old = connection.getpeercert(binary_form=True)
    make_pair(visited.certificate.parent, NAME, "example.com")
    own(visited.certificate.parent)
    [note] = [line for line in visited.server.commands["note"] if line.startswith("After the certificate is")]
    visited.server.commands["renew"] = [note.partition(": ")[2].partition(". With certbot")[0]]
    visited.server.run("renew")

    def renewed() -> bool:
        try:
            with visited.connect() as connection:
                is_new = connection.getpeercert(binary_form=True) != old
            return is_new and visited.ask("GET", "/@@here")[0].status == 200
        except OSError:  # the old certificate is not trusted any more: an old process still takes connections
            return False

    wait_until(renewed, 20, "the site answers with the new certificate")


@pytest.mark.servers
@pytest.mark.parametrize("behind", ["gunicorn", "uwsgi"])
def test_the_scheme_of_a_proxy_that_ends_tls(
    behind: str, request: pytest.FixtureRequest, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    """S13: that of the proxy counts, and that of others does not."""
    python = python_for(f"nginx --behind {behind}", request, missing)
    place = public_dir / f"tls-before-{behind}"
    words = ["--behind", behind, "--trusted-proxy", "127.0.0.2", "--trusted-proxy", "10.0.0.0/8", *prepare(place)]
    said = {"Host": NAME, "X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.5"}
    port = {"X-Forwarded-Port": "8443"}
    with deployed(python, place / "etc" / "deploy.ini", place / "site", "nginx", *words) as server:

        def here(peer: str, **headers: str) -> list[str]:
            with closing(HTTPConnection("127.0.0.1", server.port, 30, source_address=(peer, 0))) as connection:
                answer, text = asked(connection, "GET", "/@@here", "", headers)
                assert answer.status == 200, text
                return text.split()[1:]

        assert here("127.0.0.2", **said) == [f"https://{NAME}", "203.0.113.5"]
        several = {"X-Forwarded-Proto": "http, https", "X-Forwarded-For": "198.51.100.7, 203.0.113.5, 10.1.2.3"}
        assert here("127.0.0.2", **(said | several)) == [f"https://{NAME}", "203.0.113.5"]
        if behind == "gunicorn":  # in uWSGI's protocol the port is that of Host
            assert here("127.0.0.2", **said, **port) == [f"https://{NAME}:8443", "203.0.113.5"]
        assert here("127.0.0.2", **(said | {"X-Forwarded-Proto": "http"}))[0] == f"http://{NAME}"
        plain = f"http://{NAME}:{server.port}"
        assert here("127.0.0.3", **(said | port | {"Host": f"{NAME}:{server.port}"})) == [plain, "127.0.0.3"]


@pytest.mark.servers
@pytest.mark.parametrize(
    "words", ["", "--tls CERT KEY --name NAME", "--trusted-proxy 10.0.0.1", "--upstream 10.0.0.1:80", "--prefix /a"]
)
def test_gixy_finds_nothing_in_the_configuration(
    words: str, pair: list[str], tmp_path: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    gixy = Path(sys.executable).with_name("gixy")
    if not gixy.exists():
        missing("gixy", "pip install gixy-ng")
    meant = {"CERT": pair[0], "KEY": pair[1], "NAME": NAME}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.tools.deploy.need_readable", lambda path, user: None)
        options = [meant.get(word, word) for word in words.split()]
        assert main(["deploy", "nginx", INI, str(tmp_path / "site"), *options]) == 0
    command = [gixy, "--format", "json", tmp_path / "site" / "nginx.conf"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout) == [], done.stdout + done.stderr


# What is refused before anything is written.


@pytest.fixture
def pair(tmp_path: Path, missing: Callable[[str, str], NoReturn]) -> list[str]:
    try:
        return [str(path) for path in make_pair(tmp_path, NAME, "*.example.org")]
    except Missing as error:
        missing(*error.args)


@pytest.mark.once
@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("nginx --tls /none.pem KEY --name NAME", "--tls /none.pem: No such file or directory"),
        ("nginx --tls CERT /none.key --name NAME", "--tls /none.key: No such file or directory"),
        ("nginx --tls CERT OTHER --name NAME", "the key is not that of the certificate"),
        ("apache --tls INI KEY --name NAME", "not in PEM"),
        ("nginx --tls CERT SECRET --name NAME", "the key has a passphrase"),
        ("nginx --tls CERT KEY --name https://NAME/", "--name https://www.example.com/: not a host name such as"),
        ("nginx --tls CERT KEY --name NAME;evil", "not a host name"),
        ("nginx --tls CERT KEY --name NAME:443", "it has a port"),
        ("nginx --tls CERT KEY --name 127.0.0.1", "it is an address"),
        ("nginx --tls CERT KEY --name NAME --name other.example", "Hostname mismatch, certificate is not valid"),
        ("nginx --tls CERT KEY --name a.b.example.org", "Hostname mismatch"),
        ("nginx --tls CERT KEY", "--tls and --name go together"),
        ("nginx --name NAME", "--tls and --name go together"),
        ("nginx --tls CERT KEY --name NAME --port 80", "--http-port 80: --port has the same number"),
        ("gunicorn --tls CERT KEY --name NAME", "--tls: gunicorn ends no TLS here, but apache and nginx do."),
        ("container --tls CERT KEY --name NAME", "--tls: container ends no TLS here"),
        ("apache --trusted-proxy 10.0.0.1", "--trusted-proxy: apache passes on what a proxy says. Let the element"),
        ("nginx --trusted-proxy proxy.example", "--trusted-proxy proxy.example: not an address or network"),
    ],
)
def test_what_does_not_fit_is_refused(
    words: str, refused: str, pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, secret = tmp_path / "other.key", tmp_path / "secret.key"
    new = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    encrypt = ["openssl", "pkey", "-in", pair[1], "-aes256", "-passout", "pass:x", "-out", str(secret)]
    if "OTHER" in words:
        subprocess.run([*new, "-out", str(other)], check=True, capture_output=True)
    if "SECRET" in words:
        subprocess.run(encrypt, check=True)
    meant = {"CERT": pair[0], "KEY": pair[1], "OTHER": str(other), "SECRET": str(secret), "INI": INI}
    target, *options = (meant.get(word, word.replace("NAME", NAME)) for word in words.split())
    assert main(["deploy", target, INI, str(tmp_path / "site"), *options]) == 1
    said = capsys.readouterr().err
    assert refused in said
    assert not (tmp_path / "site").exists()
