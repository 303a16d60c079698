"""The principals and the security policy of a Toolkit site, for new views that stand beside the old ones.

``scan = pipeline.ztk.users`` of the publisher registers the principals, for the element ``authenticate`` with
``placeful = true``; its option ``policy`` names ``SitePolicy``.
"""

from __future__ import annotations

from typing import Any

import zope.component
import zope.security
from webob.exc import HTTPException, HTTPFound, WSGIHTTPException
from zope.app.publication.httpfactory import HTTPPublicationRequestFactory
from zope.authentication.interfaces import (
    IAuthentication,
    IFallbackUnauthenticatedPrincipal,
    IUnauthenticatedPrincipal,
)
from zope.component.interfaces import ISite
from zope.interface import implementer
from zope.security.management import endInteraction, newInteraction, queryInteraction

from pipeline import interfaces
from pipeline.auth.policy import UNDECLARED
from pipeline.toolkit.site import loaded
from pipeline.views import adapter, utility
from pipeline.ztk.request import make_zope_request


def no_passwords(request: Any, login: str, password: str) -> None:
    """Return None: the site knows its users itself. For the option ``check`` of ``authenticate``."""


@implementer(interfaces.ISecurityPolicy)
class SitePolicy:
    """The security policy of the site: the permission of a new view is one that its ZCML declares."""

    def permits(self, request: Any, permission: str, context: Any) -> bool:
        if permission == UNDECLARED:
            return request.principal is not None
        return bool(zope.security.checkPermission(permission, context))


@implementer(interfaces.IAuthentication)
class _Users:
    """The principals of one authentication utility."""

    def __init__(self, auth: Any) -> None:
        self.auth = auth

    def identify(self, request: Any) -> str | None:
        """Return the id of the principal, and give the interaction the principal, unless it has one."""
        zope_request = queryInteraction().participations[0]
        if self.auth is None or not IUnauthenticatedPrincipal.providedBy(zope_request.principal):
            return None
        principal = self.auth.authenticate(zope_request)
        known = principal is not None
        if not known:
            principal = self.auth.unauthenticatedPrincipal()
        if principal is not None:
            zope_request.setPrincipal(principal)
        return principal.id if known else None

    def challenge(self, request: Any, error: WSGIHTTPException) -> HTTPException:
        """Return the redirect to the login form of the site, or the error with the header that asks for a login."""
        if self.auth is None:
            return error
        zope_request = queryInteraction().participations[0]
        self.auth.unauthorized(zope_request.principal.id, zope_request)
        answer = zope_request.response
        if 300 <= answer.getStatus() < 400:
            return HTTPFound(location=answer.getHeader("Location"))
        asks = answer.getHeader("WWW-Authenticate") or answer.getHeader("WWW-Authenticate", literal=True)
        if asks:
            error.headers["WWW-Authenticate"] = asks
        return error


@utility(interfaces.IAuthentication)
@implementer(interfaces.IAuthentication)
class SiteUsers:
    """The principals of the whole site. Each request begins an interaction with the principal of the visitor."""

    factory: Any = None

    def identify(self, request: Any) -> str | None:
        """Begin the interaction, and return the id of the principal."""
        if self.factory is None:
            self.factory = HTTPPublicationRequestFactory(loaded())
        zope_request = make_zope_request(self.factory, request.environ)
        zope_request.setPrincipal(zope.component.getUtility(IFallbackUnauthenticatedPrincipal))
        endInteraction()  # that of the attempt before
        newInteraction(zope_request)
        request.on_close(endInteraction)
        return users_of(zope.component.getGlobalSiteManager()).identify(request)

    def challenge(self, request: Any, error: WSGIHTTPException) -> HTTPException:
        """Return what the authentication utility of the whole site makes of it."""
        return users_of(zope.component.getGlobalSiteManager()).challenge(request, error)


def users_of(registry: Any) -> _Users:
    """Return the principals that the authentication utility of a registry knows."""
    return _Users(registry.queryUtility(IAuthentication))


@adapter(ISite, interfaces.IAuthentication)
def users_of_place(place: Any) -> _Users:
    """Return the principals of a local site."""
    return users_of(place.getSiteManager())
