"""What wsgi-pipeline is made of and what it needs; the settings of tools stand in pyproject.toml."""

import re
import tomllib
from pathlib import Path

from setuptools import find_packages, setup

# In the order in which they are usually written; each is a file of src/pipeline/elements.
ELEMENTS = [
    *("log", "timing", "vhost", "shield", "retry", "causal", "zodb", "sql", "errors", "transaction", "session"),
    *("forms", "authenticate", "keep", "traverse", "site", "events", "sendfile", "base", "coalesce", "compress"),
    *("inspector", "cors", "request_id"),
]
# The steps of Zope's publication, each a file of src/pipeline/ztk.
ZTK_ELEMENTS = ["request", "errors", "authenticate", "traverse"]
# Those of ZPublisher, each a file of src/pipeline/zope.
ZOPE_ELEMENTS = ["path", "request", "errors", "traverse", "items"]
TOOLS = ["serve", "deploy", "check", "show", "views", "explain", "top", "adopt", "new", "shell", "element"]
TOOLS += ["openapi", "evolve", "work"]
# The commands of `pipeline`: the module of each, which says in its first line what the command does.
COMMANDS = {name: f"pipeline.tools.{name}" for name in TOOLS} | {"copy-database": "pipeline.tools.copy_database"}
# The targets of `pipeline deploy`, each a package of src/pipeline/deploying.
TARGETS = ["apache", "container", "granian", "gunicorn", "kubernetes", "lighttpd", "mod_python"]
TARGETS += ["mod_wsgi-express", "nginx", "systemd", "uwsgi"]
COMMANDS |= {"prove": "pipeline.proving.command", "rehearse": "pipeline.rehearsing.command"}

