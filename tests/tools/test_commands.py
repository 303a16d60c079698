"""``pipeline check``, ``show``, ``views``, ``element`` and ``explain`` as programs and people use them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from pipeline.loading.asking import request_of
from pipeline.telling.errors import in_one_line
from pipeline.tools.command import main
from tools.conftest import CODE, INI, Site

TOP = Path(__file__).resolve().parents[2]
DEPLOY = str(TOP / "etc" / "deploy.ini")

DATABASE = INI.replace("errors traverse", "retry zodb errors transaction traverse").replace(
    "root = MODULE:root\n", ""
) + (
    "\n[filter:retry]\nuse = egg:wsgi-pipeline#retry\n"
    "\n[filter:zodb]\nuse = egg:wsgi-pipeline#zodb\nuri = file://HERE/Data.fs\nroot = MODULE:app\n"
    "\n[filter:transaction]\nuse = egg:wsgi-pipeline#transaction\n"
)
STORED = """
from persistent.mapping import PersistentMapping
from transaction.interfaces import TransientError
from pipeline import view


class Root(PersistentMapping):
    pass


def app(root):
    if "app" not in root:
        root["app"] = Root(count=0)
    return root["app"]


@view(context=Root)
def index(context, request):
    return str(context["count"])


@view(context=Root, name="add", methods=("POST",))
def add(context, request):
    context["count"] += 1
    return str(context["count"])


@view(context=Root, name="own", methods=("POST",))
def own(context, request):
    context["count"] += 1
    request.tm.commit()
    return "done"


@view(context=Root, name="again")
def again(context, request):
    if request.attempt < 3:
        raise TransientError("once more")
    return "third"
