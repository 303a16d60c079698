"""Tell what a SQL statement may do, from its text alone.

A statement is a plain read only if nothing in it can change anything: it is one query, and calls only functions
that are listed here. Everything else counts as a change. A mistake in that direction costs
a word in an answer; a mistake in the other one would have a change stored twice.
"""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 10_000
"""Upper limit of the characters of a statement that is read here. A longer statement counts as a change."""

_APART = re.compile(
    r"(?P<quoted>'[^']*'|\"[^\"]*\"|`[^`]*`)|--(?=\s)[^\n]*|/\*(?!M?!)(?:(?!/\*|\*/).)*\*/", re.DOTALL
)
"""Strings, quoted names and comments: the first that begins is one, whatever stands inside it. A doubled quote
inside a string reads as two strings side by side. MariaDB runs what stands in a comment with an exclamation mark,
and needs a blank behind two hyphens."""
_UNCLEAR = re.compile(r"--|/\*|[#$;'\"`]|:=")
"""Other comments, dollar quotes, a second statement, a quote without its partner, MariaDB's variables."""
_QUERY = re.compile(r"[(\s]*(?:select|with|values)\b", re.IGNORECASE)
_WORD = re.compile(r"([^\W\d]\w*)\s*(\()?")
_CHANGES = {
    *("into", "insert", "update", "delete", "merge", "replace", "call", "execute", "lock", "share"),
    *("procedure", "next", "nextval"),
}
"""Words that only a query that writes or locks has, such as FOR UPDATE, unless they name a function."""
_HARMLESS = """
    all and any array as between by case distinct else except exists filter from group having in inner intersect
    is join lateral left like limit materialized not offset on or order over partition recursive right select some
    then union using values when where window with within

    char character decimal double float int integer numeric real text time timestamp varchar

    abs array_agg avg bool_and bool_or cast ceil ceiling char_length coalesce concat concat_ws convert count
    current_date current_time current_timestamp date date_trunc datetime day dense_rank every extract first_value
    floor greatest group_concat hour ifnull iif instr json_agg json_array json_extract json_group_array
    json_group_object json_object jsonb_agg julianday lag last_value lead least length lower ltrim max md5 min
    minute mod month now ntile nullif octet_length percent_rank position power rank replace round row row_number
    rtrim second sign sqrt strftime string_agg strpos substr substring sum to_char to_date to_timestamp total trim
    unnest upper year
"""
_BEFORE_PARENTHESIS = frozenset(_HARMLESS.split())
"""Words of the grammar, types, and functions that only compute."""


def bare_of(statement: str) -> str:
    """Return a statement without comments, with the word "quoted" for each string and each quoted name."""
    return _APART.sub(lambda found: " quoted " if found["quoted"] else " ", statement.strip().removesuffix(";"))


@lru_cache(1024)
def is_plain_read(statement: str) -> bool:
    """Return whether the statement is known to change nothing."""
    if len(statement) > LONGEST or "\\" in statement:
        return False
    bare = bare_of(statement)
    if _UNCLEAR.search(bare) or not _QUERY.match(bare):
        return False
    for found in _WORD.finditer(bare):
        word, called = found[1].lower(), found[2]
        if called and word not in _BEFORE_PARENTHESIS:
            return False
        if not called and word in _CHANGES:
            return False
    return True


_LEAVES_BY_CALLS = re.compile(
    r"[(\s]*(?:select|with|values|insert|update|delete|merge|replace|show|explain|describe|savepoint|release"
    r"|rollback\s+to|set\s+(?:local|transaction|constraints))\b",
    re.IGNORECASE,
)
_INTO = re.compile(r"\b(insert|replace|merge)\s+into\s+(?:\w+\s*\.\s*)?\w+", re.IGNORECASE)
_KEPT = re.compile(r"\binto\b", re.IGNORECASE)
_WRITES = frozenset(("insert", "update", "delete", "merge", "replace"))
TRIGGERS = "all triggers"
"""Stands among the functions that a statement calls for those that call themselves when it writes."""


@lru_cache(1024)
def called_by(statement: str) -> frozenset[str] | None:
    """Return the functions, in lower case, by which a statement may leave something in its session, such as a
    setting or a lock. None if it may do so in another way, as SET and CREATE TEMPORARY TABLE do."""
    if len(statement) > LONGEST or "\\" in statement:
        return None
    bare = _INTO.sub(r"\1 ,", bare_of(statement))  # a parenthesis behind it has columns
    if _UNCLEAR.search(bare) or _KEPT.search(bare) or not _LEAVES_BY_CALLS.match(bare):
        return None
    words = [(found[1].lower(), found[2]) for found in _WORD.finditer(bare)]
    called = {word for word, parenthesis in words if parenthesis} - _BEFORE_PARENTHESIS
    if not _WRITES.isdisjoint(word for word, _ in words):
        called.add(TRIGGERS)
    return None if "quoted" in called else frozenset(called)


_ORDINARY = re.compile(
    r"\s*(?:select|with|values|insert|update|delete|merge|replace|set|show|explain|describe|use"
    r"|savepoint|release|rollback\s+to)\b",
    re.IGNORECASE,
)
_SAVEPOINT = re.compile(r"\s*(savepoint|release|rollback)(?:\s+to)?(?:\s+savepoint)?\s+(\w+)", re.IGNORECASE)
_ENDS = re.compile(
    r"\b(?:commit|rollback|end|abort|begin|start|prepare|prepared|chain|call|execute)\b", re.IGNORECASE
)
_SET = re.compile(r"\s*set\b", re.IGNORECASE)
_AUTOCOMMIT = re.compile(r"\bautocommit\s*:?=(?!\s*(?:0|off\b|false\b))", re.IGNORECASE)
_TAKES_BACK = re.compile(r"(?:^|;)\s*(?:--.*\n\s*)*(?:rollback(?!\s+(?:\w+\s+)?to\b)|abort)\b", re.IGNORECASE)
_UNREFUSED = re.compile(
    r"(?:^|;)\s*(?:commit|end|abort|rollback(?!\s+to\b)|begin|start)\b"
    r"|\b(?:notify|pg_notify|lowrite|lo_(?:creat|create|from_bytea|import|put|truncate|truncate64|unlink))\b",
    re.IGNORECASE,
)


def is_ordinary(statement: str) -> bool:
    """Return whether the text is one statement, of a kind that ends no transaction."""
    return _ORDINARY.match(statement) is not None and ";" not in statement.rstrip().removesuffix(";")


def may_replace(statement: str) -> bool:
    """Return whether the statement may end the transaction and begin another, so that one is open afterwards."""
    return not is_ordinary(statement) and _ENDS.search(statement) is not None


def savepoint_of(statement: str) -> tuple[str, str]:
    """Return what a statement does with a savepoint ("savepoint", "release" or "rollback"), and its name."""
    found = _SAVEPOINT.match(statement)
    return ("", "") if found is None else (found[1].lower(), found[2])


def sets_autocommit(statement: str) -> bool:
    """Return whether the statement has all later ones committed at once."""
    may_set = _SET.match(statement) is not None or not is_ordinary(statement)
    return may_set and _AUTOCOMMIT.search(statement) is not None


def takes_back(statement: str) -> bool:
    """Return whether the statement rolls back the transaction, alone or in a string with others."""
    bare = "" if is_ordinary(statement) else bare_of(statement)
    return _TAKES_BACK.search(bare) is not None


def is_unrefused(statement: str) -> bool:
    """Return whether PostgreSQL accepts this change in a transaction that only reads, or ends the transaction."""
    return _UNREFUSED.search(statement) is not None
