"""A Flask application in the transaction of the pipeline."""

from typing import Any

from flask import Flask, abort, jsonify, request, url_for

from mount.journal import journal
from pipeline.mounting import repeatable

flask = Flask(__name__)
# Errors that no handler answers are for the pipeline: `retry` repairs conflicts, `errors` answers the rest.
flask.config["PROPAGATE_EXCEPTIONS"] = True


@flask.get("/")
def home() -> Any:
    return jsonify(here=url_for("home", _external=True), lines=len(journal(request.environ)))


@flask.post("/write")
def write() -> Any:
    """Write a line."""
    journal(request.environ).append("flask wrote")
    if request.form.get("then") == "conflict":
        abort(409)
    if request.form.get("then") == "fail":
        raise ZeroDivisionError
    return jsonify(written=True)


def make_app(global_conf: dict[str, str]) -> Any:
    """Make the application: ``use = egg:mount#flask``."""
    return repeatable(flask.wsgi_app)  # it writes in the transaction of the pipeline alone