"""


def test_findings_for_programs(site: Site) -> None:
    site.write(INI.replace("#errors", "#erors"), CODE)
    assert site.run("check")[0] == 1
    status, said = site.run("check", "--json")
    report = json.loads(said)
    assert (status, report["ok"]) == (1, False)
    [finding] = report["findings"]
    assert finding["level"] == "error"
    assert (finding["file"], finding["section"]) == (str(site.ini), "filter:errors")
    assert finding["line"] == site.line("#erors", site.ini)


def test_a_sound_ini_has_no_findings(site: Site) -> None:
    status, said = site.run("check", "--strict")
    assert (status, said) == (0, f"{site.ini}: 1 pipeline, 3 parts, in order and complete")


def test_warnings_are_errors_when_strict(site: Site) -> None:
    site.write(INI.replace("#errors", "#errors\ndebug = true"), CODE)
    assert site.run("check")[0] == 0
    assert site.run("check", "--strict")[0] == 1


def test_every_pipeline_of_the_ini_is_loaded(site: Site) -> None:
    """Also one that main does not lead to."""
    other = INI.replace("pipeline:main", "pipeline:other").replace("errors traverse", "errors other_traverse")
    more = "[pipeline:other]" + other.partition("[pipeline:other]")[2].partition("[filter:errors]")[0]
    broken = "\n[filter:other_traverse]\nuse = egg:wsgi-pipeline#traverse\nroot = nowhere:root\n"
    site.write(f"{INI}\n{more}{broken}", CODE)
    status, said = site.run("check")
    assert status == 1
    assert "there is no module 'nowhere'" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("[server:main]\nuse = egg:waitress#main\nhost = 0.0.0.0\n", "listens on every address (0.0.0.0)"),
        ("[server:main]\nuse = egg:waitress#main\nlisten = *:8080\n", "listens on every address (*:8080)"),
        ("[filter:x]\nuse = egg:Paste#evalerror\n", "lets visitors run code"),
    ],
)
def test_what_is_not_safe(site: Site, options: str, said: str) -> None:
    site.write(f"{INI}\n{options}", CODE)
    assert said in site.run("check")[1]


@pytest.mark.parametrize(("form", "said"), [("5000", "_size = 5000 "), ("2000000000", "in order and complete")])
def test_the_server_takes_the_longest_body_that_an_element_takes(site: Site, form: str, said: str) -> None:
    forms = f"[filter:forms]\nuse = egg:wsgi-pipeline#forms\nmax_body = {form}\n"
    server = "[server:main]\nuse = egg:waitress#main\nhost = 127.0.0.1\nport = 0\n"
    site.write(f"{INI.replace('errors traverse', 'errors forms traverse')}\n{forms}{server}", CODE)
    found = site.run("check")[1]
    assert said in found
    assert ("waitress takes bodies of up to 1 GiB" in found) == (form == "5000")


def test_passwords_that_are_tried_first_and_databases_that_are_missing(site: Site) -> None:
    site.write(DATABASE.replace("file://HERE/Data.fs", "postgres://zope:zope@127.0.0.1/x"), STORED)
    assert "the password of zope is one that attackers try first" in site.run("check")[1]
    site.write(DATABASE, STORED)
    status, said = site.run("check")
    assert status == 0
    assert f"the file {site.directory}/Data.fs is not there yet" in said
    assert not (site.directory / "Data.fs").exists(), "no database is opened"


def test_an_option_at_its_default(site: Site) -> None:
    site.write(INI.replace("#traverse", "#traverse\nmax_segments = 128"), CODE)
    assert "max_segments = 128 is the default of traverse" in site.run("check")[1]


def test_retry_and_transaction_without_a_database(site: Site) -> None:
    """A foreign application may need them. The check must not tell a site to take the commit out."""
    elements = "".join(f"[filter:{name}]\nuse = egg:wsgi-pipeline#{name}\n" for name in ("retry", "transaction"))
    code = f"{CODE}\ndef app(global_conf):\n    return lambda environ, start_response: []\n"
    site.write(INI.replace("errors traverse", "retry errors transaction traverse") + elements, code)
    said = site.run("check")[1]
    assert "retry has nothing to do" in said and "transaction has nothing to do" in said
    pipeline = "[pipeline:main]\npipeline = retry transaction foreign\n"
    site.write(f"{pipeline}{elements}[app:foreign]\npaste.app_factory = MODULE:app\n", code)
    status, said = site.run("check")
    assert status == 0
    assert "nothing to do" not in said


@pytest.mark.parametrize(
    ("database", "is_told"),
    [
        ("zodb\nuri = file://HERE/Data.fs", True),
        ("zodb\nuri = zeo://127.0.0.1:9991", False),
        ("zodb\ndb = MODULE:database", False),
        ("sql\nurl = sqlite:///HERE/site.db", True),
        ("sql\nurl = mysql+pymysql://site:long-word@127.0.0.1/site", True),
        ("sql\nurl = postgresql+psycopg://127.0.0.1/site\nread_urls = postgresql+psycopg://127.0.0.2/site", False),
    ],
)
def test_causal_beside_a_database_that_is_never_behind_or_does_not_say(
    site: Site, database: str, is_told: bool
) -> None:
    named = (("retry", "retry"), ("causal", "causal\nkeys = HERE/keys"), ("database", database))
    elements = "".join(f"[filter:{name}]\nuse = egg:wsgi-pipeline#{text}\n" for name, text in named)
    ini = INI.replace("errors traverse", "retry causal database errors transaction traverse") + elements
    code = f"{CODE}\nfrom ZODB import DB\n\ndef database():\n    return DB(None)\n"
    site.write(f"{ini}[filter:transaction]\nuse = egg:wsgi-pipeline#transaction\n", code)
    status, said = site.run("check")
    assert status == 0
    assert ("causal tells nothing" in said) is is_told
    assert ("init_command=SET%20SESSION%20wsrep_sync_wait=1" in said) is is_told


def test_a_missing_module_says_how_it_is_installed() -> None:
    said = in_one_line(ModuleNotFoundError("No module named 'zodburi'", name="zodburi"))
    assert said == "the module zodburi is missing: pip install 'wsgi-pipeline[zodb]'"
    own = in_one_line(ModuleNotFoundError("No module named 'mine'", name="mine"))
    assert own == "the module mine is missing: install it, or put it beside the ini"


def test_an_extra_that_is_not_installed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "multipart", None)
    for name in ("pipeline.elements.forms", "pipeline.forms.multipart_body"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    ini = INI.replace("errors traverse", "errors forms traverse")
    site.write(f"{ini}\n[filter:forms]\nuse = egg:wsgi-pipeline#forms\n", CODE)
    for command in ("check", "show", "views"):
        status, said = site.run(command)
        assert status == 1
        assert "the module multipart is missing: pip install 'wsgi-pipeline[forms]'" in said


@pytest.mark.parametrize("command", ["views", "shell"])
def test_an_error_in_a_module_of_the_site_is_one_line(site: Site, command: str) -> None:
    site.write(INI, CODE + "\n1 / 0\n")
    status, said = site.run(command)
    assert status == 1
    assert (
        said == f"pipeline {command}: {site.code}, line {site.line('1 / 0')}: ZeroDivisionError: division by zero"
    )


# show, views, element


def test_show_says_what_holds_an_element_and_what_it_adds(run: Callable[..., Any]) -> None:
    status, said = run("show", "--long", DEPLOY)
    words = " ".join(said.split())
    assert status == 0
    assert "stands outside retry: the path is rewritten once, not once per attempt" in words
    assert "adds: request.attempt: int = 1. " in words
    assert "adds: request.zodb: Connection = on first use." in words
    assert "realm = Documents" in words


def test_show_has_a_line_for_each_element(run: Callable[..., Any]) -> None:
    status, said = run("show", DEPLOY)
    lines = said.splitlines()
    assert status == 0 and max(map(len, lines)) <= 116
    assert [line.split()[0] for line in lines][:3] == ["log", "vhost", "shield"]
    assert len(lines) == 15 and lines[-1].startswith("publisher")


SECRETS = (
    "authtkt.secret smtp_password api_key session.encrypt_key beaker.session.validate_key mail.pwd aws.access_key "
    "recaptcha.private_key oauth.client_secret signing.token otp pin auth credentials jwt.signature"
)


def test_show_masks_the_secrets_of_a_foreign_section__S25(tmp_path: Path, capsys: Any) -> None:
    """No facts name them, so their names do."""
    lines = [f"{name} = the-secret-{number}" for number, name in enumerate(SECRETS.split())]
    lines += ["sqlalchemy.url = postgres://site:the-secret-a/b@host/db", "title = A wiki", "author = Ada"]
    lines += ["zeo = zeo://db.example.com:9991?username=site&password=the-secret-c&wait=1"]
    ini = tmp_path / "site.ini"
    ini.write_text(f"[app:main]\npaste.app_factory = {__name__}:a_foreign_app\n" + "\n".join(lines))
    assert main(["show", "--long", str(ini)]) == 0
    said = capsys.readouterr().out
    assert "the-secret" not in said and "title = A wiki" in said and "author = Ada" in said
    assert "zeo = zeo://db.example.com:9991?username=site&password=(masked)&wait=1\n" in said


def a_foreign_app(global_conf: dict[str, str], **settings: str) -> Any:
    return lambda environ, start_response: []


def test_a_percent_sign_in_an_ini_quotes_nothing__S25(tmp_path: Path, capsys: Any) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text("[app:main]\nuse = egg:wsgi-pipeline#publisher\nuri = postgres://site:s%3cret@host/db\n")
    assert main(["show", str(ini)]) == 1
    said = capsys.readouterr().err
    assert "written %%" in said and "ret@host" not in said


def test_show_for_programs_and_foreign_middleware(site: Site) -> None:
    ini = INI.replace("errors traverse", "outer errors traverse")
    site.write(
        f"{ini}\n[filter:outer]\npaste.filter_app_factory = MODULE:outer\n",
        CODE + "\n\ndef outer(app, global_conf):\n    return app\n",
    )
    status, said = site.run("show", "--json")
    [chain] = json.loads(said)
    assert status == 0
    assert [part["name"] for part in chain["parts"]] == ["outer", "errors", "traverse", "publisher"]
    assert [part["foreign"] for part in chain["parts"]] == [True, False, False, False]
    assert chain["parts"][0]["what"] == f"foreign: {site.code}, line {site.line('def outer')}"
    assert chain["parts"][2]["defaults"]["max_segments"] == "128"


URLMAP = """
[composite:main]
use = egg:Paste#urlmap
/ = wiki
/docs = docs
[pipeline:docs]
pipeline = session errors traverse publisher
[app:wiki]
paste.app_factory = MODULE:main
[filter:session]
paste.filter_factory = MODULE:make_filter
"""


def test_foreign_parts_have_the_names_of_the_ini_and_a_composite_is_followed_into_its_apps(site: Site) -> None:
    ini = INI.replace("[pipeline:main]", "[pipeline:other]")
    code = "def main(config):\n    return lambda environ, start: [start('200 OK', []) and b'wiki']\n"
    site.write(ini + URLMAP, f"{CODE}\n\n{code}\n\ndef make_filter(config):\n    return lambda app: app\n")
    status, said = site.run("show", "--json")
    wiki, docs = json.loads(said)
    assert status == 0
    assert [(one["condition"], [part["name"] for part in one["parts"]]) for one in (wiki, docs)] == [
        ("wiki /", ["urlmap_factory", "wiki"]),
        ("docs /docs", ["urlmap_factory", "session", "errors", "traverse", "publisher"]),
    ]
    _, said = site.run("explain", "GET", "/wiki", "--json")
    assert json.loads(said)["causes"][0]["why"].startswith("the foreign middleware wiki answered 200")
    _, said = site.run("explain", "GET", "/docs/", "--json")
    assert [part["name"] for part in json.loads(said)["parts"]] == ["session", "errors", "traverse", "publisher"]


def test_views_are_listed_with_path_methods_permission_and_line(site: Site) -> None:
    status, said = site.run("views", "--json")
    [publisher] = json.loads(said)
    assert status == 0
    assert [(view["path"], view["methods"], view["where"]) for view in publisher["views"]] == [
        ("{Folder}/", "GET HEAD", f"{site.code}, line {site.line('@view(context=Folder)')}"),
        ("{Folder}/@@edit", "POST", f"{site.code}, line {site.line('edit')}"),
    ]
    assert "{Folder}/@@edit POST" in site.run("views")[1]


def test_element_says_what_explain_said(run: Callable[..., Any]) -> None:
    status, said = run("element", "traverse")
    assert status == 0
    assert "requires  root" in said
    status, said = run("element", "travers")
    assert status == 1
    assert "did you mean 'traverse'?" in said


def test_what_other_packages_have_installed_is_no_noise(
    site: Site, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paste has filters that warn when they are imported, and one that nothing can import."""
    site.code.write_text("import warnings\n\nwarnings.warn('it is old', UserWarning)\nfiltering = print\n")
    monkeypatch.syspath_prepend(site.directory)
    group = "paste.filter_factory"
    values = {"old": f"{site.module}:filtering", "broken": "not_there:x", "ours": "pipeline.not_there:x"}
    points = [EntryPoint(name, value, group) for name, value in values.items()]
    monkeypatch.setattr("pipeline.tools.element.entry_points", lambda group: points)
    status, said = run("element")
    assert status == 0 and said.startswith("ours") and said.count("\n") == 1


