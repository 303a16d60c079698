"""Tell what a SQL statement may do, from its text alone.

A statement is a plain read only if nothing in it can change anything: it is one query, and calls only functions
that are listed here. Everything else counts as a change. A mistake in that direction costs
a word in an answer; a mistake in the other one would have a change stored twice.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

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
_KIND = re.compile(
    r"""[(\s]*(?:(?P<query>select|with|values)|(?P<write>insert|update|delete|merge|replace)
    |(?P<look>show|explain|describe)|(?P<savepoint>savepoint|release|rollback\s+to)
    |(?P<setting_here>set\s+(?:local|transaction|constraints))|(?P<setting>set|use))\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""The kinds of statements that end no transaction, by how they begin. All but a setting leave nothing in their
session, unless a function that they call does."""
_SETTINGS = ("setting", "setting_here")
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
COMPUTING = frozenset(_HARMLESS.split())
"""Words of the grammar, types, and functions that only compute, unless the database has one of its own."""


_INTO = re.compile(r"\b(insert|replace|merge)\s+into\s+(?:\w+\s*\.\s*)?\w+", re.IGNORECASE)
_WRITES = frozenset(("insert", "update", "delete", "merge", "replace"))
_LEAVES = frozenset(("into", "pg_settings"))
"""Words of statements that may leave something by themselves."""
WRITES, READS, CHANGES = "all writes", "all reads", "all changes"
"""Stand among functions for those that a write, or any statement, calls unseen, such as those of triggers and
views, and for those by which a read changes something."""
_ENDS = re.compile(
    r"\b(?:commit|rollback|end|abort|begin|start|prepare|prepared|chain|call|execute)\b", re.IGNORECASE
)
_AUTOCOMMIT = re.compile(r"\bautocommit\s*:?=(?!\s*(?:0|off\b|false\b))", re.IGNORECASE)
_TAKES_BACK = re.compile(r"(?:^|;)\s*(?:--.*\n\s*)*(?:rollback(?!\s+(?:\w+\s+)?to\b)|abort)\b", re.IGNORECASE)
_UNREFUSED = re.compile(
    r"(?:^|;)\s*(?:commit|end|abort|rollback(?!\s+to\b)|begin|start)\b"
    r"|\b(?:notify|pg_notify|lowrite|lo_(?:creat|create|from_bytea|import|put|truncate|truncate64|unlink))\b",
    re.IGNORECASE,
)


class Statement(NamedTuple):
    """The effects that a statement may have on its transaction, and on the session of its connection."""

    is_plain_read: bool
    """True if it is known to change nothing."""
    called: frozenset[str] | None
    """The functions, in lower case, by which it may leave something in its session, such as a setting or a lock.
    None if it may do so in another way, as SET and CREATE TEMPORARY TABLE do."""
    is_ordinary: bool
    """True if the text is one statement, of a kind that ends no transaction."""
    may_replace: bool
    """True if it may end the transaction and begin another, so that one is open afterwards."""
    sets_autocommit: bool
    """True if it has all later statements committed at once."""
    takes_back: bool
    """True if it rolls back the transaction, alone or in a string with others."""
    is_unrefused: bool
    """True if PostgreSQL accepts this change in a transaction that only reads, or ends the transaction."""


@lru_cache(1024)
def statement_of(text: str) -> Statement:
    """Return what is known of a statement."""
    # Without comments, and with the word "quoted" for each string and each quoted name.
    bare = _APART.sub(lambda found: " quoted " if found["quoted"] else " ", text.strip().removesuffix(";"))
    found = _KIND.match(bare)
    kind = found.lastgroup if found is not None else None
    is_ordinary = kind is not None and ";" not in text.rstrip().removesuffix(";")
    is_clear = len(text) <= LONGEST and "\\" not in text and not _UNCLEAR.search(bare)
    # A parenthesis behind INTO and a name has columns.
    words = _WORD.findall(_INTO.sub(r"\1 ,", bare).lower()) if is_clear else ()
    called = {word for word, parenthesis in words if parenthesis}
    others = {word for word, parenthesis in words if not parenthesis}
    is_known = kind not in (None, "setting") and _LEAVES.isdisjoint(called | others) and "quoted" not in called
    unknown = frozenset(called - COMPUTING)
    writes = [WRITES] if _WRITES & (called | others) else []
    return Statement(
        is_plain_read=is_clear and kind == "query" and not unknown and others.isdisjoint(_CHANGES),
        called=unknown.union(writes) if is_clear and is_known else None,
        is_ordinary=is_ordinary,
        may_replace=not is_ordinary and _ENDS.search(text) is not None,
        sets_autocommit=(not is_ordinary or kind in _SETTINGS) and _AUTOCOMMIT.search(text) is not None,
        takes_back=not is_ordinary and _TAKES_BACK.search(bare) is not None,
        is_unrefused=_UNREFUSED.search(text) is not None,
    )
