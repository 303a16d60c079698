"""Charts as SVG: bars, and lines over a logarithmic scale.

Attributes only, no style sheet and no script, so that a site with a strict content policy shows them too; no
background, and a grey that can be read on white and on black.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape

from bench.show import number

COLOURS = ("#3b76b8", "#d9822b", "#4f9d55", "#b5527c", "#7c6bb0", "#8a8a3a", "#4aa3a8", "#9a6b4b")
GREY = "#808080"
WIDTH, LABELS, LINE = 760, 270, 18
"""Pixels: of the chart, of the names at its left, and from one line of text to the next."""


def bars(title: str, unit: str, groups: Mapping[str, Mapping[str, float]], log: bool = False) -> str:
    """A group of bars for each name; within, one for each series. On a logarithmic scale, dots."""
    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    values = [value for group in groups.values() for value in group.values()]
    low = 10 ** math.floor(math.log10(min(values))) if log else 0.0
    high = max(values)
    room = WIDTH - LABELS - 80

    def length(value: float) -> float:
        return room * (math.log(value / low) / math.log(high / low) if log else value / high)

    shapes = []
    y = 2 * LINE
    if series != [""]:
        for index, name in enumerate(series):
            shapes += [_rect(LABELS, y - 10, 10, 10, index), _text(LABELS + 14, y, name)]
            y += LINE
        y += 6
    for name, group in groups.items():
        shapes.append(_text(LABELS - 8, y + 4 + (len(group) - 1) * LINE / 2, name, "end"))
        for label, value in group.items():
            end = LABELS + length(value)
            index = series.index(label)
            if log:
                shapes.append(_line([(LABELS, y), (end, y)], GREY, 0.5))
                shapes.append(_circle(end, y, index))
            else:
                shapes.append(_rect(LABELS, y - 6, length(value), 12, index))
            shapes.append(_text(end + 8, y + 4, number(value)))
            y += LINE
        y += 6 if len(series) > 1 else 0
    scale = f"{unit}, logarithmic" if log else unit
    return _svg(f"{title} ({scale})", y, shapes)


def curves(title: str, x_unit: str, unit: str, series: Mapping[str, Mapping[float, float]]) -> str:
    """A line for each series, of values over sizes; both scales are logarithmic."""
    xs = [x for points in series.values() for x in points]
    ys = [y for points in series.values() for y in points.values()]
    left, top, right, bottom = 60, 2 * LINE, WIDTH - 230, 380

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / min(xs)) / math.log(max(xs) / min(xs))
        up = math.log(y / min(ys)) / math.log(max(ys) / min(ys))
        return left + across * (right - left), bottom - up * (bottom - top)

    shapes = []
    for size in _powers(min(xs), max(xs)):
        across, _ = place(size, min(ys))
        anchor = "middle" if across < right else "end"  # the names of the lines begin there
        shapes.append(_line([(across, top), (across, bottom)], GREY, 0.3))
        shapes.append(_text(across, bottom + LINE, f"{size:,}", anchor))
    for value in _powers(min(ys), max(ys)):
        _, up = place(min(xs), value)
        shapes += [_line([(left, up), (right, up)], GREY, 0.3), _text(left - 6, up + 4, f"{value:,}", "end")]
    shapes.append(_text((left + right) / 2, bottom + 2 * LINE, x_unit, "middle"))
    lowest: float = top
    ends = sorted((place(*list(points.items())[-1])[1], name) for name, points in series.items())
    for up, name in ends:
        index = list(series).index(name)
        points = [place(*point) for point in series[name].items()]
        shapes.append(_line(points, COLOURS[index % len(COLOURS)], 2))
        shapes += [_circle(*point, index) for point in points]
        lowest = max(lowest, up)
        shapes.append(_line([points[-1], (right + 12, lowest)], GREY, 0.5))
        shapes.append(_text(right + 16, lowest + 4, name))
        lowest += LINE
    return _svg(f"{title} ({unit}, both scales logarithmic)", max(bottom + 2 * LINE, lowest), shapes)


def _powers(low: float, high: float) -> Iterator[int | float]:
    for exponent in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        yield 10**exponent


def _svg(title: str, height: float, shapes: list[str]) -> str:
    size = f'width="{WIDTH}" height="{height + LINE:.0f}" viewBox="0 0 {WIDTH} {height + LINE:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif" font-size="12">'
    heading = f'<text x="0" y="14" fill="{GREY}" font-size="14">{escape(title)}</text>'
    return "\n".join((head, f"<title>{escape(title)}</title>", heading, *shapes, "</svg>", ""))


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{GREY}" text-anchor="{anchor}">{escape(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, colour: int) -> str:
    fill = COLOURS[colour % len(COLOURS)]
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{fill}"/>'


def _circle(x: float, y: float, colour: int) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[colour % len(COLOURS)]}"/>'


def _line(points: list[tuple[float, float]], colour: str, width: float) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
