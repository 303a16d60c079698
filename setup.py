"""What wsgi-pipeline is made of and what it needs; the settings of tools stand in pyproject.toml."""

from pathlib import Path

from setuptools import find_packages, setup

# In the order in which they are usually written; each is a file of src/pipeline/elements.
ELEMENTS = [
    *("log", "vhost", "retry", "zodb", "sql", "errors", "transaction", "forms"),
    *("authenticate", "traverse", "site", "events", "base", "coalesce", "compress", "inspector"),
]
# The steps of Zope's publication, each a file of src/pipeline/ztk.
ZTK_ELEMENTS = ["request", "errors", "authenticate", "traverse"]

EXTRAS = {
    # `paster serve`. PasteScript imports pkg_resources, which setuptools 82 took out.
    "paster": ["PasteScript", "setuptools<82"],
    # The element `zodb` on a file or in memory; a database server is one extra more.
    "zodb": ["ZODB", "zodburi", "transaction"],
    "zeo": ["ZEO"],
    "relstorage": ["RelStorage"],
    "postgresql": ["RelStorage", "psycopg2-binary"],
    "mysql": ["RelStorage", "mysql-connector-python"],
    "sql": ["SQLAlchemy>=2", "zope.sqlalchemy", "transaction"],
    "forms": ["multipart>=1.3.1"],
    # The elements `site` and `events`: zope.component's local sites, zope.event's notifications.
    "component": ["zope.component", "zope.event"],
    # Passwords by argon2 and signed sessions.
    "auth": ["argon2-cffi", "itsdangerous"],
    # Failed logins counted together by several processes, in Redis or memcached.
    "limits": ["limits[redis,memcached]"],
    # Two more encodings for the element `compress`; gzip it has of itself.
    "brotli": ["brotli"],
    "zstd": ["zstandard"],
    # Servers for production, beside waitress: `pipeline serve --server`, `pipeline deploy`.
    "gunicorn": ["gunicorn"],
    "granian": ["granian"],
    # Zope Toolkit sites, unchanged: pipeline.ztk. Grok is not needed, and noticed where it is installed.
    "ztk": [
        *("ZODB", "zodburi", "transaction", "zope.app.appsetup", "zope.app.publication", "zope.app.wsgi"),
        *("zope.annotation", "zope.component", "zope.event", "zope.login", "zope.principalregistry"),
        *("zope.publisher", "zope.security", "zope.securitypolicy", "zope.traversing"),
    ],
    # The pages of the element `inspector`, for development.
    "inspector": ["Jinja2"],
    "docs": ["furo", "sphinx"],
    "fuzz": ["atheris"],
    "lint": ["mypy", "mypy-zope", "ruff", "types-WebOb", "types-docutils", "types-waitress"],
}
# The site that etc/deploy.ini serves.
EXTRAS["demo"] = [
    *EXTRAS["zodb"],
    *EXTRAS["forms"],
    *EXTRAS["auth"],
    "docutils",
    "Jinja2",
    "markdown-it-py",
    "nh3",
    "tqdm",
]
# The tests. Those that talk to database servers need one extra more.
EXTRAS["databases"] = [*EXTRAS["zeo"], *EXTRAS["postgresql"], *EXTRAS["mysql"], *EXTRAS["sql"]]
# What tests/servers start beside the servers of the operating system; uWSGI is compiled when it is installed.
EXTRAS["servers"] = [*EXTRAS["gunicorn"], *EXTRAS["granian"], "flup", "uwsgi"]
EXTRAS["test"] = [
    *EXTRAS["demo"],
    *EXTRAS["sql"],
    *EXTRAS["component"],
    *EXTRAS["inspector"],
    *EXTRAS["limits"],
    *EXTRAS["brotli"],
    *EXTRAS["zstd"],
    *EXTRAS["paster"],
    *EXTRAS["gunicorn"],
    *EXTRAS["granian"],
    # axe-core, which judges pages: tests/tools/test_inspector_in_a_browser.py
    "axe-core-python",
    "html5lib",
    "hypothesis",
    "pytest>=8",
    "pytest-timeout",
    "pytest-xdist",
    "selenium",
    "WebTest",
]
# Sites of the Zope Toolkit and the tests of Grok, in an environment of their own: `make test-ztk`.
EXTRAS["ztk-test"] = [
    *EXTRAS["ztk"],
    *("grok[test]", "grokcore.json", "grokcore.rest", "grokcore.xmlrpc", "packaging", "zope.app.http"),
    *("zope.applicationcontrol", "zope.browsermenu", "zope.testbrowser", "zope.testrunner"),
    *("pytest>=8", "pytest-timeout", "ZEO"),
]

setup(
    name="wsgi-pipeline",
    version="0.1.0.dev0",
    description="Web publishing as an ordered pipeline of elements, declared in a Paste Deploy ini",
    long_description=Path(__file__).with_name("README.rst").read_text("utf-8"),
    long_description_content_type="text/x-rst",
    author="wsgi-pipeline contributors",
    license="MIT",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    package_dir={"": "src"},
    packages=find_packages("src"),
    package_data={
        "pipeline": ["py.typed"],
        # docs/ is a link to the project's own: the site imports it when it is made.
        "pipeline.tools.inspector": ["templates/*"],
        "pipeline.demo": ["*.md", "docs/**/*.rst", "docs/**/*.svg", "docs/**/*.png", "static/*", "templates/*"],
    },
    zip_safe=False,
    install_requires=[
        "PasteDeploy",
        # `pipeline serve` starts again when a file changes; a small package without needs of its own.
        "hupper",
        "waitress",
        "WebOb",
        "zope.interface",
        # WebOb imports `cgi`, which Python 3.13 took out.
        'legacy-cgi; python_version >= "3.13"',
    ],
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": ["pipeline = pipeline.tools.command:main"],
        "paste.filter_factory": [
            *(f"{name} = pipeline.elements.{name}:{name}" for name in ELEMENTS),
            *(f"ztk_{name} = pipeline.ztk.{name}:ztk_{name}" for name in ZTK_ELEMENTS),
        ],
        "paste.app_factory": [
            "health = pipeline.health:health",
            "publisher = pipeline.publisher:publisher",
            "ztk = pipeline.ztk.application:ztk",
            "ztk_publisher = pipeline.ztk.publisher:ztk_publisher",
        ],
        "paste.composite_factory": ["switch = pipeline.switch:switch"],
        "paste.server_factory": ["granian = pipeline.tools.servers.on_granian:granian"],
        "zodburi.resolvers": ["mariadb = pipeline.database.mariadb:resolver"],
    },
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Environment :: Web Environment",
        "Framework :: Paste",
        "Intended Audience :: Developers",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Internet :: WWW/HTTP :: WSGI",
        "Typing :: Typed",
    ],
)
