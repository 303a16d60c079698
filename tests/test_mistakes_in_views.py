"""Mistakes in views that are answered 200 and lose something without a word, each beside the right way.

Debug mode tells them, or at least a page of the documentation does.
"""

from __future__ import annotations

import importlib
import locale
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import create_engine

import asking
from pipeline import Pipeline
from pipeline.database import sql_databases
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.keep import keep
from pipeline.elements.retry import retry
from pipeline.elements.session import session
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all, zodb
from pipeline.publisher import publisher

pytest.importorskip("pydantic")

DOCS = Path(__file__).resolve().parent.parent / "docs/howto"
FORM = "application/x-www-form-urlencoded"
SITE = '''
from __future__ import annotations
import asyncio, copy, hashlib, locale, logging, random, secrets, shutil, sqlite3, subprocess, threading
from contextlib import closing
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from email.mime.text import MIMEText
from html import escape
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Timer
from types import SimpleNamespace
from markupsafe import Markup
from persistent import Persistent
from persistent.list import PersistentList
from persistent.mapping import PersistentMapping
from pydantic import BaseModel
from pipeline import Response, redirect, render, view
from pipeline.auth.passwords import hash_password
from pipeline.forms.upload import Upload
from sqlalchemy import delete, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

TMP = Path("TMP")

class Base(DeclarativeBase):
    """The tables."""

class Task(Base):
    __tablename__ = "tasks"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    done: Mapped[bool] = mapped_column(default=False)
    count: Mapped[int] = mapped_column(default=0)

class Counted(Base):
    __tablename__ = "counted"
    id: Mapped[int] = mapped_column(primary_key=True)
    count: Mapped[int]
    version: Mapped[int] = mapped_column()
    __mapper_args__ = {"version_id_col": version}

class Note(Persistent):
    stars: int
    def __init__(self, title):
        self.__parent__, self.__name__, self.title = None, title, title

class Box(PersistentMapping):
    __name__ = "box"

class Card(Note):
    color = size = None
    def __getstate__(self):
        return {name: value for name, value in Note.__getstate__(self).items() if name not in ("color", "size")}
    def __setstate__(self, state):
        Note.__setstate__(self, state)
        self.size = len(self.title)

class User(Persistent):
    def __init__(self, password, since=MADE):
        self.__parent__ = self.__name__ = None
        self.password, self.since = password, since

class Cached(Persistent):
    __parent__ = __name__ = None
    def __init__(self, title):
        self.title = title
    @lru_cache
    def upper(self):
        return self.title.upper()

class Site(PersistentMapping):
    __parent__ = __name__ = None
    def filter(self, word):
        return [note for note in self.values() if word in note.title]
    def __init__(self):
        PersistentMapping.__init__(self)
        self.title, self.content, self.count, self.done = "a title", b"", 0, True
        self.tags, self.made = PersistentList(["b", "a"]), datetime(2026, 11, 1)

class Change(BaseModel):
    title: str
    done: bool = False

LAST, HERE = {}, threading.local()

async def notify(name):
    return name

def add_all(site, titles):
    for title in titles:
        site[title] = Note(title)
        yield title

def send(message):
    """Send a mail."""

def note_all(site, title):
    title.strip()

def note_rightly(site, title):
    return title.strip()

@lru_cache
def titles():
    with closing(sqlite3.connect(":memory:")) as books:
        return books.execute("SELECT 1").fetchall()

@lru_cache
def rules():
    return sorted(["a", "b"])

class Place:
    """What the site keeps."""

HERE_TOO = Place()

@lru_cache
def shown(one):
    return str(one)

def root(database):
    return database.setdefault("site", Site())

@view(context=Site)
def index(context, request):
    return f"<p>{context.title}"

@view(context=Site, name="keep")
def keeps(context, request):
    LAST["title"] = context.title
    return "<p>kept"

@view(context=Note, name="n", methods=("POST",))
def rename(context, request, title: str):
    RENAME
    return "<p>renamed"
'''
RENAME = 'context.__parent__[title] = context.__parent__.pop(context.__name__)\n    context.__name__ = title'
UPLOAD = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n'
    b"abcd\r\n--x--\r\n"
)
Asked = tuple[str, str, bytes, str]
POST: Asked = ("POST", "/n", b"title=new", FORM)
FILE: Asked = ("POST", "/n", UPLOAD, "multipart/form-data; boundary=x")


class Mistake(NamedTuple):
    """Lines of a view that lose something, and those that do not."""

    wrong: str
    right: str
    told: str
    """What a notice or the log has; or what the page ``stored.rst`` has, behind "docs: "."""
    takes: str = "context, request, title: str"
    asked: tuple[Asked, ...] = (POST,)
    status: int = 200
    rightly: tuple[Asked, ...] = ()
    """What is asked of the right lines, if it is something else."""


def file_is(what: str) -> str:
    return f"if {what} != b'ab':\n    return '<p>another file'\n"


