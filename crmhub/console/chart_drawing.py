"""Charts as SVG: where each bar, line and label stands. The template `chart.svg` writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 480, 206
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 8, 10, 32
_INNER_WIDTH, _INNER_HEIGHT = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
# Labels below, and those of them that a phone leaves out.
_LABELS = 8


@dataclass(frozen=True, slots=True)
class Series:
    """Values over time, with gaps; `look` is the class by which the style sheet colours them."""

    label: str
    look: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Scale:
    """What heights mean: the values that have a line, with labels, and the height of a value."""

    ticks: Sequence[tuple[float, str]]
    height: Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    look: str
    told: str


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    look: str
    told: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, ready to be written."""

    id: str
    title: str
    told: str
    legend: Sequence[tuple[str, str]]
    ticks: Sequence[tuple[float, str]]
    labels: Sequence[tuple[float, str, bool]]
    bars: Sequence[Bar]
    lines: Sequence[tuple[str, str]]
    dots: Sequence[Dot]


def chart(
    id: str,
    title: str,
    told: str,
    times: Sequence[str],
    *,
    scale: Scale,
    written: Callable[[float], str],
    bars: Sequence[Series] = (),
    lines: Sequence[Series] = (),
) -> Chart:
    """Return a chart of series of equal length: bars that stand on each other, and lines.

    `times` are the labels of the parts, `written` a value as people read it.
    """
    return Chart(
        id=id,
        title=title,
        told=told,
        legend=[(one.label, one.look) for one in (*bars, *lines)],
        ticks=[(_y(scale, value), label) for value, label in scale.ticks],
        labels=_labels(times),
        bars=_bars(bars, times, scale, written),
        lines=[(one.look, points) for one in lines for points in _strokes(one, scale)],
        dots=[
            Dot(
                _middle(i, len(times)),
                _y(scale, value),
                one.look,
                f"{times[i]}: {one.label} {written(value)}",
            )
            for one in lines
            for i, value in enumerate(one.values)
            if value is not None
        ],
    )


def even(most: float) -> Scale:
    """Return a scale from 0 to at least `most`, in steps that are easy to read."""
    rough = max(most, 4) / 4
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * n for n in (1, 2, 5, 10) if size * n >= rough)
    top = step * math.ceil(max(most, 1) / step)
    return Scale(
        [(n * step, f"{n * step:,.0f}") for n in range(round(top / step) + 1)],
        lambda value: value / top,
    )


PERCENT = Scale(
    [(n / 4, f"{n * 25} %") for n in range(5)],
    lambda value: value,
)

_TIMES = (
    (10, "10 ms"), (100, "100 ms"), (1_000, "1 s"), (10_000, "10 s"), (60_000, "1 min"),
    (600_000, "10 min"), (3_600_000, "1 h"), (6 * 3_600_000, "6 h"), (86_400_000, "1 d"),
    (7 * 86_400_000, "7 d"), (31 * 86_400_000, "31 d"),
)  # fmt: skip


def times(least: float, most: float) -> Scale:
    """Return a scale of lengths of time in ms, on which ten times as long is one step higher."""
    low = max((i for i, (value, _) in enumerate(_TIMES[:-1]) if value <= least), default=0)
    high = min((i for i, (value, _) in enumerate(_TIMES) if value >= most), default=len(_TIMES) - 1)
    high = max(high, low + 1)
    bottom, top = math.log(_TIMES[low][0]), math.log(_TIMES[high][0])

    def height(value: float) -> float:
        return (math.log(max(value, 1)) - bottom) / (top - bottom)

    return Scale(_TIMES[low : high + 1], height)


def _y(scale: Scale, value: float) -> float:
    part = min(1.0, max(0.0, scale.height(value)))
    return round(_TOP + (1 - part) * _INNER_HEIGHT, 1)


def _middle(i: int, parts: int) -> float:
    return round(_LEFT + (i + 0.5) * _INNER_WIDTH / parts, 1)


def _labels(times: Sequence[str]) -> list[tuple[float, str, bool]]:
    every = -(-len(times) // _LABELS)
    return [
        (_middle(i, len(times)), times[i], i // every % 2 == 1) for i in range(0, len(times), every)
    ]


def _bars(
    series: Sequence[Series], times: Sequence[str], scale: Scale, written: Callable[[float], str]
) -> list[Bar]:
    slot = _INNER_WIDTH / len(times)
    found = []
    for i, at in enumerate(times):
        below = 0.0
        for one in series:
            value = one.values[i] or 0
            if value:
                bottom, top = _y(scale, below), _y(scale, below + value)
                # However little there is of something, it is seen.
                height = max(round(bottom - top, 1), 1.0)
                x = round(_LEFT + i * slot + slot * 0.15, 1)
                told = f"{at}: {one.label} {written(value)}"
                found.append(Bar(x, bottom - height, round(slot * 0.7, 1), height, one.look, told))
            below += value
    return found


def _strokes(one: Series, scale: Scale) -> list[str]:
    """Return the points of a line, in one piece from gap to gap."""
    pieces: list[list[str]] = [[]]
    for i, value in enumerate(one.values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{_middle(i, len(one.values))},{_y(scale, value)}")
    return [" ".join(piece) for piece in pieces if len(piece) > 1]
