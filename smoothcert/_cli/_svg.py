"""Drawings as SVG, coloured by the style sheet of the page around them."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np

from .._validation import FloatArray

WIDTH, HEIGHT = 440, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 14, 56
"""Size of a drawing and its margins, in units of the text size of the page."""


@dataclass(frozen=True)
class Axes:
    """Where numbers are drawn: `x` from 0 to `x_max`, `y` from 0 to `y_max`."""

    x_max: float
    y_max: float

    def x(self, value: float) -> float:
        return LEFT + value / self.x_max * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.y_max * (HEIGHT - TOP - BOTTOM)


def round_steps(most: float, n_steps: int = 5) -> FloatArray:
    """Return multiples of a round number from 0 to beyond `most`."""
    power = 10.0 ** np.floor(np.log10(most / n_steps))
    step = next(
        factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if most <= n_steps * factor * power * (1 + 1e-9)
    )
    steps: FloatArray = step * np.arange(int(np.ceil(most / step - 1e-9)) + 1)
    return steps


def step_curve(radii: FloatArray, shares: FloatArray, x_label: str, y_label: str, title: str) -> str:
    """Return a curve that falls at each radius: the share up to and including it."""
    ticks = round_steps(max(float(radii[-1]), 1e-12))
    axes = Axes(float(ticks[-1]), 1.0)
    points, before = [], float(shares[0])
    points.append((0.0, before))
    for radius, share in zip(radii[1:], shares[1:], strict=True):
        # Inputs that reach this radius are counted there, so the curve falls just behind the radius before.
        points.append((points[-1][0], float(share)))
        points.append((float(radius), float(share)))
    points.append((points[-1][0], 0.0))
    line = " ".join(f"{axes.x(x):.2f},{axes.y(y):.2f}" for x, y in points)
    drawn = f'<polyline class="curve" points="{line}"/>'
    return _frame(axes, ticks, round_steps(1.0), x_label, y_label, title, drawn)


def histogram(values: FloatArray, x_label: str, y_label: str, title: str, most: float | None = None) -> str:
    """Return bars that count values in twenty equal intervals."""
    ticks = round_steps(max(float(values.max(initial=0.0)) if most is None else most, 1e-12))
    counts, edges = np.histogram(values, bins=20, range=(0.0, float(ticks[-1])))
    upper = round_steps(max(int(counts.max(initial=0)), 1))
    axes = Axes(float(ticks[-1]), float(upper[-1]))
    bars = []
    for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
        x, y = axes.x(left), axes.y(float(count))
        width, height = axes.x(right) - x - 1.0, axes.y(0.0) - y
        bars.append(
            f'<rect class="bar" x="{x + 0.5:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}">'
            f"<title>{left:.3g} to {right:.3g}: {count}</title></rect>"
        )
    return _frame(axes, ticks, upper, x_label, y_label, title, "".join(bars))


def _frame(
    axes: Axes,
    x_ticks: FloatArray,
    y_ticks: FloatArray,
    x_label: str,
    y_label: str,
    title: str,
    drawn: str,
) -> str:
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title, quote=True)}" '
        f'data-x-max="{axes.x_max!r}" data-y-max="{axes.y_max!r}">'
    ]
    for tick in y_ticks:
        y = axes.y(float(tick))
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.2f}" y2="{y:.2f}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 5:.2f}" text-anchor="end">{tick:g}</text>')
    for tick in x_ticks:
        x = axes.x(float(tick))
        parts.append(
            f'<line class="axis" x1="{x:.2f}" x2="{x:.2f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 4}"/>'
        )
        parts.append(
            f'<text x="{x:.2f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{float(f"{tick:.6g}"):g}</text>'
        )
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>')
    middle_x, middle_y = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{middle_x}" y="{HEIGHT - 10}" text-anchor="middle">{html.escape(x_label)}</text>')
    parts.append(
        f'<text x="16" y="{middle_y}" text-anchor="middle" transform="rotate(-90 16 {middle_y})">'
        f"{html.escape(y_label)}</text>"
    )
    return "".join([*parts, drawn, "</svg>"])