COPIED = "with (TMP / 'copy').open('wb') as target:\n    shutil.copyfileobj(file.file, target)"
TASK = "task = request.sql.get(Task, 1)\n"
NOTE = "context['{}'] = note = Note(title)\nnote.__parent__ = context"
FILLED = "db = sqlite3.connect(TMP / 'x.db')\ndb.execute('create table if not exists t (a)')\n"
FILLED += "db.execute('insert into t values (?)', (title,))\n"
ADDED = "context[title] = note = Note(title)\nnote.__parent__ = context"
PLACES = "note, box = context.setdefault(title, Note(title)), context.setdefault('box', Box())\n"
PLACES += "if note.__parent__ is None:\n    note.__parent__ = box.__parent__ = context\n"
ASKED = "text = '{% if not notes %}<p>nothing{% endif %}{% for note in others %}<p>{{ note }}{% endfor %}'\n"
ASKED += "text += '{% if others is iterable %}<p>others{% endif %}{% if found %}<p>found{% endif %}'\n"
ASKED += "(TMP / 'asked.html').write_text(text)\n"
AREA = "return '<p>a page<form><textarea name=\"b\"{}>{}</textarea></form>'"
WITH_FILE = "context, request, file: Upload"
NO_FIELD = "context, request"
MISTAKES: dict[str, Mistake] = {
    "None of append()": Mistake(
        "context.tags = context.tags.append(title)", "context.tags.append(title)", "has stored None"
    ),
    "a change is taken back": Mistake(
        "context.title = title\ncontext._p_invalidate()",
        "context.title = title\ncontext._p_deactivate()",
        "context._p_invalidate() drops what the line before it has changed",
    ),
    "a copy in a variable": Mistake(
        "tags = list(context.tags)\ntags.append(title)",
        "tags = list(context.tags)\ntags.append(title)\ncontext.tags = PersistentList(tags)",
        "tags = list(context.tags) makes a copy: it is changed here, and nothing keeps it",
    ),
    "a sign behind =": Mistake(
        "context.count =+ 1",
        "context.count = +1\ncontext.count += 1",
        "context.count is set to +1: the sign stands behind =",
    ),
    "the data of a mapping": Mistake(
        "context.data = {'text': title}", "context.content = {'text': title}", "replaces all items"
    ),
    "sync() after a change": Mistake(
        "context.title = title\nrequest.zodb.sync()", "context.title = title", "AlreadyInTransaction", status=500
    ),
    ": in place of =": Mistake(
        "context.title: title", "context.title: str = title", "context.title: title has no effect: it annotates"
    ),
    "sqlite3 without commit()": Mistake(
        f"{FILLED}db.close()", f"{FILLED}db.commit()\ndb.close()", "what is written to db is lost"
    ),
    "a row is expired": Mistake(
        f"{TASK}task.title = title\nrequest.sql.expire(task)",
        f"{TASK}task.title = title\nrequest.sql.flush()\nrequest.sql.expire(task)",
        "request.sql.expire(task) drops what the line before it has changed",
    ),
    "a column of the class": Mistake(
        f"{TASK}Task.done = True", f"{TASK}task.done = True", "Task.done has changed in memory"
    ),
    "one of several": Mistake(
        "context.tags = request.POST['tags']",
        "context.tags = request.POST.getall('tags')",
        "request.POST['tags'] is the last of several values",
        NO_FIELD,
        (("POST", "/n", b"tags=a&tags=b", FORM),),
    ),
    "the query of a form": Mistake(
        "context.title = request.GET.get('title', 'Untitled')",
        "context.title = request.POST.get('title', 'Untitled')",
        "looks into the address, and the field was sent in the form",
        NO_FIELD,
    ),
    "defaults in a PATCH": Mistake(
        "context.title, context.done = change.title, change.done",
        "context.title = change.title\nif 'done' in change.model_fields_set:\n    context.done = change.done",
        "takes the default if the field was not sent",
        "context, request, change: Change",
        (("PATCH", "/n", b'{"title": "x"}', "application/json"),),
    ),
    "0 is not nothing": Mistake(
        "context.count = count or 10",
        "context.count = count",
        "count or 10 takes the 0 that was sent for nothing",
        "context, request, count: int = 10",
        (("POST", "/n", b"count=0", FORM),),
    ),
    "a copy of the session": Mistake(
        "session = dict(request.session)\nsession['title'] = title",
        "request.session['title'] = title",
        "session = dict(request.session) makes a copy",
    ),
    "a message after the commit": Mistake(
        "context.title = title\nrequest.after_commit(request.flash, 'saved')",
        "context.title = title\nrequest.flash('saved')",
        "the session cannot be changed any more",
    ),
    "the name of a visitor": Mistake(
        "open('TMP/' + file.filename, 'wb').close()",
        "open('TMP/' + secrets.token_hex() + file.filename, 'wb').close()",
        "takes the name that a visitor gave",
        WITH_FILE,
        (FILE,),
    ),
    "the first bytes of a file": Mistake(
        file_is("file.file.read(2)") + COPIED,
        file_is("file.file.read(2)") + "file.file.seek(0)\n" + COPIED,
        "the first bytes of file.file were read before, and are missing in the copy",
        WITH_FILE,
        (FILE,),
    ),
    "an exit code": Mistake(
        "subprocess.run(['false'])", "subprocess.run(['true'], check=True)", "drops the exit code"
    ),
    "a function that is called": Mistake(
        "request.after_commit(send(title))", "request.after_commit(send, title)", "give it a function", status=500
    ),
    "a coroutine": Mistake(
        "notify(title)", "context.title = asyncio.run(notify(title))", "notify(title) does nothing yet"
    ),
    "a generator": Mistake(
        "add_all(context, title.split())",
        "context.count = len([*add_all(context, title.split())])",
        "add_all(context, title.split()) does nothing yet",
    ),
    "threading.local": Mistake("HERE.visitor = title", "context.title = title", "HERE has changed in memory"),
    "the type of another framework": Mistake(
        "response.mimetype = 'text/csv'",
        "response.content_type = 'text/csv'",
        "response.mimetype = 'text/csv' has no effect",
        "context, request, response",
    ),
    "an object in a variable": Mistake(
        "LAST.setdefault('site', context).title = title",
        "context.title = title",
        "LAST keeps an object of the database",
        asked=(("GET", "/keep", b"", ""), POST, POST),
    ),
    "a counter in a file": Mistake(
        "file = TMP / 'count'\nfile.write_text(title)", "context.count += 1", "docs: A counter in a file"
    ),
    "a name that is not the key": Mistake(
        NOTE.format("old") + "\nreturn redirect(request.absolute_url(note), 303)",
        NOTE.format("new") + "\nreturn redirect(request.absolute_url(note), 303)",
        "an object of Note has the __name__ 'new', and stands under 'old'",
        status=303,
    ),
    "a name without its key": Mistake(
        NOTE.format("new"),
        NOTE.format("new"),
        "an object of Note has the __name__ 'other', and stands under 'new'",
        asked=(POST, ("POST", "/new/n", b"title=other", FORM)),
    ),
    "seconds that are not days": Mistake(
        "request.session['title'] = title", "request.session['title'] = title", "docs: ``max_age = 30``"
    ),
    "a key of the length": Mistake(
        "context[str(len(context) + 1)] = Note(title)",
        "context.count += 1\ncontext[str(context.count)] = Note(title)",
        "it replaces another item",
    ),
    "a key of a length that has a name": Mistake(
        "number = len(context) + 1\ncontext[number] = Note(title)",
        "context.count += 1\nnumber = context.count\ncontext[number] = Note(title)",
        "it replaces another item",
    ),
    "a key of an id": Mistake(
        "site = context\nsite.content = PersistentMapping()\nsite.content[id(context)] = title",
        "site = context\nsite.content = PersistentMapping()\nsite.content[title] = id(context)",
        "another key in each process",
    ),
    "an object in the lambda of a thread": Mistake(
        "note = context\nif not title:\n    threading.Thread(target=lambda: setattr(note, 'title', title)).start()",
        "note = context.title\nif not title:\n    threading.Thread(target=lambda: print(note)).start()",
        "context is given to a thread",
    ),
    "a path of the name of a file": Mistake(
        "path = TMP / file.filename\nwith open(path, 'wb') as copy:\n    copy.write(file.file.read())",
        "path = TMP / title.encode().hex()\nwith open(path, 'wb') as copy:\n    copy.write(file.file.read())",
        "takes the name that a visitor gave",
        "context, request, file: Upload, title: str = 'a'",
        (FILE,),
    ),
    "a book that is written before": Mistake(
        "with open('TMP/book.txt', 'a') as book:\n    book.write(title)\ncontext.title = title",
        "def write():\n    Path('TMP/book.txt').touch()\ncontext.title = title\nrequest.after_commit(write)",
        "writes before the changes are stored: again with each attempt",
    ),
    "a name in a cookie": Mistake(
        "if request.cookies.get('user') == 'ann':\n    return '<p>all'",
        "if request.principal == 'ann' or request.cookies.get('theme') == 'dark':\n    return '<p>all'",
        "a visitor can write any user into a cookie",
    ),
    "a text that says no": Mistake(
        "context.done = request.POST.get('public', 'false')",
        "context.done = request.POST.get('public', 'false') == 'true'",
        "stores a text, which is true whatever it says",
    ),
    "all fields in the dict of an object": Mistake(
        "vars(context).update(request.POST)\ncontext._p_changed = True",
        "vars(context).update(title=title)\ncontext._p_changed = True",
        "a visitor may set each attribute here",
    ),
    "a result that is cached": Mistake(
        "return f'<p>{titles()}'", "return f'<p>{rules()}'", "titles is cached, and reads the database"
    ),
    "a mistake in a function": Mistake(
        "note_all(context, title)\ncontext.title = title",
        "note_rightly(context, title)\ncontext.title = title",
        "title.strip() has no effect",
    ),
    "a new object that is changed alone": Mistake(
        "note = Note(title)\nnote.stars = 5\ncontext.count += 1\nreturn redirect(f'/{note.stars}', 303)",
        "note = Note(title)\nnote.stars = 5\ncontext[title] = note\nreturn redirect(f'/{note.stars}', 303)",
        "note = Note(title) makes an object that is changed, and that nothing stores",
        status=303,
    ),
    "a new row that is changed alone": Mistake(
        "'Add a task.'\ntask = Task(title=title)\ntask.done = True\nrequest.session['a'] = 'The task is added'\n"
        "return redirect('/', 303)",
        "task = Task(title=title)\ntask.done = True\nrequest.sql.add(task)\nreturn redirect('/', 303)",
        "task = Task(title=title) makes an object that is changed, and that nothing stores",
        status=303,
    ),
    "a new object that its attribute keeps": Mistake(
        "note = Note(title)\nnote.site = 'a'\ncontext.count += 1\nreturn redirect('/', 303)",
        "note = Note(title)\nnote.site = context\ncontext.count += 1\nreturn redirect('/', 303)",
        "note = Note(title) makes an object that is changed, and that nothing stores",
        status=303,
    ),
    "a copy that is changed alone": Mistake(
        "note = copy.copy(context)\nnote.title = title\ncontext.count += 1\nreturn redirect('/', 303)",
        "note = copy.copy(context)\nnote.title = title\ncontext.count += 1\nreturn f'<p>{note.title}'",
        "note = copy.copy(context) makes an object that is changed, and that nothing stores",
        status=303,
    ),
    "an answer whose text is sent": Mistake(
        "answer = Response(title)\nanswer.content_type = 'text/csv'\nreturn answer.text",
        "answer = Response(title)\nanswer.content_type = 'text/csv'\nreturn answer",
        "answer = Response(...) makes an object that is neither returned nor raised",
    ),
    "a script that was sent before": Mistake(
        "context.title = title",
        "context.title = title.replace('<', '(')",
        "the page has the markup of the field 'title' as the visitor has sent it",
        asked=(("POST", "/n", b"title=%3Cimg+src=x+onerror=y%3E", FORM), ("GET", "/", b"", "")),
    ),
    "an object in an attribute of a variable": Mistake(
        "HERE_TOO.site = context",
        "context.title = str(HERE_TOO)",
        "HERE_TOO.site keeps an object of the database",
    ),
    "a key that another process does not find": Mistake(
        "context[str(hash(title))] = Note(title)", "context[title] = Note(title)", "another key in each process"
    ),
    "a length in characters": Mistake(
        "if title:\n    response.content_length = len(title)\n    return title",
        "if title:\n    return title",
        "len(title) counts characters",
        "context, request, response, title: str",
    ),
    "pairs of boxes": Mistake(
        "context.count = len([*zip(request.POST.getall('title'), request.POST.getall('done'))])",
        "context.count = len(request.POST.getall('title'))",
        "docs: makes wrong pairs",
    ),
    "a textarea with a value": Mistake(
        AREA.format(' value="a text"', ""), AREA.format("", "a text"), "write the text between <textarea>"
    ),
    "a condition that is dropped": Mistake(
        "tasks = select(Task)\ntasks.where(Task.done)\nrequest.sql.scalars(tasks)",
        "tasks = select(Task)\ntasks = tasks.where(Task.done)\nrequest.sql.scalars(tasks)",
        "tasks.where(Task.done) has no effect: it returns another statement",
    ),
    "the days of a difference": Mistake(
        "if (datetime.now() - context.made).seconds < 0:\n    return '<p>new'",
        "if (datetime.now() - context.made).total_seconds() < 0:\n    return '<p>new'",
        "leaves out whole days",
    ),
    "the days of a difference with a name": Mistake(
        "age = datetime.now() - context.made\nif age.seconds < 0:\n    return '<p>new'",
        "age = datetime.now() - context.made\nif age.days == 0 and age.seconds < 0:\n    return '<p>new'",
        "age.seconds < 0 leaves out whole days",
    ),
    "a cent": Mistake(
        "context.count = int(float('19.99') * 100)",
        "context.count = round(float('19.99') * 100)",
        "int(float('19.99') * 100) cuts off",
    ),
    "an object that is not kept": Mistake(
        "context.setdefault(title, Note(text))",
        "if title not in context:\n    context.setdefault(title, Note(text))\ncontext.setdefault(text, Note(text))",
        "leaves what stands under this key, if there is something, and the new object is lost",
        "context, request, title: str, text: str = 'a text'",
    ),
    "a text as a condition": Mistake(
        "if title == 'a' or 'b':\n    context.count = 1",
        "if title == 'a' or title in ('b', 'c'):\n    context.count = 1",
        "if title == 'a' or 'b': is always true",
    ),
    "one of two cookies": Mistake(
        "response.set_cookie('a', 'b')\nresponse.headers['Set-Cookie'] = 'c=d'\nreturn '<p>set'",
        "response.headers['Set-Cookie'] = 'c=d'\nresponse.set_cookie('a', 'b')\nreturn '<p>set'",
        "replaces the cookie that was set before",
        "context, request, response, title: str",
    ),
    "letters that are lost": Mistake(
        "context.content = file.file.read().decode('utf-8', 'ignore')",
        "context.content = file.file.read(2).decode('utf-8', 'ignore')",
        "loses each letter that its charset lacks",
        WITH_FILE,
        (FILE,),
    ),
    "the addresses of all": Mistake(
        "message = MIMEText(title)\nfor one in title.split():\n    message['To'] = one",
        "for one in title.split():\n    message = MIMEText(title)\n    message['To'] = one",
        "message gets one more address at each turn",
    ),
    "the name of a file that is deleted": Mistake(
        "with NamedTemporaryFile(dir=TMP) as target:\n    target.write(b'a')\n    context.title = target.name",
        "with NamedTemporaryFile(dir=TMP, delete=False) as target:\n    context.title = target.name",
        "the file target is deleted at the end of this block",
    ),
    "a month for a minute": Mistake(
        "context.title = f'{context.made:%H:%m}'",
        "context.title = f'{context.made:%H:%M %d.%m}'",
        "%H:%m has a month for a minute",
    ),
    "a password in the log": Mistake(
        "logging.info('%s came', request.POST)",
        "logging.info('%s came, and not the password', title)",
        "writes each field into the log, also a password",
        "context, request, title: str, password: str = ''",
    ),
    "an ETag that stays": Mistake(
        "response.etag = 'n'\nreturn f'<p>{escape(title)}'",
        "response.etag = title\nreturn f'<p>{escape(title)}'",
        'the ETag "n" was sent with another page before',
        "context, request, response, title: str",
        (POST, POST, ("POST", "/n", b"title=other", FORM)),
    ),
    "a value without quotes": Mistake(
        AREA.format("", "") + " + f'<form><input name=a value={context.title}></form>'",
        AREA.format("", "") + " + f'<form><input name=a value=\"{context.title}\"></form>'",
        "has a value without quotes",
    ),
    "any attribute": Mistake(
        "for name, value in request.POST.items():\n    setattr(context, name, value)",
        "for name in request.POST:\n    if name in ('title', 'content'):\n        setattr(context, name, title)",
        "a visitor may set each attribute here",
    ),
    "markup of an f-string": Mistake(
        "context.title = str(Markup(f'<b>{title}</b>'))",
        "context.title = str(Markup('<b>{}</b>').format(title))",
        "takes each value in it as HTML",
    ),
    "a lambda in a loop": Mistake(
        "for one in title.split():\n    request.after_commit(lambda: send(one))",
        "for one in title.split():\n    request.after_commit(send, one)",
        "each lambda of this loop finds the last one",
    ),
    "a box that is never off": Mistake(
        "if request.POST.get('done'):\n    context.done = True",
        "context.done = bool(request.POST.get('done'))",
        "done is never set back",
    ),
    "a 0 that is not stored": Mistake(
        "if count:\n    context.count = count",
        "if count is not None:\n    context.count = count",
        "if count: takes the 0 that was sent for nothing",
        "context, request, count: int = None",
        (("POST", "/n", b"count=0", FORM),),
    ),
    "a field that was not sent": Mistake(
        "context.title, context.content = title, content",
        "context.title, context.content = title, content or context.content",
        "content was not sent, and its default replaces what is stored",
        "context, request, title: str, content: str = ''",
    ),
    "money as a float": Mistake(
        "context.count += price",
        "context.count += round(price * 100)",
        "price is money and a float",
        "context, request, price: float",
        (("POST", "/n", b"price=0.1", FORM),),
    ),
    "all attributes in an answer": Mistake(
        "context.title = title\nreturn {name: str(value) for name, value in vars(context).items()}",
        "context.title = title\nreturn {'title': vars(context)['title']}",
        "sends each attribute, also one that is added later",
    ),
    "defaults of a model in a POST": Mistake(
        "for name, value in changes.model_dump().items():\n    setattr(context, name, value)",
        "for name, value in changes.model_dump(exclude_unset=True).items():\n    setattr(context, name, value)",
        "changes.model_dump() has the defaults of the fields that were not sent",
        "context, request, changes: Change",
    ),
    "a field of a model": Mistake(
        "context.title = changes.title",
        "context.title = changes.title",
        "the field 'doen' was sent, and not taken. Did you mean 'done'?",
        "context, request, changes: Change",
        (("POST", "/n", b'{"title": "new", "doen": true}', "application/json"),),
        rightly=(("POST", "/n", b'{"title": "new", "done": true}', "application/json"),),
    ),
    "a default of a class": Mistake(
        "context['ann'] = User('')",
        "context['ann'] = User('')",
        "datetime.now() is computed once, at the start, for all objects",
    ),
    "a plain password": Mistake(
        "context['ann'] = User(title)",
        "context['ann'] = User(hash_password(title))",
        "User.password keeps a password as it was sent",
    ),
    "a name that nothing reads": Mistake(
        "context.tittle = title",
        "context.titles = context.subject = title",
        "tittle was set on an object of Site, which has title",
    ),
    "nothing is stored": Mistake(
        "note = context.get(title)\ndel note\nreturn redirect('/', 303)",
        "context.pop(title, None)\ncontext.count += 1\nreturn redirect('/', 303)",
        "no line of n has changed an object that the database keeps",
        status=303,
    ),
    "a choice that is not kept": Mistake(
        "chosen = {}\nchosen['title'] = title\nreturn redirect('/', 303)",
        "request.session['title'] = title\nreturn redirect('/', 303)",
        "no line of n has changed an object that the database keeps",
        status=303,
    ),
    "an error that is stored": Mistake(
        "context.title = title\nreturn {'error': 'sold out'}",
        "context.title = title\nreturn {'error': None}",
        "and the changes of this request are stored",
    ),
    "a script of a visitor": Mistake(
        "return f'<p><a href=\"{escape(title)}\">a link</a>'",
        "return f'<p><a href=\"/?a={escape(title)}\">a link</a>'",
        "is the begin of a script, most likely a visitor's",
        asked=(("POST", "/n", b"title=javascript:alert(1)", FORM),),
    ),
    "a cookie that is too large": Mistake(
        "response.set_cookie('basket', 'a' * 5000)\nreturn '<p>set'",
        "response.set_cookie('basket', 'a' * 900)\nreturn '<p>set'",
        "a browser drops the cookie 'basket'",
        "context, request, response, title: str",
    ),
    "a secret in the address": Mistake(
        "context.title = title",
        "context.title = title",
        "the address has 'api_key='",
        asked=(("POST", "/n?api_key=a", b"title=new", FORM),),
        rightly=(("POST", "/n?api=key", b"title=new", FORM),),
    ),
    "another name of a field": Mistake(
        "context.title = text or title",
        "context.title = request.POST['body'] or text",
        "the field 'body' was sent, and not taken, and 'text' was not sent",
        "context, request, title: str, text: str = ''",
        (("POST", "/n", b"title=new&body=lost", FORM),),
    ),
    "a file at its end": Mistake(
        "page = BytesIO()\npage.write(b'<p>a page')\nreturn page",
        "page = BytesIO()\npage.write(b'<p>a page')\npage.seek(0)\nreturn page",
        "page is at its end after it was written",
    ),
    "the locale of all": Mistake(
        "locale.setlocale(locale.LC_ALL, 'C')",
        "context.title = locale.setlocale(locale.LC_ALL)",
        "locale.setlocale is one for the whole process",
    ),
    "any address": Mistake(
        "return redirect(title, 303, trusted=True)",
        "return redirect(f'https://www.example.com/?q={title}', 303, trusted=True)",
        "leads wherever a visitor says",
        asked=(("POST", "/n", b"title=https://www.example.org/", FORM),),
        status=303,
        rightly=(POST,),
    ),
    "any file": Mistake(
        "(TMP / 'new').touch()\ncontext.title = (TMP / title).read_text()",
        "(TMP / 'new').touch()\ncontext.title = (TMP / Path(title).name).read_text()",
        "(TMP / title).read_text() takes any file of the server",
    ),
    "a token that can be guessed": Mistake(
        "token = str(random.getrandbits(64))\ncontext.title = token",
        "token = secrets.token_hex()\ncontext.title = token",
        "can be guessed from earlier ones",
    ),
    "a fast hash": Mistake(
        "context.password = hashlib.sha256(password.encode()).hexdigest()",
        "context.password = hash_password(password)",
        "stores a fast hash",
        "context, request, password: str",
        (("POST", "/n", b"password=secret", FORM),),
    ),
    "a cached function": Mistake(
        "context.title = shown(request)", "context.title = shown(request.path)", "shown(request) keeps what it is"
    ),
    "a cached method": Mistake(
        "context['ann'] = Cached('a')", "context['ann'] = User('')", "upper is cached: the object stands in its key"
    ),
    "the page of one visitor": Mistake(
        "response.headers['Cache-Control'] = 'public, max-age=60'\nreturn f'<p>{request.principal}'",
        "response.headers['Cache-Control'] = 'private, max-age=60'\nreturn f'<p>{request.principal}'",
        "caches may keep this page for others, and it is for a visitor who is logged in",
        "context, request, response, title: str",
    ),
    "a whole form in the log": Mistake(
        "logging.getLogger('site').info('%s came', dict(request.form))",
        "logging.getLogger('site').info('%s came', request.form['title'])",
        "writes each field into the log, also a password",
    ),
    "a second name of an object": Mistake(
        "context['a'] = Note('a')\ncontext['draft'] = context['a']",
        "context['a'] = Note('a')\ncontext['draft'] = copy.deepcopy(context['a'])",
        "context['draft'] = context['a'] is the same object under a second name",
    ),
    "one list for all keys": Mistake(
        "context.content = PersistentMapping(dict.fromkeys('ab', PersistentList()))",
        "context.content = PersistentMapping({key: PersistentList() for key in dict.fromkeys('ab', 0)})",
        "dict.fromkeys('ab', PersistentList()) has one object several times",
    ),
    "one list three times": Mistake(
        "context.tags = PersistentList([PersistentList()] * 3)",
        "context.tags = PersistentList([0] * 3)",
        "[PersistentList()] * 3 has one object several times",
    ),
    "a word of letters": Mistake(
        "context.title = title.lstrip('note-')",
        "context.title = title.removeprefix('note-').strip('. ').rstrip(' .,')",
        "title.lstrip('note-') takes away each of these letters, and not the word",
    ),
    "letters of another charset": Mistake(
        "context.title = title.encode('ascii', 'ignore').decode()",
        "context.title = title.encode('ascii', 'namereplace').decode()",
        "title.encode('ascii', 'ignore') loses each letter that its charset lacks",
    ),
    "% in a statement": Mistake(
        "request.sql.execute(delete(Task).where(Task.done, Task.title.contains(title)))",
        "request.sql.execute(delete(Task).where(Task.done, Task.title.contains(title, autoescape=True)))\n"
        "request.sql.execute(delete(Task).where(Task.title.startswith('tmp-')))\n"
        "request.sql.scalars(select(Task).where(Task.title.contains(title))).all()",
        "Task.title.contains(title) stands for all rows if a visitor sends %",
    ),
    "one text in brackets": Mistake(
        "if title not in ('newspapers'):\n    return '<p>refused'",
        "if title not in ('newspapers', 'new') or not [one for one in title if one in 'newspapers']:\n"
        "    return '<p>refused'",
        "title not in 'newspapers' looks for a part of this text",
    ),
    "a Decimal of a float": Mistake(
        "context.content = Decimal(cents)",
        "context.content = Decimal(str(cents)) + Decimal(title)",
        "Decimal(cents) has the error of the float",
        "context, request, title: str = '1', cents: float = 0.1",
        (("POST", "/n", b"title=2&cents=19.99", FORM),),
    ),
    "a 0 behind int()": Mistake(
        "context.count = int(title) or context.count",
        "context.count = int(title) if title else context.count",
        "int(title) or context.count takes the 0 that was sent for nothing",
        asked=(("POST", "/n", b"title=0", FORM),),
    ),
    "Z behind a local time": Mistake(
        "context.title = datetime.now().isoformat() + 'Z'",
        "context.title = datetime.now().astimezone().isoformat() + ' ' + datetime.now().isoformat()",
        "datetime.now().isoformat() + 'Z' says another instant",
    ),
    "the seconds of some days": Mistake(
        "context.count = (datetime.now() - context.made).seconds",
        "context.count = (datetime.now() - context.made).total_seconds()",
        "(datetime.now() - context.made).seconds leaves out whole days",
    ),
    "a Timer": Mistake(
        "Timer(0, send, [title]).start()",
        "request.after_commit(send, title)",
        "Timer(0, send, [title]) is in the memory of this process",
    ),
    "a number in a file": Mistake(
        "path = TMP / 'count'\npath.write_text(str(int(path.read_text()) + 1 if path.exists() else 1))",
        "path = TMP / 'count'\nother = TMP / 'other'\npath.write_text(title)\n"
        "other.read_text() if other.exists() else ''",
        "path is written and read for each request, and two at once lose one of both",
    ),
    "a file of the directory": Mistake(
        "if title != 'new':\n    Path('counted.txt').write_text(title)",
        "(TMP / 'counted.txt').write_text(title)\nPath('counted.txt').exists()",
        "Path('counted.txt').write_text(title) writes into the directory from which the server was started",
    ),
    "a header of a visitor": Mistake(
        "if request.headers.get('X-Remote-User') == 'ann':\n    context.title = title",
        "if request.principal == 'ann' or request.headers.get('X-Requested-With'):\n    context.title = title",
        "request.headers.get('X-Remote-User') is what a visitor can send, too",
    ),
    "an attribute of the session": Mistake(
        "request.session.user = title",
        "request.session['user'] = title",
        "request.session.user = title sets an attribute of a mapping, and nothing keeps or sends it",
    ),
    "a comma behind a value": Mistake(
        "context.title = title,",
        "context.title, context.tags = title, PersistentList((title,))",
        "Site.title is stored as a tuple, and its type is str",
    ),
    "letters in another order": Mistake(
        "context.titel = title",
        "context.total = title",
        "titel was set on an object of Site, which has title",
    ),
    "a password in a mapping": Mistake(
        "context['ann'] = PersistentMapping(word=password)",
        "context['ann'] = PersistentMapping(word=hash_password(password))",
        "PersistentMapping.password keeps a password as it was sent",
        "context, request, password: str",
        asked=(("POST", "/n", b"password=wonderland", FORM),),
    ),
    "a password that is a name, too": Mistake(
        "context['ann'] = PersistentMapping(word=password)",
        "context['ann'] = PersistentMapping(login=login)",
        "PersistentMapping.password keeps a password as it was sent",
        "context, request, password: str, login: str = 'ann'",
        asked=(("POST", "/n", b"password=wonderland", FORM),),
        rightly=(("POST", "/n", b"password=ann&login=ann", FORM),),
    ),
    "a name without an address": Mistake(
        f"{NOTE.format('a/b')}\nnote.__name__ = 'a/b'",
        f"{NOTE.format('a-b')}\nnote.__name__ = 'a-b'",
        "an object of Note has the __name__ 'a/b', which no address leads to",
    ),
    "columns that are dropped": Mistake(
        "request.sql.scalars(select(Task.id, Task.title).order_by(Task.id)).all()",
        "request.sql.execute(select(Task.id, Task.title)).all()\nrequest.sql.scalars(select(Task)).all()",
        "has several columns, and scalars() drops all but the first",
    ),
    "a name that is deleted": Mistake(
        "note = context.get('a')\ndel note\nreturn redirect('/', 303)",
        "note = context.get('a')\nreturn redirect('/', 303)",
        "no line of n has changed an object that the database keeps",
        NO_FIELD,
        status=303,
    ),
    "a text for a number": Mistake(
        "context.count = title", "context.count = len(title)", "Site.count is stored as a str, and its type is int"
    ),
    "a text for a number of a class": Mistake(
        "context['a'] = note = Note('a')\nnote.stars = title",
        "context['a'] = note = Note('a')\nnote.stars = len(title)\nnote.text = title",
        "Note.stars is stored as a str, and its type is int",
    ),
    "a local time": Mistake(
        "context.made = datetime.now()", "context.made = datetime.now(UTC)", "datetime.now() has no zone"
    ),
    "None in a page": Mistake(
        "context.subtitle = None\nreturn f'<p>{context.subtitle}</p>'",
        "context.subtitle = None\nreturn f'<p>{context.subtitle or str()}</p>'",
        "the page shows None, which is the value of subtitle",
    ),
    "a list in a page": Mistake(
        "return Markup('<p>{}</p>').format(str([title]))",
        "return Markup('<pre>{}</pre>').format(str([title]))",
        "as Python writes it",
    ),
    "a feed as a page": Mistake(
        "return '<?xml version=\"1.0\"?>\\n<rss><channel></channel></rss>'",
        "return '<?xml version=\"1.0\"?>\\n<!-- a page -->\\n<!DOCTYPE html>\\n<html><p>a page</p></html>'",
        "XML is sent as text/html",
    ),
    "a kept page with the time": Mistake(
        "request.keep = 60\nreturn f'<p>{datetime.now(UTC)}'",
        "request.keep = 60\nreturn f'<p>{context.made.time()}'",
        "request.keep = 60 promises a page of the database alone",
    ),
    "a token in the log": Mistake(
        "token = title\nlogging.getLogger('site').info(f'a login by {token}')",
        "token = title\nlogging.getLogger('site').info(f'a login by {len(token)} letters')",
        "writes each field into the log, also a password or the token of a form",
    ),
    "a cookie for scripts": Mistake(
        "response.set_cookie('session_id', secrets.token_hex())",
        "response.set_cookie('author', 16 * 'a')\n"
        "response.set_cookie('session_id', secrets.token_hex(), httponly=True)",
        "each script of a page can read the cookie 'session_id'",
        "context, request, response, title: str",
    ),
    "a text that is escaped": Mistake(
        "response.content_type = 'text/plain'\nreturn escape('R&D')",
        "response.content_type = 'text/plain'\nreturn 'R&D; <b>&amp;</b>'",
        "the text was escaped as HTML",
        "context, request, response, title: str",
    ),
    "a page by a header": Mistake(
        "response.cache_control.public = True\n"
        "if 'de' in request.headers.get('Accept-Language', ''):\n    return '<p>Ja'",
        "response.cache_control.public = True\nresponse.vary = ['Accept-Language']\n"
        "if 'de' in request.headers.get('Accept-Language', ''):\n    return '<p>Ja'",
        "or who has sent this header",
        "context, request, response, title: str",
    ),
    "a header that nothing knows": Mistake(
        "response.headers['Cache-Contol'] = 'no-store'",
        "response.headers['Cache-Control'] = 'no-store'\nresponse.headers['X-Version'] = '1'",
        "no browser and no cache knows the header 'Cache-Contol'. Did you mean 'Cache-Control'?",
        "context, request, response, title: str",
    ),
    "a task of a queue": Mistake(
        "context.title = title\nSimpleNamespace(delay=len).delay(title)",
        "context.title = title\nrequest.after_commit(SimpleNamespace(delay=len).delay, title)",
        "sends it before the changes are stored",
    ),
    "a job whose error nobody sees": Mistake(
        "pool = ThreadPoolExecutor(1)\npool.submit(len, title)",
        "pool = ThreadPoolExecutor(1)\ncontext.count = pool.submit(len, title).result()\n"
        "request.after_commit(pool.submit, len, title)",
        "pool.submit(len, title) drops the future that it returns",
    ),
    "a form with PATCH, into a mapping": Mistake(
        "context.content = PersistentMapping()\ncontext.content.update(changes.model_dump())",
        "context.content = PersistentMapping()\ncontext.content.update(changes.model_dump(exclude_unset=True))",
        "changes.model_dump() has the defaults of the fields that were not sent",
        "context, request, changes: Change",
        (("PATCH", "/n", b'{"title": "new"}', "application/json"),),
    ),
    "an item that is replaced": Mistake(
        ADDED,
        f"if title in context:\n    return '<p>taken'\n{ADDED}",
        "the new item 'new' of Site has replaced another one, which is lost",
        asked=(POST, POST),
    ),
    "an object in two places": Mistake(
        f"{PLACES}else:\n    note.__parent__ = box\n    box[title] = note",
        f"{PLACES}else:\n    note.__parent__ = box\n    box[title] = context.pop(title)",
        "an object of Note has another __parent__ now, and the one before still has it under 'new'",
        asked=(POST, POST),
    ),
    "an attribute that __getstate__ leaves out": Mistake(
        "context['new'] = card = Card(title)\ncard.__parent__, card.color = context, 'blue'",
        "context['new'] = card = Card(title)\ncard.__parent__, card.size, card._kept = context, len(title), 'blue'",
        "Card is left out by __getstate__, and is gone when the object is loaded again",
    ),
    "half of a change": Mistake(
        "try:\n    context.title = title\n    context.count = int(title)\nexcept Exception:\n    return '<p>Sorry'",
        "try:\n    context.count = int(title)\nexcept Exception:\n    context.title = title\n    return '<p>Sorry'",
        "every exception is swallowed here: what was changed before it is stored all the same",
    ),
    "a return in finally": Mistake(
        "try:\n    context.title = title\n    context.count = int(title)\nfinally:\n    return '<p>saved'",
        "try:\n    context.title = title\n    context.count = len(title)\nfinally:\n    logging.debug('done')",
        "every exception is swallowed here",
    ),
    "a method in small letters": Mistake(
        "if request.method == 'Post':\n    context.title = title",
        "if request.method == 'POST':\n    context.title = title",
        "request.method == 'Post' compares with a method that there is not",
    ),
    "a generator that a template asks for": Mistake(
        f"{ASKED}notes = (note for note in context.values() if note.title == title)\n"
        "return render('asked.html', notes=notes, others=(), found=1)",
        f"{ASKED}notes = [note for note in context.values() if note.title == title]\n"
        "return render('asked.html', notes=notes, others=reversed(notes), found=context.filter(title))\n"
        "return render('not-there.html', notes=map(len, notes))",
        "notes is true, whatever is in it, and can be read once: asked.html asks by if",
    ),
    "a result that a template asks for": Mistake(
        f"{ASKED}return render('asked.html', notes=request.sql.scalars(select(Task)), others=(), found=0)",
        f"{ASKED}return render('asked.html', notes=request.sql.scalars(select(Task)).all(), others=(), found=0)",
        "notes is true, whatever is in it, and can be read once",
    ),
}
"""One more, a relative path of ``sql``, is told by ``pipeline check``, in ``tests/tools/test_mistakes.py``."""


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    before = locale.setlocale(locale.LC_ALL)  # one of the mistakes is to set it: later tests read files by it
    yield
    locale.setlocale(locale.LC_ALL, before)
    close_all()
    sql_databases.close_all()


