"""A shop in an SQL database: products with a stock, and orders that belong to their owners."""

from __future__ import annotations

from html import escape
from typing import Any

from sqlalchemy import ForeignKey, String, func, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, joinedload, mapped_column, relationship
from webob.exc import HTTPBadRequest, HTTPNotFound

from pipeline import Request, redirect, view
from pipeline.elements.sql import SqlRequest
from pipeline.promises import belongs_to, invariant

SEEN: dict[str, str] = {}
CACHE: dict[str, str] = {}
LISTENERS: list[Any] = []


class Base(DeclarativeBase):
    pass


class Product(Base):
    __tablename__ = "product"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(60))
    stock: Mapped[int]
    price: Mapped[float]


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(String(60))
    product_id: Mapped[int] = mapped_column(ForeignKey(Product.id))
    count: Mapped[int]
    paid: Mapped[float]
    note: Mapped[str] = mapped_column(String(2000))
    product: Mapped[Product] = relationship()


class Shop:
    """The root."""

    __parent__ = None
    __name__ = None

    def __init__(self, request: SqlRequest) -> None:
        self.request = request

    def __getitem__(self, name: str) -> Any:
        if name == "orders":
            return Orders(self.request)
        raise KeyError(name)


class Orders:
    """The folder of all orders."""

    def __init__(self, request: SqlRequest) -> None:
        self.request = request

    def __getitem__(self, name: str) -> Order:
        found = self.request.sql.get(Order, int(name)) if name.isdigit() and len(name) < 9 else None
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Any:
        return (str(number) for number in self.request.sql.scalars(select(Order.id).order_by(Order.id)))


def root(request: SqlRequest) -> Shop:
    return Shop(request)


def page(title: str, body: str) -> str:
    return f"<!doctype html><html lang=en><title>{escape(title)}</title><body>{body}</body></html>"


def order_of(order: Order, user: str | None) -> Order:
    if user is None or order.owner != user:
        raise HTTPNotFound
    return order


@invariant
def stock_is_not_negative(session: Any) -> bool:
    return (session.scalar(select(func.min(Product.stock))) or 0) >= 0


@invariant
def counts_are_positive(session: Any) -> bool:
    return (session.scalar(select(func.min(Order.count))) or 1) > 0


@invariant
def nothing_is_made_or_lost(session: Any) -> bool:
    ordered = session.scalar(select(func.sum(Order.count))) or 0
    return bool((session.scalar(select(func.sum(Product.stock))) or 0) + ordered == 30)


@invariant
def orders_are_paid(session: Any) -> bool:
    rows = session.execute(select(Order.count, Order.paid, Product.price).join(Product))
    return all(abs(count * price - paid) < 0.001 for count, paid, price in rows)


@view(context=Shop)
def index(shop: Shop, request: SqlRequest) -> str:
    rows = request.sql.scalars(select(Product).order_by(Product.id)).all()
    items = "".join(
        f"<li>{escape(one.name)}: {one.stock}"
        f"<form action=/@@order method=post><input name=product type=hidden value={one.id}>"
        f"<input name=count value=1><input name=note><button>order</button></form></li>"
        for one in rows
    )
    return page("Shop", f"<ul>{items}</ul><a href=/@@mine>my orders</a> <a href='/@@find?text=tea'>tea</a>")


@view(context=Shop, name="order", methods=("POST",))
def order(shop: Shop, request: SqlRequest, product: int, count: int, note: str = "") -> Any:
    user = request.principal
    if user is None:
        raise HTTPBadRequest("log in first")
    if not 1 <= count <= 10:
        raise HTTPBadRequest("from 1 to 10")
    taken = request.sql.execute(
        update(Product).where(Product.id == product, Product.stock >= count).values(stock=Product.stock - count)
    )
    if not taken.rowcount:
        raise HTTPBadRequest("there are not so many")
    price = request.sql.scalars(select(Product.price).where(Product.id == product)).one()
    made = Order(owner=user, product_id=product, count=count, paid=count * price, note=note[:2000])
    request.sql.add(made)
    request.sql.flush()
    return redirect(f"/orders/{made.id}")


@view(context=Shop, name="mine")
def mine(shop: Shop, request: SqlRequest) -> str:
    mine = select(Order).where(Order.owner == (request.principal or "")).options(joinedload(Order.product))
    rows = request.sql.scalars(mine.order_by(Order.id)).all()
    items = "".join(f"<li><a href=/orders/{one.id}>{escape(one.product.name)}</a></li>" for one in rows)
    return page("My orders", f"<ul>{items}</ul>")


@view(context=Shop, name="find")
def find(shop: Shop, request: SqlRequest, text: str = "") -> str:
    found = select(Product).where(Product.name.contains(text[:60], autoescape=True)).order_by(Product.id)
    rows = request.sql.scalars(found).all()
    return page("Found", f"<p>{escape(text)}: {', '.join(escape(one.name) for one in rows)}</p><a href=/>all</a>")


@view(context=Order)
@belongs_to(lambda order: order.owner)
def show(order: Order, request: Request) -> str:
    order_of(order, request.principal)
    return page(
        f"Order {order.id}",
        f"<p>{order.count} of {escape(order.product.name)} for {escape(order.owner)}: {order.paid}</p>"
        f"<pre>{escape(order.note)}</pre><form action=/orders/{order.id}/@@note method=post>"
        f"<textarea name=note>{escape(order.note)}</textarea><button>save</button></form>"
        f"<form action=/orders/{order.id}/@@cancel method=post><button>cancel</button></form><a href=/>shop</a>",
    )


@view(context=Order, name="note", methods=("POST",))
@belongs_to(lambda order: order.owner)
def note(order: Order, request: Request, note: str = "") -> Any:
    order_of(order, request.principal).note = note[:2000]
    return redirect(f"/orders/{order.id}")


@view(context=Order, name="cancel", methods=("POST",))
@belongs_to(lambda order: order.owner)
def cancel(order: Order, request: SqlRequest) -> Any:
    order_of(order, request.principal)
    order.product.stock += order.count
    request.sql.delete(order)
    return redirect("/@@mine")

