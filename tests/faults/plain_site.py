"""The ledger as a plain application of Flask and SQLAlchemy writes it: ``plain_site.py URL PORT``."""

from __future__ import annotations

import sys

from flask import Flask, request
from sqlalchemy import create_engine, text
from waitress import serve


def make_app(url: str) -> Flask:
    app = Flask(__name__)
    engine = create_engine(url, pool_pre_ping=True)

    @app.get("/@@nothing")
    def nothing() -> str:
        return "nothing"

    @app.post("/@@write")
    def write() -> str:
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO ledger VALUES (:id)"), {"id": request.args["id"]})
        return "written"

    return app


if __name__ == "__main__":
    serve(make_app(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), threads=8)
