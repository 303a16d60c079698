"""Django's admin in the transaction of the pipeline.

Django keeps its own connection to its database. ``DjangoTransaction`` makes that connection take part in the
transaction of the request. It commits last, when all other databases have voted. A database of Django cannot be
prepared and committed in two steps, so a pipeline should have one such database only.
"""

from collections.abc import Callable
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.db import DatabaseError, OperationalError, transaction
from django.http import HttpRequest
from transaction.interfaces import IDataManager
from zope.interface import implementer

from pipeline.mounting import repeatable, request_of


@implementer(IDataManager)
class DjangoTransaction:
    """The transaction of Django's connection, as a part of the transaction of the request."""

    def __init__(self, manager: Any) -> None:
        self.transaction_manager = manager
        self.atomic = transaction.Atomic(using=None, savepoint=False, durable=False)
        self.atomic.__enter__()
        self.is_open = True

    def end(self, error: Exception | None = None) -> None:
        """Commit, or roll back if there is an error."""
        if self.is_open:
            self.is_open = False
            self.atomic.__exit__(error and type(error), error, None)

    def abort(self, _: Any) -> None:
        self.end(DatabaseError("aborted"))

    def tpc_begin(self, _: Any) -> None:
        """Nothing is to be prepared."""

    def commit(self, _: Any) -> None:
        """Wait for the votes of the others."""

    def tpc_vote(self, _: Any) -> None:
        self.end()

    def tpc_finish(self, _: Any) -> None:
        """The vote has committed."""

    tpc_abort = abort

    def sortKey(self) -> str:
        return "~django"  # behind all that can still refuse

    def should_retry(self, error: Exception) -> bool:
        return isinstance(error, OperationalError)  # the database is locked by another request


def joined(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Make Django's database take part in the transaction of the request: the outermost middleware of Django."""

    def joined(request: HttpRequest) -> Any:
        manager = request_of(request.META).tm
        manager.get().join(DjangoTransaction(manager))
        return get_response(request)

    return joined


def make_app(global_conf: dict[str, str], database: str) -> Any:
    """Make the application: ``use = egg:mount#django``.

    database  path of the SQLite database, which is made if it is missing
    """
    admin = "django.contrib.admin.apps.SimpleAdminConfig"
    others = ("auth", "contenttypes", "sessions", "messages", "staticfiles")
    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"],  # `vhost` checks the host
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": database}},
            DEBUG_PROPAGATE_EXCEPTIONS=True,  # `retry` and `errors` of the pipeline answer them
            DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
            INSTALLED_APPS=["mount", admin, *(f"django.contrib.{name}" for name in others)],
            MIDDLEWARE=[
                "mount.with_django.joined",
                "django.contrib.sessions.middleware.SessionMiddleware",
                "django.middleware.csrf.CsrfViewMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware",
            ],
            ROOT_URLCONF="mount.urls",
            SECRET_KEY="only for this example",
            STATIC_URL="static/",
            TEMPLATES=[
                {
                    "BACKEND": "django.template.backends.django.DjangoTemplates",
                    "APP_DIRS": True,
                    "OPTIONS": {
                        "context_processors": [
                            "django.template.context_processors.request",
                            "django.contrib.auth.context_processors.auth",
                            "django.contrib.messages.context_processors.messages",
                        ]
                    },
                }
            ],
            USE_TZ=True,
        )
        django.setup()
        call_command("migrate", run_syncdb=True, verbosity=0)
    return repeatable(get_wsgi_application())  # DjangoTransaction takes back what Django has written
