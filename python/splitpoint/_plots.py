"""Tables and plots in HTML and SVG for notebooks, as plain text: they need no other library."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

_WIDTH, _HEIGHT, _MARGIN = 560, 220, 40
_COLORS = ("#2166ac", "#d6604d", "#4d9221", "#762a83", "#e08214", "#35978f", "#8c510a", "#c51b7d", "#636363")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as an HTML table."""
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return html.escape(str(value))


def _figure(inside: str, across: str, up: str) -> str:
    middle = 'text-anchor="middle" fill="currentColor"'
    axes = (
        f'<path d="M{_MARGIN},0V{_HEIGHT - _MARGIN}H{_WIDTH}" fill="none" stroke="currentColor"/>'
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 6}" {middle}>{html.escape(across)}</text>'
        f'<text x="12" y="{_HEIGHT / 2}" transform="rotate(-90 12 {_HEIGHT / 2})" {middle}>{html.escape(up)}</text>'
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" font-size="11" '
        f'xmlns="http://www.w3.org/2000/svg">{axes}{inside}</svg>'
    )


def histogram(rows: Sequence[tuple[int, int, float]]) -> str:
    """Bars for (size, buckets), and dots for the expectation of the random model."""
    if not rows:
        return ""
    top = max(max(buckets, expected) for _, buckets, expected in rows) or 1
    first, last = rows[0][0], rows[-1][0]
    step = (_WIDTH - _MARGIN - 10) / (last - first + 1)

    def height(number: float) -> float:
        return (_HEIGHT - _MARGIN - 5) * number / top

    parts = []
    for size, buckets, expected in rows:
        x, base = _MARGIN + 5 + (size - first) * step, _HEIGHT - _MARGIN
        parts.append(
            f'<rect x="{x:.1f}" y="{base - height(buckets):.1f}" width="{max(step - 1, 1):.1f}" '
            f'height="{height(buckets):.1f}" fill="{_COLORS[0]}"><title>{size} keys: {buckets} buckets, '
            f"{expected:.1f} expected</title></rect>"
            f'<circle cx="{x + step / 2:.1f}" cy="{base - height(expected):.1f}" r="3" fill="{_COLORS[1]}"/>'
        )
        if len(rows) <= 24:
            parts.append(
                f'<text x="{x + step / 2:.1f}" y="{base + 13}" text-anchor="middle" fill="currentColor">{size}</text>'
            )
    return _figure("".join(parts), "keys in a bucket (dots: random)", "buckets")


def lines(across: str, up: str, series: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> str:
    """A line for each (name, points)."""
    points = [point for _, line in series for point in line]
    if not points:
        return ""
    right, top = max(x for x, _ in points) or 1, max(y for _, y in points) or 1
    parts = []
    for number, (name, line) in enumerate(series):
        color = _COLORS[number % len(_COLORS)]
        path = " ".join(
            f"{_MARGIN + x / right * (_WIDTH - _MARGIN - 110):.1f},{5 + (1 - y / top) * (_HEIGHT - _MARGIN - 5):.1f}"
            for x, y in line
        )
        name = html.escape(name)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}"><title>{name}</title></polyline>')
        parts.append(f'<text x="{_WIDTH - 100}" y="{14 + 14 * number}" fill="{color}">{name}</text>')
    return _figure("".join(parts), across, up)