def test_an_element_that_is_not_installed(
    site: Site, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a package of one's own is told of like ours."""
    site.code.write_text(
        "from pipeline import Request, element\n\n\nclass ThingRequest(Request):\n    thing: str = 'x'\n"
        '    """A thing of this shop."""\n\n\n'
        "@element(adds=ThingRequest, outside={'traverse': 'the root depends on it'})\n"
        'def thing(next, *, size: int = 3):\n    """Put a thing on the request."""\n    return next\n'
    )
    monkeypatch.chdir(site.directory)
    status, said = run("element", f"{site.module}:thing")
    assert status == 0
    for text in (
        "Put a thing on the request.",
        "option    size: int, default '3'",
        "adds      request.thing: A thing of this shop.",
        "outside   traverse: the root depends on it",
    ):
        assert text in said
    assert "is not an element: it is ThingRequest" in run("element", f"{site.module}:ThingRequest")[1]


def test_element_says_what_an_element_adds(run: Callable[..., Any]) -> None:
    status, said = run("element", "retry")
    assert status == 0
    assert "adds      request.attempt: " in said


def test_element_knows_the_ends_of_pipelines(run: Callable[..., Any]) -> None:
    status, said = run("element", "publisher")
    assert status == 0
    assert "option    scan: tuple[str, ...], default ''" in said
    assert "requires  context" in said


# explain


def test_the_way_of_a_request(site: Site) -> None:
    status, said = site.run("explain", "--long", "GET", "/docs/")
    assert status == 0
    for part in (
        "GET /docs/ -> 200 OK, 5 bytes",
        "Elements, outermost first",
        "in request.root",
        "docs: {} answered by Folder.__getitem__",
        f"-> {site.module}.index ({site.code}, line {site.line('@view(context=Folder)')}) chosen: it is for Folder",
    ):
        assert part in said


def test_a_200_is_explained_on_a_screen(run: Callable[..., Any], tmp_path: Path) -> None:
    """Fifteen elements, each with the names of its changes. An error has all that is known."""
    database = f"zodb_uri=file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs"
    values = (database, f"session_keys={tmp_path}/keys")
    status, said = run("explain", DEPLOY, "GET", "/", *values)
    lines = said.splitlines()
    assert status == 0 and len(lines) <= 25 and max(map(len, lines)) <= 116
    assert any(line.split()[0] == "shield" and "Referrer-Policy" in line for line in lines if line)
    assert len(run("explain", DEPLOY, "GET", "/", *values, "--long")[1].splitlines()) > 40
    said = run("explain", DEPLOY, "GET", "/nothing", *values)[1]
    assert "Traversal" in said and '"GET /nothing' not in said, "it writes no line of the access log"


def test_the_way_of_a_request_for_programs(site: Site) -> None:
    status, said = site.run("explain", "--json", "GET", "/docs/")
    told = json.loads(said)
    assert status == 0
    assert told["status"] == "200 OK"
    assert [part["name"] for part in told["parts"]] == ["errors", "traverse", "publisher"]
    assert all(part["own_seconds"] >= 0 for part in told["parts"])
    assert [step["name"] for step in told["traversal"]] == ["", "docs"]
    assert told["view"]["candidates"][0]["verdict"] == "chosen"


def test_nothing_is_committed_but_with_commit(site: Site) -> None:
    site.write(DATABASE, STORED)
    assert "-> 200 OK" in site.run("explain", "GET", "/", "--commit")[1], "the root is made"
    status, said = site.run("explain", "POST", "/add")
    assert status == 0
    assert "1 changed, 0 stored; nothing is committed without --commit" in said
    assert json.loads(site.run("explain", "GET", "/", "--json")[1])["objects"]["stored"] == 0
    status, said = site.run("explain", "POST", "/own")
    assert status == 1
    assert "The view commits by itself, and nothing is committed here: add --commit." in said
    assert "1 changed, 1 stored" in site.run("explain", "POST", "/add", "--commit")[1]
    assert "-> 200 OK, 1 bytes" in site.run("explain", "GET", "/")[1]


def test_a_database_that_is_damaged(site: Site) -> None:
    site.write(DATABASE, STORED)
    (site.directory / "Data.fs").write_bytes(b"this is not a database" * 100)
    status, said = site.run("explain", "GET", "/")
    assert status == 1
    cause, _, rest = said.partition("Elements")
    for part in ("zodb: Damaged", "is damaged or is not a Data.fs", f"line {site.line('[filter:zodb]', site.ini)}"):
        assert part in cause
    assert "restore it from a backup" in rest


def test_a_view_that_no_scan_names(site: Site) -> None:
    other = site.directory / "other.py"
    other.write_text("from pipeline import view\n\n\n@view(name='lost')\ndef lost(context, request):\n    pass\n")
    status, said = site.run("check")
    assert status == 0
    assert f"no publisher has the view lost (lost) in {other}, line 5" in said


def test_the_address_of_an_object_without_a_place(site: Site) -> None:
    """A 500 of the view, and not a 400 that blames the visitor."""
    code = "@view(context=Folder, name='n')\ndef n(context, request):\n    redirect(request.absolute_url(Page()))\n"
    site.write(INI, CODE.replace("class Page:", "class Page:\n    __parent__ = __name__ = '_x'\n") + code)
    said = site.run("explain", "--long", "GET", "/n")[1]
    assert "-> 500" in said
    assert f"{site.code}, line {site.line('absolute_url')}" in said


def test_attempts(site: Site) -> None:
    site.write(DATABASE, STORED)
    said = site.run("explain", "--long", "GET", "/again")[1]
    assert "Attempts: 3" in said
    assert "repaired after 3 attempts" in said


def test_as_a_user(run: Callable[..., Any]) -> None:
    memory = "zodb_uri=memory://explain-as-a-user"
    status, said = run("explain", DEPLOY, "GET", "/@@add-folder", memory)
    assert "needs the permission 'edit'" in " ".join(said.split())
    status, said = run("explain", DEPLOY, "GET", "/@@add-folder", memory, "--user", "admin")
    assert status == 0, said


@pytest.mark.parametrize("command", ["check", "views", "shell"])
def test_code_that_ends_the_process_is_not_a_success(site: Site, command: str) -> None:
    """A script that is imported: its status would be that of the command."""
    site.write(INI, CODE + "\nimport sys\nsys.exit()\n")
    status, said = site.run(command)
    assert status == 1 and "this ends the process while the site is loaded" in said
    assert f"{site.code}, line {site.line('sys.exit()')}" in said


def test_the_line_of_an_unread_variable_is_its_own(site: Site) -> None:
    """Another one begins with its name."""
    site.write(f"[DEFAULT]\nserved_hosts = 1\nserved_host = 2\n{INI}\n[filter:other]\nget a = served_hosts\n", CODE)
    _, said = site.run("check")
    assert f"no ini reads the variable 'served_host' in {site.ini}, section [DEFAULT], line 3 " in said


@pytest.mark.parametrize("words", [("show",), ("views",), ("explain", "GET", "/"), ("shell",)])
def test_a_command_refuses_a_variable_that_no_ini_reads(site: Site, words: tuple[str, ...]) -> None:
    site.write(f"[DEFAULT]\nserved = 1\n{INI}\n[filter:other]\nget a = served\n", CODE)
    command, *arguments = words
    status, said = site.run(command, *arguments, "servd=2")
    assert status == 1 and "no ini reads the variable 'servd'; did you mean 'served'?" in said, said


def test_a_header_that_is_given_twice_is_a_list() -> None:
    """As a server hands it on; that of the command line takes the place of ours."""
    headers = ["cookie: a=1", "Accept: text/html", "Cookie: b=2", "accept: */*", "Host: example.com"]
    environ = request_of("GET", "/", headers, [])
    found = (environ["HTTP_COOKIE"], environ["HTTP_ACCEPT"], environ["HTTP_HOST"])
    assert found == ("a=1; b=2", "text/html, */*", "example.com")


def test_a_header_and_a_path_that_are_malformed(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert "'Accept' is not a header of the form" in site.run("explain", "GET", "/", "-H", "Accept")[1]
    with pytest.raises(SystemExit) as exit:
        site.run("explain", "GET", "docs")
    assert exit.value.code == 2
    assert "must start with /" in capsys.readouterr().err


def test_the_site_is_served_without_watchers(site: Site) -> None:
    """What watches is linked in at load when a command asks for it, and nowhere else."""
    from pipeline.loading.building import build
    from pipeline.paste import load

    sys.path.insert(0, str(site.directory))
    plain, built = load(f"config:{site.ini}"), build(str(site.ini), [])
    assert [contract.name for contract in plain.linked] == ["errors", "traverse", "publisher"]  # type: ignore[attr-defined]
    assert [contract.name for contract in built.app.linked] == ["errors", "traverse", "publisher"]
