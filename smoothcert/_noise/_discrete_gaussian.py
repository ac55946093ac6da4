r"""Standard normal numbers drawn from random bits, and rounded, exactly.

Let :math:`Z` be standard normal and :math:`s > 0` a rational number. What is drawn is the cell of
:math:`Y = sZ + \frac12` in a fine grid, and so the whole number :math:`K = \lfloor Y \rfloor`, which is :math:`sZ`
rounded to the next one. Nothing is approximated but a few probabilities, whose errors are known.

**Cells.** The numbers with :math:`|Z|` up to about 10 are divided into cells
:math:`[c\,2^t, (c + 1)\,2^t)` of :math:`Y`, with :math:`t` such that cells have a width :math:`w = 2^t/s` between 1/128
and 1/64 in :math:`Z`. As a power of two, :math:`2^t` whole numbers fall into a cell, or :math:`2^{-t}` cells into one
number.

**Uniform part.** Let the cell :math:`c` have its smallest density :math:`\varphi_{min}` at its outer end, and let
:math:`n_c = \lfloor 2^{16} w\varphi_{min} \rfloor`. Of the :math:`2^{16}` values of 16 random bits, :math:`n_c` stand
for this cell, and 48 more bits are the place in it: a uniform law. This serves 99% of all draws, by one look at a
table.

**Rest.** What is left of the density, :math:`\varphi(z) - n_c/(2^{16}w) \ge 0`, is drawn by the other values. The cell
is found by comparing 64 random bits with the masses that are left, computed to more than 50 digits; the place in it by
rejection. Let :math:`z_{in}` be the point of the cell next to 0. What is left, over its value there, is

.. math:: g(z) = 1 + A_c\,\bigl(e^{-(z^2 - z_{in}^2)/2} - 1\bigr), \qquad
   A_c = \frac{\varphi(z_{in})}{\varphi(z_{in}) - n_c/(2^{16}w)} .

It is nearly linear. A place with a density proportional to a line :math:`\ell \ge g` is drawn, as a uniform one or as
the smaller of two uniform ones, and accepted with the probability :math:`g/\ell`, which is nearly one.

**Errors.** With :math:`u = 2^{-53}`, :math:`g` is computed with an error below 16u: :math:`A_c`, the exponent and
:math:`e^x - 1` have some roundings each, and :math:`g - 1` is between -1 and 0. The line, its product with a random
number and the comparison add less than 8u. That moves at most 24u times
:math:`\sum_c w\,(\varphi(z_{in}) - n_c/(2^{16}w))`, about 0.02. Each of the thresholds is off by at most
:math:`2^{-65}` of the rest. And beyond 10 lies less than :math:`2\cdot10^{-23}`. The sum of the three, `distance`,
bounds the total variation between what is drawn and the exact law of the cells; it is below :math:`2^{-53}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._validation import FloatArray, IndexArray
from ._seeds import Seed

_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")
_DIGITS = 60
_TERMS = 20
"""Order at which the series of a cell ends. By Cramér's bound, ``|He_n(z)| exp(-z^2 / 4) <= 1.09 sqrt(n!)``, what is
left is below ``128^-20 / sqrt(20!)``, less than 1e-51."""

_END = 10
"""Where the cells end, in units of sigma, about."""

_NARROWEST = 64
"""Cells are at most one over this wide, and more than half of that."""

_SLOTS = 2**16
_PLACE_BITS = 48
"""Bits of the place in a cell: 16 with the slot, 32 from a stream of its own, which is read only where needed."""

MOST_LEVELS = 2**22
"""Largest ratio of sigma to the step of the grid: 16 bits tell the levels of a cell apart."""

_CHUNK = 2**15
"""Numbers that are made at once, so that what is computed on the way stays in the cache."""

_TRIES = 2
"""Places tried with the words of one stream; hardly any draw needs more."""

_MAIN, _LOW, _REST = 1, 2, 3
"""Streams of random bits of a block; those of the rest are numbered from the last on."""

_PURPOSE = 0x65786163
"""Tells these streams from those of other noise."""


@dataclass(frozen=True, eq=False)
class DiscreteGaussian:
    """The law of ``floor(ratio * Z + 1/2)``, and of the cell of ``ratio * Z + 1/2`` in a finer grid.

    Attributes
    ----------
    ratio : Fraction
        Standard deviation in units of the grid, at least 1.
    shift : int
        Cells have the width ``2 ** shift`` in units of the grid.
    first : int
        Number of the first cell.
    slots : ndarray of int32
        Cell of each value of 16 bits, those of the rest excepted; times ``2 ** shift``, if that is a whole number.
    n_certain : int
        How many values these are.
    thresholds : ndarray of uint64
        Cumulative masses of the rest, in units of 2^-64 of it, without the last one.
    guide : ndarray of int16
        Cell of the rest by the first 16 bits, where these decide; -1 elsewhere.
    steepness : ndarray of float64
        The factor `A` of each cell.
    inner : ndarray of float64
        Point of each cell next to 0.
    side : ndarray of float64
        Where in the cell it is, from 0 to 1: 0, but for the cell around 0.
    roof, slope : ndarray of float64
        The line ``roof - slope * part`` is not below what is left of the density, over its largest value.
    falling : ndarray of uint64
        Part of the area below that line that is not below its lowest point, in units of 2^-64.
    width : float
        Width of a cell in units of sigma.
    fraction_bits : int
        Bits behind the point that are kept of `Y`: with these, float64 holds it without rounding.
    distance : float
        Bound of the total variation between what is drawn and the exact law of cells, for one number.
    """

    ratio: Fraction
    shift: int
    first: int
    slots: NDArray[np.int32]
    n_certain: int
    thresholds: NDArray[np.uint64]
    guide: NDArray[np.int16]
    steepness: FloatArray
    inner: FloatArray
    side: FloatArray
    roof: FloatArray
    slope: FloatArray
    falling: NDArray[np.uint64]
    width: float
    fraction_bits: int
    distance: float

    @property
    def largest(self) -> int:
        """Largest size of a whole number that can be drawn."""
        ends = _level(self.first, 0, self.shift), _level(self.first + len(self.inner), 0, self.shift)
        return max(abs(end) for end in ends)

    def levels(self, seed: Seed, out: NDArray[np.floating], stream: int = 0) -> None:
        """Fill a contiguous array with whole numbers; a shorter one gets the beginning of what a longer one would."""
        flat = out.reshape(-1)
        size = min(_CHUNK, len(flat))
        slots, numbers, places = np.empty(size, np.intp), np.empty(size, np.int32), np.empty(size, np.uint32)
        rest = []
        for start, words in _chunks(seed, _MAIN, stream, len(flat)):
            slot, number, place = slots[: len(words)], numbers[: len(words)], places[: len(words)]
            np.copyto(slot, words.view("<u2")[0::2])
            self.slots.take(slot, out=number, mode="clip")
            if self.shift > 0:
                np.right_shift(words, np.uint32(32 - self.shift), out=place)
                number += place.view(np.int32)
            elif self.shift < 0:
                number >>= -self.shift
            flat[start : start + len(words)] = number
            rest.append(start + np.flatnonzero(slot >= self.n_certain))
        at = np.concatenate(rest) if rest else np.empty(0, np.intp)
        cell, inside = self._rest(seed, stream, len(at))
        if self.shift >= 0:
            flat[at] = (cell << self.shift) + (inside >> (_PLACE_BITS - self.shift))
        else:
            flat[at] = cell >> -self.shift

    def cells(self, seed: Seed, out: FloatArray, stream: int = 0) -> None:
        """Fill a contiguous array of float64 with lower ends of cells of `Y`, ``2 ** -fraction_bits`` wide.

        Rounded down they are the numbers that `levels` returns.
        """
        flat = out.reshape(-1)
        rest = []
        low_bits = _chunks(seed, _LOW, stream, len(flat))
        for (start, words), (_, more) in zip(_chunks(seed, _MAIN, stream, len(flat)), low_bits, strict=True):
            slot = words.view("<u2")[0::2].astype(np.intp)
            place = (words >> np.uint32(16)).astype(np.int64)
            place <<= 32
            place |= more
            cell = self.slots.take(slot)
            flat[start : start + len(words)] = self._join(cell >> max(self.shift, 0), place)
            rest.append(start + np.flatnonzero(slot >= self.n_certain))
        at = np.concatenate(rest) if rest else np.empty(0, np.intp)
        flat[at] = self._join(*self._rest(seed, stream, len(at)))

    def to_normal(self, cells: FloatArray) -> FloatArray:
        """Return the middle of each cell in units of sigma: within ``2^-49 + 2^-51 |Z|`` of the normal number in it."""
        found: FloatArray = cells - (0.5 - 2.0 ** -(self.fraction_bits + 1))
        found *= float(1 / self.ratio)
        return found

    def _join(self, cell: NDArray[np.integer], place: IndexArray) -> FloatArray:
        dropped = max(_PLACE_BITS - self.shift - self.fraction_bits, 0)
        joined: FloatArray = (place >> dropped) * 2.0 ** (self.shift - _PLACE_BITS + dropped)
        joined += cell * 2.0**self.shift
        return joined

    def _rest(self, seed: Seed, stream: int, n: int) -> tuple[IndexArray, IndexArray]:
        """Return cells and places of the `n` draws that are not uniform in a cell."""
        place = np.zeros(n, np.int64)
        cell, pending = place, np.arange(n)
        number = _REST
        while len(pending):
            # Each draw has its own words in each stream, so that a shorter array gets the beginning of a longer one's.
            columns = 4 * _TRIES + (number == _REST)
            words = np.ascontiguousarray(_words(seed, number, stream, len(pending) * columns).reshape(-1, columns).T)
            if number == _REST:
                cell = self._rest_cells(words[-1])
            for attempt in range(0, 4 * _TRIES, 4):
                own = cell[pending]
                place[pending], accepted = self._try(own, *words[attempt : attempt + 4])
                left = np.flatnonzero(~accepted)
                pending, words = pending[left], words[:, left]
                if not len(pending):
                    break
            number += 1
        return cell + self.first, place

    def _try(
        self,
        cell: IndexArray,
        first: NDArray[np.uint64],
        second: NDArray[np.uint64],
        choice: NDArray[np.uint64],
        level: NDArray[np.uint64],
    ) -> tuple[IndexArray, NDArray[np.bool_]]:
        """Return places in cells, and whether they are accepted."""
        # The smaller of two uniform numbers has a density that falls to zero.
        second = np.where(choice < self.falling.take(cell), second, first)
        outwards = (np.minimum(first, second) >> np.uint64(64 - _PLACE_BITS)).astype(np.int64)
        part = (outwards + 0.5) * 2.0**-_PLACE_BITS
        line = self.roof.take(cell) - self.slope.take(cell) * part
        accepted = level * 2.0**-64 * line < self._chance(cell, part)
        return np.where(self.inner.take(cell) < 0.0, 2**_PLACE_BITS - 1 - outwards, outwards), accepted

    def _chance(self, cell: IndexArray, part: FloatArray) -> FloatArray:
        """Return what is left of the density in cells, over its largest value, at places from 0, the inner end, on."""
        # The distance from the point next to 0, without the rounding that a difference of two numbers far from 0 has.
        distance = self.width * (part - self.side[cell])
        exponent = distance * (2.0 * np.abs(self.inner[cell]) + distance)
        exponent *= -0.5
        chance: FloatArray = 1.0 + self.steepness[cell] * np.expm1(exponent)
        return chance

    def _rest_cells(self, words: NDArray[np.uint64]) -> IndexArray:
        cell: IndexArray = self.guide[words >> np.uint64(48)].astype(np.int64)
        unsure = np.flatnonzero(cell < 0)
        cell[unsure] = np.searchsorted(self.thresholds, words[unsure], side="right")
        return cell


def _level(cell: int, place: int, shift: int) -> int:
    return (cell << shift) + (place >> (_PLACE_BITS - shift)) if shift >= 0 else cell >> -shift


@lru_cache(maxsize=16)
def _digest(seed: Seed, stream: int) -> NDArray[np.uint32]:
    return np.asarray(np.random.SeedSequence((_PURPOSE, stream, *seed)).generate_state(8), dtype=np.uint32)


def _generator(seed: Seed, number: int, stream: int) -> np.random.SFC64:
    return np.random.SFC64(np.append(_digest(seed, stream), np.uint32(number)))


def _words(seed: Seed, number: int, stream: int, n: int) -> NDArray[np.uint64]:
    return np.asarray(_generator(seed, number, stream).random_raw(n), dtype=np.uint64)


def _chunks(seed: Seed, number: int, stream: int, n: int) -> Iterator[tuple[int, NDArray[np.uint32]]]:
    """Yield the place and 32 random bits for each of `n` numbers, some at a time."""
    generator = _generator(seed, number, stream)
    for start in range(0, n, _CHUNK):
        size = min(_CHUNK, n - start)
        words = np.asarray(generator.random_raw(-(-size // 2)), dtype="<u8")
        yield start, words.view("<u4")[:size]


@lru_cache(maxsize=256)
def discrete_gaussian(ratio: Fraction) -> DiscreteGaussian:
    """Return what draws standard normal numbers times `ratio`, rounded; `ratio` is from 1 to `MOST_LEVELS`."""
    if not 1 <= ratio <= MOST_LEVELS:
        raise ValueError(f"ratio must be from 1 to {MOST_LEVELS}, got {float(ratio)!r}.")
    shift = 0
    while Fraction(2) ** shift * _NARROWEST > ratio:
        shift -= 1
    while Fraction(2) ** (shift + 1) * _NARROWEST <= ratio:
        shift += 1
    scale = Fraction(2) ** shift
    first, last = (int((sign * _END * ratio + Fraction(1, 2)) // scale) for sign in (-1, 1))
    with localcontext(Context(prec=_DIGITS)):
        cells = normal_cells((first * scale - Fraction(1, 2)) / ratio, scale / ratio, last + 1 - first)
        counts = [int((_SLOTS * cell.least).to_integral_value(ROUND_FLOOR)) for cell in cells]
        masses = [cell.mass - Decimal(count) / _SLOTS for cell, count in zip(cells, counts, strict=True)]
        roofs = [cell.most - Decimal(count) / _SLOTS for cell, count in zip(cells, counts, strict=True)]
        steepness = [float(cell.most / roof) for cell, roof in zip(cells, roofs, strict=True)]
        ends = [(cell.least - Decimal(n) / _SLOTS) / roof for cell, n, roof in zip(cells, counts, roofs, strict=True)]
        bent = float(scale / ratio) ** 2 / 8.0
        lines = [_line(cell, float(end), a * bent) for cell, end, a in zip(cells, ends, steepness, strict=True)]
        cumulative = list(accumulate(masses))
        unit = 2**64 / cumulative[-1]
        thresholds = [min(int((mass * unit).to_integral_value()), 2**64 - 1) for mass in cumulative[:-1]]
        moved = float(sum(roofs))
    n_certain = sum(counts)
    slots = np.zeros(_SLOTS, np.int32)
    slots[:n_certain] = np.repeat(np.arange(first, last + 1) * 2 ** max(shift, 0), counts)
    largest = int(_END * ratio + scale) + 3
    return DiscreteGaussian(
        ratio=ratio,
        shift=shift,
        first=first,
        slots=slots,
        n_certain=n_certain,
        thresholds=np.array(thresholds, dtype=np.uint64),
        guide=_guide(thresholds),
        steepness=np.array(steepness),
        inner=np.array([float(cell.inner) for cell in cells]),
        side=np.array([float(cell.side) if 0 < cell.side < 1 else 0.0 for cell in cells]),
        roof=np.array([line[0] for line in lines]),
        slope=np.array([line[1] for line in lines]),
        falling=np.array([line[2] for line in lines], dtype=np.uint64),
        width=float(scale / ratio),
        fraction_bits=53 - largest.bit_length(),
        distance=24.0 * 2.0**-53 * moved + (len(cells) + 1) * 2.0**-64 * (1.0 - n_certain / _SLOTS) + 2e-23,
    )


def _line(cell: NormalCell, end: float, bent: float) -> tuple[float, float, int]:
    """Return a line above what is left of the density in a cell, which falls from 1 to `end`: where it begins, how much
    it falls, and the part of the area below it that is a triangle.

    Beyond 1 the density is convex and the chord is above it. Elsewhere it may be above the chord by an eighth of its
    largest second derivative, `bent`. In the cell around 0 it rises and falls, and the line is level.
    """
    if 0 < cell.side < 1:
        return 1.0, 0.0, 0
    roof, slope = 1.0 + (bent * (1.0 + 1e-9) if abs(cell.inner) < 1 else 0.0), 1.0 - end
    triangle, rectangle = Fraction(slope) / 2, Fraction(roof) - Fraction(slope)
    return roof, slope, min(round(triangle / (triangle + rectangle) * 2**64), 2**64 - 1)


def _guide(thresholds: Sequence[int]) -> NDArray[np.int16]:
    """Return the place among thresholds that each value of the first 16 of 64 bits has, -1 where it is not certain."""
    sorted_in = np.array(thresholds, dtype=np.uint64)
    starts = np.arange(_SLOTS, dtype=np.uint64) << np.uint64(48)
    lowest = np.searchsorted(sorted_in, starts, side="right")
    highest = np.searchsorted(sorted_in, starts + np.uint64(2**48 - 1), side="right")
    return np.where(lowest == highest, lowest, -1).astype(np.int16)


class NormalCell(NamedTuple):
    """An interval of the normal law: its mass, its width times the smallest and the largest density in it, the point
    where it is largest, and where that is in the interval, from 0 to 1."""

    mass: Decimal
    least: Decimal
    most: Decimal
    inner: Decimal
    side: Decimal


def normal_cells(start: Fraction, width: Fraction, n_cells: int) -> list[NormalCell]:
    """Return intervals of one width, at most 1/64, side by side, in the current decimal context.

    The density at equidistant points is a product: ``phi(z + h) = phi(z) exp(-z h - h^2 / 2)``, and the second factor
    is ``exp(-h^2)`` times that at the point before. Every product loses a unit in the last digit at most. The mass is a
    series around the middle: derivatives of the density are Hermite polynomials times itself, and odd ones drop out.
    """
    step, half = _decimal(width), _decimal(width / 2)
    z = low = _decimal(start)
    densities = [(-z * z / 2).exp() / (2 * _PI).sqrt()]
    factor, change = (-z * half - half * half / 2).exp(), (-half * half).exp()
    for _ in range(2 * n_cells):
        densities.append(densities[-1] * factor)
        factor *= change
    powers = [half]
    for order in range(1, _TERMS):
        powers.append(powers[-1] * half / order)
    cells = []
    for index in range(n_cells):
        low, middle = _decimal(start) + index * step, _decimal(start) + (2 * index + 1) * half
        left, centre, right = densities[2 * index : 2 * index + 3]
        before, polynomial, total = Decimal(0), Decimal(1), Decimal(0)
        for order in range(_TERMS):
            if order % 2 == 0:
                total += polynomial * powers[order] / (order + 1)
            before, polynomial = polynomial, middle * polynomial - order * before
        side = min(max(-low / step, Decimal(0)), Decimal(1))
        inner, most = (low, left) if side == 0 else (low + step, right)
        if 0 < side < 1:
            inner, most = Decimal(0), 1 / (2 * _PI).sqrt()
        cells.append(NormalCell(2 * centre * total, step * min(left, right), step * most, inner, side))
    return cells


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
