"""Sites that know nothing of the pipeline: a test copies this file beside an ini. Each has a page and one view that
changes it."""

from __future__ import annotations

from typing import Any

import transaction
from beaker.session import SessionObject
from pyramid.config import Configurator
from pyramid.httpexceptions import HTTPSeeOther
from pyramid.response import Response
from pyramid_zodbconn import get_connection
from repoze.who.classifiers import default_challenge_decider, default_request_classifier
from repoze.who.interfaces import IAuthenticator
from repoze.who.middleware import PluggableAuthenticationMiddleware
from repoze.who.plugins.basicauth import BasicAuthPlugin
from sqlalchemy import Column, Integer, Text, create_engine, select
from sqlalchemy.orm import declarative_base, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool
from zope.interface import implementer
from zope.sqlalchemy import register


def zodb(global_conf: Any, **settings: str) -> Any:
    """A site with pyramid_zodbconn, whose code uses the transaction of the thread, as old sites do."""

    def root(request: Any) -> Any:
        return get_connection(request).root()

    def edit(request: Any) -> Response:
        request.context["text"] = request.params["text"]
        if request.params.get("then") == "doom":
            transaction.doom()
        transaction.get().note("edited")
        return HTTPSeeOther(location="/")

    with Configurator(settings=settings, root_factory=root) as config:
        for package in ("pyramid_retry", "pyramid_tm", "pyramid_zodbconn"):
            config.include(package)
        return with_views(config, lambda request: str(request.context.get("text", "first")), edit)


def named(config: Any) -> None:
    """A package that the ini of a site includes."""
    config.registry.settings["title"] = "A title"


Base: Any = declarative_base()


class Entry(Base):
    """A page in an SQL database."""

    __tablename__ = "entry"
    id = Column(Integer, primary_key=True)
    text = Column(Text)


def session_maker(url: str) -> Any:
    """Return what makes sessions of a database with one page."""
    engine = create_engine(url, poolclass=NullPool)  # no connection stays open
    Base.metadata.create_all(engine)
    maker = sessionmaker(bind=engine)
    with maker.begin() as session:
        if not session.scalars(select(Entry)).all():
            session.add(Entry(text="first"))
    return maker


def sql(global_conf: Any, **settings: str) -> Any:
    """A site with zope.sqlalchemy, as Pyramid's cookiecutter makes it: its code sets the manager."""
    maker = session_maker(settings["sqlalchemy.url"])
    settings["tm.manager_hook"] = "pyramid_tm.explicit_manager"

    def session(request: Any) -> Any:
        made = maker()
        register(made, transaction_manager=request.tm)
        return made

    with Configurator(settings=settings) as config:
        config.include("pyramid_tm")
        config.add_request_method(session, "session", reify=True)
        return with_views(config, lambda request: entry(request.session).text, edit_entry)


def thread(global_conf: Any, **settings: str) -> Any:
    """A site with zope.sqlalchemy whose session joins the transaction of the thread."""
    session = scoped_session(session_maker(settings["sqlalchemy.url"]))
    register(session)
    with Configurator(settings=settings) as config:
        config.include("pyramid_tm")
        config.add_request_method(lambda request: session, "session", property=True)
        return with_views(config, lambda request: entry(request.session).text, edit_entry)


def entry(session: Any) -> Any:
    return session.scalars(select(Entry)).one()


def edit_entry(request: Any) -> Response:
    entry(request.session).text = request.params["text"]
    return HTTPSeeOther(location="/")


def with_views(config: Any, text_of: Any, edit: Any) -> Any:
    """Return an application that shows a text, and changes it."""

    def show(request: Any) -> Response:
        return Response(f"{request.registry.settings.get('title', '')} {text_of(request)}")

    config.add_view(show)
    config.add_view(edit, name="edit", request_method="POST")
    return config.make_wsgi_app()


def counter(global_conf: Any, **settings: str) -> Any:
    """An old site of Paste: it counts in a session of Beaker, and takes the user of repoze.who."""

    def counter(environ: Any, start_response: Any) -> list[bytes]:
        session: SessionObject = environ["beaker.session"]
        if environ["REQUEST_METHOD"] == "POST":
            session["count"] = session.get("count", 0) + 1
            session.save()
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [f"{session.get('count', 0)} {environ.get('REMOTE_USER')}".encode()]

    return counter


@implementer(IAuthenticator)
class Users:
    """The users of repoze.who."""

    def authenticate(self, environ: Any, identity: Any) -> str | None:
        return str(identity["login"]) if identity.get("password") == "secret" else None


def who(global_conf: Any) -> Any:
    """repoze.who with a login by Basic, made by code as old sites do."""
    basic = BasicAuthPlugin("site")

    def around(app: Any) -> Any:
        plugins = [("basic", basic)]
        chosen = default_request_classifier, default_challenge_decider
        return PluggableAuthenticationMiddleware(app, plugins, [("users", Users())], plugins, [], *chosen)

    return around
