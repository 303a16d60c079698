"""Principals: each authentication utility is asked once for the same credentials."""

from __future__ import annotations

from typing import Any

import zope.component
from zope.authentication.interfaces import (
    IAuthentication,
    IFallbackUnauthenticatedPrincipal,
    ILoginPassword,
    IUnauthenticatedPrincipal,
)
from zope.component import getGlobalSiteManager, getSiteManager
from zope.component.interfaces import ISite
from zope.interface import providedBy
from zope.login.http import BasicAuthAdapter
from zope.principalregistry.principalregistry import PrincipalRegistry
from zope.publisher.interfaces import StartRequestEvent
from zope.publisher.interfaces.logginginfo import ILoggingInfo
from zope.security.management import getSecurityPolicy, newInteraction, queryInteraction, thread_local
from zope.security.proxy import removeSecurityProxy
from zope.securitypolicy.zopepolicy import ZopeSecurityPolicy

from pipeline.toolkit.events import tell
from pipeline.ztk.policy import QuickPolicy


def begin(request: Any, zope_request: Any) -> None:
    """Do what ``ZopePublication.beforeTraversal`` does: the start event, the global utility, the interaction."""
    tell(StartRequestEvent, zope_request)
    auth = getGlobalSiteManager().getUtility(IAuthentication)
    by_password = asks_by_password(auth, zope_request)
    principal = None
    if not by_password or zope_request._auth is not None:
        principal = auth.authenticate(zope_request)
    if principal is None:
        principal = auth.unauthenticatedPrincipal()
        if principal is None:
            principal = zope.component.getUtility(IFallbackUnauthenticatedPrincipal)
        request.asked = auth if by_password else None
    set_principal(request, zope_request, principal)
    if getSecurityPolicy() is ZopeSecurityPolicy and queryInteraction() is None:
        thread_local.interaction = QuickPolicy(zope_request)
    else:
        newInteraction(zope_request)
    tm = request.tm
    if tm._txn is not None:  # else nothing has joined, and what is read now is what is read then
        tm.begin()


def at_place(request: Any, zope_request: Any, ob: Any) -> None:
    """Do what ``ZopePublication._maybePlacefullyAuthenticate`` does, unless the same utility was asked already."""
    if not ISite.providedBy(ob) or not IUnauthenticatedPrincipal.providedBy(zope_request._principal):
        return
    auth = removeSecurityProxy(ob).getSiteManager().queryUtility(IAuthentication)
    if auth is None or (auth is request.asked and asks_by_password(auth, zope_request)):
        return
    principal = auth.authenticate(zope_request)
    if principal is None:
        principal = auth.unauthenticatedPrincipal()
        if principal is None:
            return
    set_principal(request, zope_request, principal)


def asks_by_password(auth: Any, zope_request: Any) -> bool:
    """Return whether a utility looks at nothing but the name and password that the request has from its header."""
    if type(auth) is not PrincipalRegistry:
        return False
    found = getSiteManager().adapters.lookup1(providedBy(zope_request), ILoginPassword)
    return found is BasicAuthAdapter


def set_principal(request: Any, zope_request: Any, principal: Any) -> None:
    """Do what ``HTTPRequest.setPrincipal`` does, and keep what it finds for the log."""
    zope_request._principal = principal
    info = ILoggingInfo(principal, None)
    message = "-" if info is None else info.getLogMessage()
    zope_request._response.authUser = message
    request.logged = (principal, message)
