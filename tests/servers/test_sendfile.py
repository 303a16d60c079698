"""``sendfile`` behind the nginx that ``pipeline deploy`` writes: clients see no difference."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPMessage
from io import BytesIO
from pathlib import Path
from socket import AF_UNIX, socket
from typing import NamedTuple, NoReturn

import pytest

from pipeline_demo import site
from pipeline_demo.content import store
from pipeline_demo.models import File
from servers.base import Missing, find_behind_nginx
from servers.deployed import TOP, Deployed, deployed, own

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

BYTES = bytes(range(256)) * 20_000
ETAG = f'"{hashlib.sha256(BYTES).hexdigest()}"'
FILTER = """
[filter:sendfile]
use = egg:wsgi-pipeline#sendfile
locations =
    %(here)s/blobs = /_blobs/
    %(here)s/static = /_static/
"""
VIEWS = '''
"""Files beside the database."""

from pathlib import Path

from pipeline import view
from pipeline_demo.models import Site
from pipeline.http.files import serve
from pipeline.interfaces import PUBLIC

HERE = Path(__file__).parent / "static"

@view(context=Site, name="file", permission=PUBLIC)
def file(context, request, response):
    serve(request, response, HERE / request.GET["name"])

@view(context=Site, name="fooled", permission=PUBLIC)
def fooled(context, request, response):
    """What nginx is told if a link takes the place of a file after the site has looked."""
    response.headers["X-Accel-Redirect"] = "/_static/link.txt"
    return ""
'''


class Answer(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def described(self) -> dict[str, str]:
        """Return the headers, without those that tell how the answer is sent."""
        of_the_way = ("connection", "content-length", "date", "server", "transfer-encoding")
        return {name.lower(): value for name, value in self.headers.items() if name.lower() not in of_the_way}


def ask(connection: HTTPConnection, path: str, method: str = "GET", **headers: str) -> Answer:
    with closing(connection):
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        assert "X-Accel-Redirect" not in answer.headers or connection.port == 1, (
            "it stays between nginx and the site"
        )
        return Answer(answer.status, answer.headers, answer.read())


class ToTheSite(HTTPConnection):
    """A connection past nginx, to the socket of the site."""

    def __init__(self, path: Path) -> None:
        super().__init__("site", 1, timeout=20)
        self.path = path

    def connect(self) -> None:
        self.sock = socket(AF_UNIX)
        self.sock.connect(str(self.path))


@pytest.fixture(scope="module")
def etc(public_dir: Path) -> Path:
    """The demo site on a database in a file, with a blob in it, and files beside it."""
    etc = public_dir / "sendfile-etc"
    static = etc / "static"
    static.mkdir(parents=True)
    (static / "caf\xe9 100%.txt").write_bytes(BYTES)
    (static / "page.html").write_text("<!DOCTYPE html><title>Page</title>" * 100)
    (etc / "secret.txt").write_text("secret")
    (static / "link.txt").symlink_to(etc / "secret.txt")
    (etc / "file_views.py").write_text(VIEWS)
    text = (TOP / "etc" / "deploy.ini").read_text().replace(" traverse base ", " traverse sendfile base ")
    text = text.replace("scan = pipeline_demo.views", "scan = file_views pipeline_demo.views") + FILTER
    (etc / "site.ini").write_text(text)
    with site.connected(uri_in(etc)) as connection, connection.transaction_manager:
        root = site.root(connection.root())
        root["report.pdf"] = File("Report", store(BytesIO(BYTES), connection, len(BYTES)), "application/pdf")
    own(etc)
    return etc


def uri_in(etc: Path) -> str:
    return f"file://{etc}/Data.fs?blobstorage_dir={etc}/blobs"


@pytest.fixture(scope="module", params=["gunicorn", "uwsgi"])
def server(
    python: Path,
    etc: Path,
    public_dir: Path,
    missing: Callable[[str, str], NoReturn],
    request: pytest.FixtureRequest,
) -> Iterator[Deployed]:
    try:
        find_behind_nginx(request.param, python)
    except Missing as error:
        missing(*error.args)
    variables = (f"zodb_uri={uri_in(etc)}", f"session_keys={etc}/keys")
    place = public_dir / f"sendfile-{request.param}"
    with deployed(python, etc / "site.ini", place, "nginx", "--behind", request.param, *variables) as server:
        yield server
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def visit(server: Deployed) -> Callable[..., Answer]:
    def visit(path: str, method: str = "GET", **headers: str) -> Answer:
        return ask(HTTPConnection("127.0.0.1", server.port, timeout=20), path, method, **headers)

    return visit


def test_a_blob_is_sent_by_nginx(server: Deployed, visit: Callable[..., Answer]) -> None:
    answer = visit("/report.pdf")
    assert (answer.status, answer.body) == (200, BYTES)
    assert answer.headers["Content-Length"] == str(len(BYTES))
    assert "nginx sends the files in" in server.printed
    if "gunicorn.conf.py" in server.printed:
        told = ask(ToTheSite(server.directory / "run" / "site.sock"), "/report.pdf", Host="site")
        assert told.body == b"" and told.headers["X-Accel-Redirect"].startswith("/_blobs/0x00/")


def test_it_is_described_as_the_site_describes_it(visit: Callable[..., Answer]) -> None:
    """HEAD is answered by the site, and GET by nginx."""
    got = visit("/report.pdf").described
    assert got == visit("/report.pdf", "HEAD").described
    assert got["etag"] == ETAG and "last-modified" in got and got["accept-ranges"] == "bytes"
    assert got["content-type"] == "application/pdf" and got["content-disposition"].startswith("attachment; ")
    assert got["x-content-type-options"] == "nosniff" and got["content-security-policy"].endswith("sandbox")
    assert got["cache-control"] == "no-cache" and got["vary"] == "Accept, Sec-Fetch-Dest"


def test_ranges(visit: Callable[..., Answer]) -> None:
    for asked, first, last in (("bytes=256-511", 256, 511), ("bytes=-10", len(BYTES) - 10, len(BYTES) - 1)):
        part = visit("/report.pdf", Range=asked)
        assert (part.status, part.body) == (206, BYTES[first : last + 1])
        assert part.headers["Content-Range"] == f"bytes {first}-{last}/{len(BYTES)}"
        assert part.headers["ETag"] == ETAG
    assert visit("/report.pdf", Range=f"bytes={len(BYTES)}-").status == 416
    date = visit("/report.pdf").headers["Last-Modified"]
    for condition, status in ((ETAG, 206), ('"another"', 200), (date, 206), ("Sun, 06 Nov 1994 08:49:37 GMT", 200)):
        part = visit("/report.pdf", Range="bytes=0-9", If_Range=condition)
        assert (part.status, part.body) == (status, BYTES[:10] if status == 206 else BYTES), condition


def test_what_the_client_has_is_not_sent(visit: Callable[..., Answer]) -> None:
    whole = visit("/report.pdf")
    for headers in ({"If_None_Match": ETAG}, {"If_Modified_Since": whole.headers["Last-Modified"]}):
        same = visit("/report.pdf", **headers)
        assert (same.status, same.body) == (304, b"")
    for headers in ({"If_None_Match": '"another"'}, {"If_Modified_Since": "Sun, 06 Nov 1994 08:49:37 GMT"}):
        assert visit("/report.pdf", **headers).body == BYTES
    assert visit("/report.pdf", If_Match='"another"').status == 412
    assert visit("/report.pdf", If_Match=ETAG).body == BYTES


def test_from_outside_the_internal_locations_are_not_there(etc: Path, visit: Callable[..., Answer]) -> None:
    blob = max((etc / "blobs").rglob("*.blob"), key=lambda path: path.stat().st_size)
    for path in (
        f"/_blobs/{blob.relative_to(etc / 'blobs')}",
        "/_static/page.html",
        "/_static/",
        "/_blobs/.layout",
    ):
        for method in ("GET", "HEAD", "POST"):
            answer = visit(path, method)
            assert answer.status in (404, 405) and BYTES[:100] not in answer.body, path
    for path in ("/x/../_static/page.html", "/%5Fstatic/page.html", "//_static/page.html", "/_static%2Fpage.html"):
        assert visit(path).status in (400, 404), path
    assert visit("/", X_Accel_Redirect="/_static/page.html").status == 200


def test_names_and_types(visit: Callable[..., Answer]) -> None:
    answer = visit("/@@file?name=caf%C3%A9%20100%25.txt")
    assert (answer.status, answer.body) == (200, BYTES) and answer.headers["Content-Type"] == "text/plain"
    page = visit("/@@file?name=page.html", Accept_Encoding="gzip")
    assert page.body.startswith(b"<!DOCTYPE html>") and page.headers["Content-Encoding"] is None


def test_a_link_leads_nowhere(visit: Callable[..., Answer]) -> None:
    """S14: the site does not leave it to nginx, and nginx does not follow one that was put there since."""
    assert visit("/@@file?name=link.txt").body == b"secret", "the view has opened it, so the site sends it"
    assert visit("/@@fooled").status == 403