EXTRAS = {
    # `paster serve`. PasteScript imports pkg_resources, which setuptools 82 took out. Before 77 it does not find
    # installed packages with a dot in their name, and fails in the directory of a package of one's own.
    "paster": ["PasteScript>=3.3", "setuptools>=77.0.1,<82"],
    # The element `zodb` on a file or in memory; a database server is one extra more.
    "zodb": ["ZODB>=5.8.1", "zodburi>=3.0", "transaction>=4.0"],
    "zeo": ["ZEO>=5.4"],
    "relstorage": ["RelStorage>=4.0"],
    "postgresql": ["RelStorage>=4.0", "psycopg2-binary>=2.9.6"],
    "mysql": ["RelStorage>=4.0", "mysql-connector-python>=8.1"],
    "sql": ["SQLAlchemy>=2.0.22", "zope.sqlalchemy>=3.1", "transaction>=4.0"],
    "forms": ["multipart>=1.3.1", "webencodings>=0.6"],
    # The elements `site` and `events`: zope.component's local sites, zope.event's notifications.
    "component": ["zope.component>=6.0", "zope.event>=5.0"],
    # Passwords by argon2, signed sessions of logins, and the element `session`.
    "auth": ["argon2-cffi>=23.1", "itsdangerous>=2.1"],
    # Failed logins counted together by several processes, in Redis or memcached.
    "limits": ["limits[redis,memcached]>=4.2"],
    # Pages by templates: `return render("page.html")`.
    "jinja": ["Jinja2>=3.1.6"],
    # Models of a library: `scan = pipeline.publishing.pydantic`, `scan = pipeline.publishing.msgspec`.
    "pydantic": ["pydantic>=2.7"],
    "msgspec": ["msgspec>=0.18.6"],
    # Two more encodings for the element `compress`; gzip it has of itself. Python 3.14 brings zstd.
    "brotli": ["brotli>=1.1"],
    "zstd": ['backports.zstd>=1.0; python_version < "3.14"'],
    # Two options of the element `timing`: metrics and spans. Spans need opentelemetry-sdk and an exporter as well.
    "prometheus": ["prometheus-client>=0.18"],
    "opentelemetry": ["opentelemetry-api>=1.30"],
    # Servers for production, beside waitress: `pipeline serve --server`, `pipeline deploy`.
    "gunicorn": ["gunicorn>=25.1", "Jinja2>=3.1.6"],
    "granian": ["granian>=2.0", "Jinja2>=3.1.6"],
    # Zope Toolkit sites, unchanged: pipeline.ztk. Grok is not needed, and noticed where it is installed.
    "ztk": [
        *("ZODB", "zodburi", "transaction", "zope.app.appsetup", "zope.app.publication", "zope.app.wsgi"),
        *("zope.annotation", "zope.component", "zope.event", "zope.login", "zope.principalregistry"),
        *("zope.publisher", "zope.security", "zope.securitypolicy", "zope.traversing"),
    ],
    # Zope sites, unchanged: pipeline.zope.
    "zope": ["Zope>=6.3", "ZODB", "zodburi", "transaction"],
    # `make release`: the changes.
    "release": ["towncrier>=23.11"],
    # Completion of the command in bash and zsh.
    "completion": ["argcomplete>=3.0"],
    # The pages of the element `inspector`, for development.
    "inspector": ["Jinja2>=3.1.6"],
    "fuzz": ["atheris"],
    "lint": [
        *("mypy", "mypy-zope", "pyright[nodejs]", "ruff"),
        *("types-Pygments", "types-WebOb", "types-docutils", "types-waitress"),
    ],
}
# The test kit, pipeline.testing, for tests of sites and elements. Its `prove` copies object databases.
EXTRAS["testing"] = ["WebTest>=3.0.4", *EXTRAS["zodb"]]
# What a new site needs: `pipeline new`.
EXTRAS["site"] = [*EXTRAS["zodb"], *EXTRAS["forms"], *EXTRAS["auth"], *EXTRAS["jinja"]]
# The pages of docs/. The reference imports every element, to write down what it says of itself.
EXTRAS["docs"] = [
    *EXTRAS["site"],
    *EXTRAS["testing"],
    *EXTRAS["sql"],
    *EXTRAS["component"],
    *EXTRAS["limits"],
    *EXTRAS["prometheus"],
    *EXTRAS["ztk"],
    *EXTRAS["zope"],
    "furo",
    "repoze.sphinx.autointerface",
    "sphinx>=8",
    "sphinx-copybutton",
]
# The tests; they need examples/demo as well. Those that talk to database servers need one extra more.
EXTRAS["databases"] = [*EXTRAS["zeo"], *EXTRAS["postgresql"], *EXTRAS["mysql"], *EXTRAS["sql"]]
# The other drivers that `sql` knows.
EXTRAS["databases"] += ["psycopg[binary]>=3.1.12", "pg8000>=1.31.5", "PyMySQL>=1.1.1"]
# What tests/servers start beside the servers of the operating system; uWSGI is compiled when it is installed.
# gixy-ng looks for mistakes in the configuration of nginx; kubernetes-validate has the schema of manifests.
EXTRAS["servers"] = [*EXTRAS["gunicorn"], *EXTRAS["granian"], "uwsgi", "gixy-ng", "kubernetes-validate"]
EXTRAS["servers"] += ["dramatiq", "procrastinate[sqlalchemy]"]  # their queues, as docs/howto/jobs.rst has them
EXTRAS["test"] = [
    *EXTRAS["site"],
    *EXTRAS["sql"],
    *EXTRAS["completion"],
    *EXTRAS["component"],
    *EXTRAS["inspector"],
    *EXTRAS["limits"],
    *EXTRAS["brotli"],
    *EXTRAS["zstd"],
    *EXTRAS["paster"],
    *EXTRAS["gunicorn"],
    *EXTRAS["granian"],
    *EXTRAS["prometheus"],
    *EXTRAS["opentelemetry"],
    *(f'{name}; python_version < "3.15"' for name in (*EXTRAS["pydantic"], *EXTRAS["msgspec"])),
    'openapi-spec-validator>=0.7; python_version < "3.15"',
    # Logins by another site and by passkeys, as docs/howto has them.
    *(f'{name}; python_version < "3.15"' for name in ("Authlib>=1.6.5", "joserfc>=1.6", "requests>=2.32")),
    'webauthn>=2.7; python_version < "3.15"',
    "alembic",
    # Applications of Pyramid with its packages for transactions; needs setuptools<82, as PasteScript does.
    *("pyramid", "pyramid_retry", "pyramid_tm", "pyramid_zodbconn"),
    # Middleware of sites of Paste.
    *("Beaker", "Paste", "repoze.who"),
    "Chameleon",
    "html5lib",
    "hypothesis",
    "opentelemetry-sdk",
    "pytest>=8",
    "pytest-timeout",
    "pytest-xdist",
    "selenium",
    "zstandard",  # the fuzz targets unpack by it on every Python
    *EXTRAS["testing"],
]
# Sites of the Zope Toolkit and the tests of Grok, in an environment of their own: `make test-ztk`.
EXTRAS["ztk-test"] = [
    *EXTRAS["ztk"],
    *("grok[test]", "grokcore.json", "grokcore.rest", "grokcore.xmlrpc", "packaging", "zope.app.http"),
    *("zope.applicationcontrol", "zope.browsermenu", "zope.testbrowser", "zope.testrunner"),
    *("pytest>=8", "pytest-timeout", "pytest-xdist", "selenium", "ZEO", *EXTRAS["testing"]),
    "hypothesis",
]

# The tests of Zope sites, in an environment of their own: `make test-zope`.
EXTRAS["zope-test"] = [
    *EXTRAS["zope"],
    *EXTRAS["testing"],
    *EXTRAS["inspector"],
    *("zope.testrunner", "pytest>=8", "pytest-timeout", "pytest-xdist"),
]

TOP = Path(__file__).parent
NAMES = (TOP / "src/pipeline/__init__.py").read_text("utf-8")
VERSION = re.findall(r'^__version__ = "(.+)"$', NAMES, re.MULTILINE)[0]

