"""``pipeline show --svg``: the drawing of a pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tools.conftest import CODE, INI, Site

TOP = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def drawn(run: Callable[..., Any]) -> Callable[[Path], ElementTree.Element]:
    """``drawn(ini)``: the drawing, as XML."""

    def drawn(ini: Path) -> ElementTree.Element:
        status, said = run("show", str(ini), "--svg")
        assert status == 0
        return ElementTree.fromstring(said)

    return drawn


def box(part: ElementTree.Element) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the frame of a part."""
    rect = part.find(f"{SVG}rect")
    assert rect is not None
    x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def names(part: ElementTree.Element) -> list[Any]:
    """The name of a part and those of the parts inside of it, after a check that their frames are inside."""
    title = part.findtext(f"{SVG}title") or ""
    inner = part.findall(f"{SVG}g")
    left, top, right, bottom = box(part)
    for number, one in enumerate(inner):
        x, y, end, low = box(one)
        assert left < x < end < right and top < y < low < bottom
        assert all(end <= box(other)[0] for other in inner[number + 1 :]), "side by side"
    return [title.partition(":")[0], *map(names, inner)]


def test_each_part_is_a_frame_around_the_parts_inside(site: Site, drawn: Callable[..., Any]) -> None:
    [part] = drawn(site.ini).findall(f"{SVG}g")
    assert names(part) == ["errors", ["traverse", ["publisher"]]]


def test_branches_stand_side_by_side(drawn: Callable[..., Any]) -> None:
    svg = drawn(TOP / "etc" / "all.ini")
    [part] = svg.findall(f"{SVG}g")
    text = [one.text for one in svg.iter(f"{SVG}text")]
    assert text.count("publisher") == 4
    assert text.count("log") == 1, "what all branches share is drawn once"
    assert "calls method=POST type=text/xml" in [" ".join(str(one).split()) for one in text]
    flat = str(names(part))
    assert flat.index("transaction") < flat.index("authenticate")


def test_a_foreign_middleware_is_marked(site: Site, drawn: Callable[..., Any]) -> None:
    ini = INI.replace("errors traverse", "errors outer traverse")
    site.write(
        f"{ini}\n[filter:outer]\npaste.filter_app_factory = MODULE:outer\n",
        CODE + "\n\ndef outer(app, global_conf):\n    return app\n",
    )
    svg = drawn(site.ini)
    kinds = {
        g.findtext(f"{SVG}title").partition(":")[0]: g.find(f"{SVG}rect").get("class") for g in svg.iter(f"{SVG}g")
    }
    assert kinds == {"errors": "part", "outer": "part foreign", "traverse": "part", "publisher": "part"}
    assert "outer (foreign), traverse" in svg.findtext(f"{SVG}desc")


def test_it_is_read_aloud_and_needs_no_other_file(drawn: Callable[..., Any], run: Callable[..., Any]) -> None:
    ini = TOP / "etc" / "deploy.ini"
    svg = drawn(ini)
    assert svg.get("role") == "img"
    assert svg.get("aria-labelledby") == f"{svg.find(f'{SVG}title').get('id')} {svg.find(f'{SVG}desc').get('id')}"
    assert svg.findtext(f"{SVG}desc").startswith(
        "A request passes, from the outside to the inside: log, vhost, shield, retry"
    )
    text = run("show", str(ini), "--svg")[1]
    assert re.findall(r"\b(?:href|src)\s*=\s*[\"']|url\(|@import", text) == []
    assert "<script" not in text


def luminance(colour: str) -> float:
    """The relative luminance of a colour (WCAG 2.2)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_it_can_be_read_in_light_and_dark(mode: str) -> None:
    """Text has a contrast of 4.5 to what is behind it."""
    from pipeline.telling.drawing import STYLE

    light, _, dark = STYLE.partition("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--(\w+): (#\w{6})", light if mode == "light" else dark))
    assert set(colours) == {"ink", "dim", "line", "paper", "fill", "strange"}
    for front in ("ink", "dim"):
        for back in ("paper", "fill", "strange"):
            one, other = sorted((luminance(colours[front]), luminance(colours[back])))
            assert (other + 0.05) / (one + 0.05) >= 4.5, (front, back)


def test_what_the_ini_says_is_escaped__S7(site: Site, drawn: Callable[..., Any]) -> None:
    site.write(
        INI.replace("[app:publisher]", "[filter:base]\nuse = egg:wsgi-pipeline#base\n\n[app:publisher]").replace(
            "errors traverse", "errors traverse base"
        ),
        CODE,
    )
    text = [one.text for one in drawn(site.ini).iter(f"{SVG}text")]
    assert any('<base href="' in str(one) for one in text)
