"""A site for the tests of OpenAPI: a to-do list with models."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

from pydantic import BaseModel, Field

from pipeline import view
from pipeline.auth.policy import LocalGrants
from pipeline.forms.upload import Upload
from pipeline.interfaces import PUBLIC


class NewTask(BaseModel):
    text: Annotated[str, Field(min_length=1, max_length=80)]
    priority: Literal["low", "high"] = "low"


class Task(NewTask):
    id: UUID
    done: bool = False


class Filter(BaseModel):
    done: bool | None = None
    limit: Annotated[int, Field(gt=0, le=100)] = 10


class Todos(dict[str, "Todo"]):
    def __getitem__(self, name: str) -> Todo:
        return super().__getitem__(name)


class Todo(dict[str, "Note | Picture"]):
    def __init__(self, task: Task) -> None:
        self.task = task

    def __getitem__(self, name: str) -> Note | Picture:
        return super().__getitem__(name)


class Note:
    """No container."""


class Picture:
    """Not one either."""


class Unknown:
    def __getitem__(self, name: str):  # type: ignore[no-untyped-def]
        raise KeyError(name)


TODOS = Todos()


def root(database: Any) -> Todos:
    return TODOS


@view(context=Todos, permission=PUBLIC)
def list_tasks(todos: Todos, request: Any, asked: Filter) -> list[Task]:
    """List the tasks.

    And more words.
    """
    tasks = [todo.task for todo in todos.values() if asked.done in (None, todo.task.done)]
    return tasks[: asked.limit]


@view(context=Todos, methods=("POST",), permission=PUBLIC)
def add(todos: Todos, request: Any, task: NewTask) -> Task:
    """Add a task."""
    made = Task(id=uuid4(), **task.model_dump())
    todos[str(made.id)] = Todo(made)
    return made


@view(context=Todo, permission=PUBLIC)
def read(todo: Todo, request: Any) -> Task:
    return todo.task


@view(context=Todo, methods=("PATCH",), permission="edit")
def change(todo: Todo, request: Any, tags: list[str], text: str | None = None, done: bool | None = None) -> Task:
    todo.task.done = bool(done)
    return todo.task


@view(context=Todo, name="picture", methods=("PUT", "POST"), permission=PUBLIC)
def upload(todo: Todo, request: Any, file: Upload, count: int = 1) -> dict[str, int]:
    return {"bytes": count}


@view(context=Note, permission=PUBLIC)
def note(note: Note, request: Any) -> str:
    return "note"


@view(context=dict, name="size", permission=PUBLIC)
def size(folder: Any, request: Any) -> dict[str, int]:
    return {"size": len(folder)}


@view(context=Todo, name="size", permission=PUBLIC)
def nearer(folder: Any, request: Any):  # type: ignore[no-untyped-def]
    return {"size": 7}


@view(context=Unknown, permission=PUBLIC)
def unknown(context: Any, request: Any) -> str:
    return ""


def grants() -> LocalGrants:
    return LocalGrants()


def make() -> Todos:
    return TODOS
