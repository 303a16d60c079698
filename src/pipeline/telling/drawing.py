"""The drawing of ``pipeline show --svg``: each part is a frame around the parts that are inside of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

HEAD = 44
"""Height of the two lines of text of a part."""
INSET = 10
"""Distance between two frames, one inside of the other."""
LABEL = 26
"""Height of the condition above a branch."""
MARGIN = 46
"""Room for the rails at both sides."""
NARROWEST = 330
"""Width of the innermost frame."""
LETTER = 6.4
"""Width of a letter of the small text, at most, on average."""

STYLE = """\
.pipeline-drawing { --ink: #1b1f24; --dim: #57606a; --line: #57606a; --paper: #ffffff; --fill: #f6f8fa;
  --strange: #fff8c5; font-family: system-ui, sans-serif }
@media (prefers-color-scheme: dark) { .pipeline-drawing { --ink: #e6edf3; --dim: #9da7b3; --line: #8b949e;
  --paper: #0d1117; --fill: #161b22; --strange: #3a2f12 } }
.pipeline-drawing .paper { fill: var(--paper) }
.pipeline-drawing .part { fill: var(--fill); stroke: var(--line) }
.pipeline-drawing .foreign { fill: var(--strange); stroke-dasharray: 6 4 }
.pipeline-drawing .rail { stroke: var(--line); stroke-width: 2; fill: none }
.pipeline-drawing .head { fill: var(--line); stroke: none }
.pipeline-drawing text { fill: var(--ink); font-size: 15px }
.pipeline-drawing .name { font-weight: 600 }
.pipeline-drawing .dim { fill: var(--dim); font-size: 12px }"""


class Part:
    """A part of one or more pipelines, with the parts that are inside of it."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.inner: list[Part] = []
        self.conditions: list[str] = []
        """The lines of a switch that lead here, if the parts outside lead elsewhere, too."""

    @property
    def labelled(self) -> bool:
        """True if the parts inside have conditions above them."""
        return any(part.conditions for part in self.inner)

    @property
    def width(self) -> float:
        inner = sum(part.width for part in self.inner) + INSET * (len(self.inner) - 1)
        return max(NARROWEST, inner) + 2 * INSET

    @property
    def height(self) -> float:
        if not self.inner:
            return HEAD
        return HEAD + LABEL * self.labelled + max(part.height for part in self.inner) + INSET


def tree_of(chains: Sequence[dict[str, Any]]) -> Part:
    """Return the parts of all pipelines of an ini below one part, which stands for the server."""
    top = Part({"name": "", "where": ""})
    for chain in chains:
        place = top
        for told in chain["parts"]:
            known = next((part for part in place.inner if part.told["where"] == told["where"]), None)
            if known is None or known.told["name"] != told["name"]:
                known = Part(told)
                place.inner.append(known)
            known.conditions.append(chain["condition"])
            place = known
    _forget_shared(top)
    return top


def _forget_shared(part: Part) -> None:
    """Leave a condition only where the way of a request divides."""
    for inner in part.inner:
        inner.conditions = inner.conditions if len(part.inner) > 1 else []
        _forget_shared(inner)


def drawing(chains: Sequence[dict[str, Any]], title: str) -> str:
    """Return the SVG of the pipelines that ``pipeline.tools.show.described`` has described."""
    top = tree_of(chains)
    width = top.width + 2 * MARGIN - 2 * INSET
    height = top.height - HEAD + 2 * INSET
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pipeline-drawing" role="img" '
        f'aria-labelledby="pipeline-title pipeline-desc" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}">',
        f'<title id="pipeline-title">{escape(title)}</title>',
        f'<desc id="pipeline-desc">{escape(" ".join(sentences(chains)))}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width:g}" height="{height:g}"/>',
        *rail(18, INSET, height - INSET, "request"),
        *rail(width - 18, height - INSET, INSET, "answer"),
        *inside(top, MARGIN, INSET),
        "</svg>",
    ]
    return "\n".join(lines)


def sentences(chains: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield what the drawing shows, in words."""
    for chain in chains:
        names = [part["name"] + (" (foreign)" if part["foreign"] else "") for part in chain["parts"]]
        branch = f" of the branch {chain['condition']}" if chain["condition"] else ""
        yield f"A request{branch} passes, from the outside to the inside: {', '.join(names)}."


def rail(x: float, start: float, end: float, name: str) -> Iterator[str]:
    """Yield an arrow at one side."""
    step = 8 if end > start else -8
    middle = (start + end) / 2
    yield f'<path class="rail" d="M{x:g} {start:g}V{end - step:g}"/>'
    yield f'<path class="head" d="M{x - 5:g} {end - step:g}h10l-5 {step}z"/>'
    turn = f"rotate(-90 {x - 6:g} {middle:g})" if step > 0 else f"rotate(90 {x + 6:g} {middle:g})"
    place = x - 6 if step > 0 else x + 6
    yield f'<text class="dim" text-anchor="middle" x="{place:g}" y="{middle:g}" transform="{turn}">{name}</text>'


def inside(part: Part, x: float, y: float) -> Iterator[str]:
    """Yield the parts inside of a part, side by side, from a corner on."""
    height = max((one.height for one in part.inner), default=0)
    for one in part.inner:
        width = one.width if len(part.inner) > 1 else part.width - 2 * INSET
        if one.conditions:
            yield from text("dim", x, y + LABEL - 8, "; ".join(filter(None, one.conditions)), width)
        yield from frame(one, x, y + LABEL * part.labelled, width, height)
        x += width + INSET


def frame(part: Part, x: float, y: float, width: float, height: float) -> Iterator[str]:
    """Yield the frame of a part and all that is inside of it."""
    told = part.told
    foreign = " foreign" if told["foreign"] else ""
    yield f"<g><title>{escape(hint(told))}</title>"
    yield f'<rect class="part{foreign}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>'
    yield from text("name", x + INSET, y + 19, told["name"], width)
    yield from text("dim", x + INSET, y + 36, told["what"].replace("``", ""), width)
    yield from inside(part, x + INSET, y + HEAD)
    yield "</g>"


def hint(told: dict[str, Any]) -> str:
    """Return all that is known of a part: what it does, its options, and what holds it at its place."""
    options = [f"{name} = {value}" for name, value in told["options"].items()]
    held = [f"stands {rule}" for rule in told.get("held", ())]
    return "\n".join([f"{told['name']}: {told['what']}", *options, *held, told["where"]])


def text(kind: str, x: float, y: float, words: str, width: float) -> Iterator[str]:
    """Yield a line of text, cut to a width."""
    most = int((width - 2 * INSET) / LETTER)
    shown = words if len(words) <= most else f"{words[: most - 1].rstrip()}…"
    yield f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(shown)}</text>'