def answers(name: str, which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the statuses of the requests for a mistake, or for the right way."""
    mistake = MISTAKES[name]
    module = re.sub(r"\W", "_", f"views_{name}_{which}_{tmp_path.name}")
    lines = f"{getattr(mistake, which)}\nreturn '<p>saved'".splitlines()
    body = "".join(f"    {line}\n" for line in lines)
    renames = "context.__name__ = title" if which == "wrong" else RENAME
    code = f'\n@view(context=Site, name="n", methods=("POST", "PATCH"))\ndef n({mistake.takes}):\n{body}'
    made = "datetime.now()" if name == "a default of a class" and which == "wrong" else "None"
    site = SITE.replace("    RENAME", f"    {renames}").replace("MADE", made)
    source = (site + code).replace("TMP/", f"{tmp_path}/")
    (tmp_path / f"{module}.py").write_text(source.replace('"TMP"', repr(str(tmp_path))))
    monkeypatch.syspath_prepend(str(tmp_path))
    url = f"sqlite:///{tmp_path}/site.db"
    engine = create_engine(url)
    loaded: Any = importlib.import_module(module)
    loaded.Base.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO tasks VALUES (1, 'a', 0, 0)")
        connection.exec_driver_sql("INSERT INTO counted VALUES (1, 0, 1)")
    engine.dispose()
    database = (retry(delay=0), zodb(uri=f"file://{tmp_path}/Data.fs", root=loaded.root), sql(url=url))
    login = authenticate(check=lambda request, login, password: login, undeclared="allow")
    inner = (session(keys=f"{tmp_path}/keys"), forms(), login, keep(), traverse())
    scan = (module, "pipeline.publishing.pydantic", "pipeline.publishing.json")
    app = Pipeline(*database, errors(debug=True), transaction(), *inner, publisher(scan=scan))
    asking.ask(app, "/")
    return [
        asking.ask(app, path, method, body, CONTENT_TYPE=kind).status
        for method, path, body, kind in (mistake.rightly if which == "right" else ()) or mistake.asked
    ]


def test_a_field_without_values_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Such as a list of JSON, or a field with a converter. One value is not several."""
    nothing = ("POST", "/n", b"tags:tokens=&title=new", FORM)
    row = MISTAKES["one of several"]._replace(wrong="context.tags = request.form['tags']", asked=(nothing,))
    monkeypatch.setitem(MISTAKES, "one of several", row)
    assert answers("one of several", "wrong", tmp_path, monkeypatch) == [200]
    assert [record for record in caplog.records if record.name == "pipeline.notices"] == []


@pytest.mark.filterwarnings("ignore:coroutine 'notify' was never awaited")
# Python 3.14 warns of it, too (PEP 765).
@pytest.mark.filterwarnings("ignore:'return' in a 'finally' block:SyntaxWarning")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mistake = MISTAKES[name]
    assert answers(name, "wrong", tmp_path, monkeypatch)[-1] == mistake.status
    page, _, words = mistake.told.rpartition("docs: ")
    if words != mistake.told:
        assert (page, caplog.text) == ("", "") and words in (DOCS / "stored.rst").read_text("utf-8")
    else:
        assert mistake.told in caplog.text
        assert "could not be found out" not in caplog.text


@pytest.mark.parametrize("name", MISTAKES)
def test_the_right_way_is_quiet(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert answers(name, "right", tmp_path, monkeypatch)[-1] in (200, 303)
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


@pytest.mark.parametrize(
    ("lines", "is_weak", "is_told"),
    [
        (f"{TASK}task.count += 1", True, True),
        (f"{TASK}task.count = task.count + 1", True, True),
        (f"{TASK}task.count += 1", False, False),
        (f"{TASK}task.count = Task.count + 1", True, False),
        (f"{TASK}task.count = len(title)", True, False),
        ("task = request.sql.get(Task, 1, with_for_update=True)\ntask.count += 1", True, False),
        ("task = request.sql.get(Counted, 1)\ntask.count += 1", True, False),
        ("task = context\ntask.count += 1", True, False),
        (f"{TASK}task.title = title\nnew = Task(title='a', count=1)\nnew.count += 1", True, False),
    ],
)
def test_a_row_that_two_requests_change(
    lines: str, is_weak: bool, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Two of them may read the same number, and one of both sums is lost."""
    monkeypatch.setattr("pipeline.explaining.notices_of_sql.is_weak", lambda session: is_weak)
    monkeypatch.setitem(MISTAKES, "a sum", Mistake(lines, "", ""))
    assert answers("a sum", "wrong", tmp_path, monkeypatch) == [200]
    found = [record.getMessage() for record in caplog.records if record.name == "pipeline.notices"]
    assert len(found) == is_told and all("task.count is read, computed and stored" in one for one in found), found