ADDRESSES = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["tool"]["wsgi-pipeline"]
REPOSITORY, DOCUMENTATION = ADDRESSES["repository"], ADDRESSES["documentation"]
URLS = {"Documentation": DOCUMENTATION} if DOCUMENTATION else {}
if REPOSITORY:
    URLS |= {
        "Repository": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGES.rst",
        "Security": f"{REPOSITORY}/security/policy",
    }


def readme():
    """Return README for the package index, where its picture and its links need whole addresses."""
    text = (TOP / "README.rst").read_text("utf-8")
    tag = "main" if "dev" in VERSION else VERSION
    if REPOSITORY:
        text = text.replace(".. image:: docs/", f".. image:: {REPOSITORY}/raw/{tag}/docs/")
    else:  # no picture is better than a broken one
        text = re.sub(r"\.\. image:: docs/.*\n(   .*\n)+\n", "", text)
    if DOCUMENTATION:
        text = re.sub(r"``docs/([\w/-]+)\.rst``", rf"`docs/\1.rst <{DOCUMENTATION}/\1.html>`__", text)
    return text


setup(
    name="wsgi-pipeline",
    version=VERSION,
    description="Web publishing as an ordered pipeline of elements, declared in a Paste Deploy ini",
    long_description=readme(),
    long_description_content_type="text/x-rst",
    author="wsgi-pipeline contributors",
    url=REPOSITORY or None,
    project_urls=URLS,
    keywords="wsgi web publisher traversal pipeline middleware paste zodb transaction framework",
    license="MIT",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    package_dir={"": "src"},
    packages=find_packages("src"),
    package_data={
        "pipeline": ["py.typed"],
        # What the commands take, and what `pipeline new` writes.
        "pipeline.tools": ["*.toml", "site*/**/*.txt", "site-*/variant.toml"],
        "pipeline.telling": ["*.toml", "templates/*"],
        # What `pipeline prove` asks database servers.
        "pipeline.staging": ["*.toml"],
        "pipeline.proving": ["*.toml"],
        "pipeline.adopting": ["*.toml"],
        "pipeline.checking": ["*.toml"],
        "pipeline.explaining": ["*.toml"],
        "pipeline.loading": ["logging.ini"],
        "pipeline.testing": ["*.toml"],
        "pipeline.publishing": ["openapi.json", "templates/editing/*.html"],
        "pipeline.auth": ["*.html"],
        "pipeline.http": ["*.html", "mime.types"],
        # What `pipeline deploy` writes.
        **{f"pipeline.deploying.{name.replace('-', '_')}": ["*.j2"] for name in [*TARGETS, "shared"]},
    },
    zip_safe=False,
    install_requires=[
        "PasteDeploy>=3.0.1",
        # `pipeline serve` starts again when a file changes; a small package without needs of its own.
        "hupper>=1.12",
        "waitress>=3.0.2",
        "WebOb>=1.8.8",
        "zope.interface>=6.0",
        # WebOb imports `cgi`, which Python 3.13 took out.
        'legacy-cgi>=2.6; python_version >= "3.13"',
    ],
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": ["pipeline = pipeline.tools.command:main"],
        "paste.filter_factory": [
            *(f"{name} = pipeline.elements.{name}:{name}" for name in ELEMENTS),
            *(f"ztk_{name} = pipeline.ztk.{name}:ztk_{name}" for name in ZTK_ELEMENTS),
            *(f"zope_{name} = pipeline.zope.{name}:zope_{name}" for name in ZOPE_ELEMENTS),
        ],
        "paste.app_factory": [
            "health = pipeline.health:health",
            "metrics = pipeline.measuring.metrics:metrics",
            "openapi = pipeline.publishing.openapi:openapi",
            "publisher = pipeline.publisher:publisher",
            "zope = pipeline.zope.application:zope",
            "zope_publisher = pipeline.zope.publisher:zope_publisher",
            "ztk = pipeline.ztk.application:ztk",
            "ztk_publisher = pipeline.ztk.publisher:ztk_publisher",
        ],
        "paste.composite_factory": ["switch = pipeline.switch:switch"],
        "paste.server_factory": ["granian = pipeline.serving.on_granian:granian"],
        "wsgi_pipeline.commands": [f"{name} = {module}:main" for name, module in COMMANDS.items()],
        "wsgi_pipeline.deploy_targets": [
            f"{name} = pipeline.deploying.{name.replace('-', '_')}" for name in TARGETS
        ],
        "zodburi.resolvers": ["mariadb = pipeline.database.mariadb:resolver"],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Web Environment",
        "Framework :: Paste",
        "Framework :: ZODB",
        "Intended Audience :: Developers",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Programming Language :: Python :: 3.15",
        "Programming Language :: Python :: Implementation :: CPython",
        "Topic :: Internet :: WWW/HTTP :: Dynamic Content",
        "Topic :: Internet :: WWW/HTTP :: WSGI",
        "Topic :: Internet :: WWW/HTTP :: WSGI :: Application",
        "Topic :: Internet :: WWW/HTTP :: WSGI :: Middleware",
        "Topic :: Software Development :: Libraries :: Application Frameworks",
        "Typing :: Typed",
    ],
)
