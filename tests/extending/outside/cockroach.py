"""An SQL database that wsgi-pipeline does not know."""

from pipeline.database.sql_dialects import Dialect, Errors
from pipeline.database.sql_drivers import PSYCOPG

DIALECT = Dialect({"psycopg2": PSYCOPG}, errors=Errors(transient=frozenset({"40001"})))
