"""The sampler of exact noise against probabilities at 50 digits, and its draws against these."""

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from smoothcert._noise import Seed
from smoothcert._noise._discrete_gaussian import (
    _PLACE_BITS,
    _SLOTS,
    MOST_LEVELS,
    discrete_gaussian,
    normal_cells,
)

QUANTUM = Fraction(0.25) / Fraction(1 / 255)
RATIOS = [Fraction(1), QUANTUM, Fraction(2**15)]


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(60):
        yield


def as_mpf(value):
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else mpmath.mpf(str(value))


def normal_mass(low, high):
    """Probability of an interval, by the smaller tails: no digits are lost."""
    low, high = as_mpf(low), as_mpf(high)
    if low > 0:
        low, high = -high, -low
    return mpmath.ncdf(high) - mpmath.ncdf(low)


def ends(law, index):
    low = ((law.first + index) * Fraction(2) ** law.shift - Fraction(1, 2)) / law.ratio
    return low, low + Fraction(2) ** law.shift / law.ratio


def counts_of_slots(law):
    cells = law.slots[: law.n_certain] // 2 ** max(law.shift, 0) - law.first
    return np.bincount(cells, minlength=len(law.inner))


@pytest.mark.parametrize(
    ("start", "width", "n"), [(Fraction(-10), Fraction(1, 64), 40), (Fraction(-1, 3), Fraction(1, 97), 60)]
)
def test_masses_and_densities(start, width, n):
    with localcontext(Context(prec=60)):
        cells = normal_cells(start, width, n)
    for index, cell in enumerate(cells):
        low, high = start + index * width, start + (index + 1) * width
        assert abs(as_mpf(cell.mass) - normal_mass(low, high)) < mpmath.mpf(10) ** -50
        inner = Fraction(0) if low <= 0 <= high else min(low, high, key=abs)
        assert abs(as_mpf(cell.inner) - as_mpf(inner)) < mpmath.mpf(10) ** -50
        most, least = (as_mpf(width) * mpmath.npdf(as_mpf(z)) for z in (inner, max(low, high, key=abs)))
        assert abs(as_mpf(cell.most) - most) < mpmath.mpf(10) ** -50
        assert abs(as_mpf(cell.least) - least) < mpmath.mpf(10) ** -50


@pytest.mark.parametrize("ratio", RATIOS)
def test_law_of_cells(ratio):
    """The law that is drawn, from the tables, is as close to the exact one as it says."""
    law = discrete_gaussian(ratio)
    counts = counts_of_slots(law)
    thresholds = [0, *(int(t) for t in law.thresholds), 2**64]
    rest = mpmath.mpf(_SLOTS - law.n_certain) / _SLOTS
    variation, outside = mpmath.mpf(0), mpmath.mpf(1)
    for index in range(len(law.inner)):
        exact = normal_mass(*ends(law, index))
        drawn = mpmath.mpf(int(counts[index])) / _SLOTS + rest * (thresholds[index + 1] - thresholds[index]) / 2**64
        variation += abs(drawn - exact) / 2
        outside -= exact
    assert 0 < outside < 2e-23
    assert variation + outside < law.distance < 2.0**-53
    assert law.n_certain > 0.985 * _SLOTS


@pytest.mark.parametrize("ratio", RATIOS)
def test_density_in_cells(ratio):
    """Uniform places and accepted ones have together the density of the normal law."""
    law = discrete_gaussian(ratio)
    counts = counts_of_slots(law)
    for index in range(0, len(law.inner), 11):
        low, high = ends(law, index)
        width = as_mpf(high - low)
        certain = mpmath.mpf(int(counts[index])) / _SLOTS / width
        inner = Fraction(0) if low <= 0 <= high else min(low, high, key=abs)
        roof = mpmath.npdf(as_mpf(inner)) - certain
        line = Fraction(law.roof[index]), Fraction(law.slope[index])
        triangle = as_mpf(line[1] / 2 / (line[0] - line[1] / 2))
        assert abs(triangle - mpmath.mpf(int(law.falling[index])) / 2**64) < 2.0**-63
        for place in (0, 2**_PLACE_BITS // 3, 2**_PLACE_BITS // 2, 2**_PLACE_BITS - 2**40, 2**_PLACE_BITS - 1):
            part = Fraction(2 * place + 1, 2 ** (_PLACE_BITS + 1))
            z = as_mpf(low + part * (high - low) if high > 0 else high - part * (high - low))
            chance = mpmath.mpf(float(law._chance(np.array([index]), np.array([float(part)]))[0]))
            exact = (mpmath.npdf(z) - certain) / roof
            assert abs(exact - chance) < 16 * 2.0**-53
            assert 0 <= exact <= as_mpf(line[0] - line[1] * part) + 4 * 2.0**-53


@pytest.mark.parametrize("ratio", [Fraction(1), QUANTUM, Fraction(2**10)])
def test_draws(ratio):
    law = discrete_gaussian(ratio)
    numbers = np.arange(-law.largest - 1, law.largest + 2)
    found = np.zeros(len(numbers), dtype=int)
    for block in range(4):
        out = np.empty(2**20)
        law.levels(Seed(7, 1, 2, block), out)
        found += np.bincount((out + law.largest + 1).astype(int), minlength=len(numbers))
    expected = found.sum() * np.diff(stats.norm.cdf((np.append(numbers, numbers[-1] + 1) - 0.5) / float(ratio)))
    common = expected > 20
    found = np.append(found[common], found[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-4


def test_places_in_cells_are_normal():
    law = discrete_gaussian(QUANTUM)
    out = np.empty(500_000)
    law.cells(Seed(0, 1, 2, 3), out)
    normal = law.to_normal(out)
    assert stats.kstest(normal, "norm").pvalue > 1e-4
    # Draws of the rest alone: those of the first stream with another slot.
    cell, place = law._rest(Seed(0, 1, 2, 4), 0, 200_000)
    index, certain = cell - law.first, counts_of_slots(law) / _SLOTS
    lows, highs = np.array([[float(end) for end in ends(law, i)] for i in range(len(law.inner))]).T
    rest = np.diff(stats.norm.cdf(np.append(lows, highs[-1]))) - certain
    found = np.bincount(index, minlength=len(rest))
    common = rest / rest.sum() * 200_000 > 20
    assert stats.chisquare(found[common], (rest * found[common].sum() / rest[common].sum())[common]).pvalue > 1e-4
    # The distribution function of the rest in each cell makes the places uniform.
    part = (place + 0.5) * 2.0**-_PLACE_BITS
    mass = stats.norm.cdf(lows[index] + part * (highs - lows)[index]) - stats.norm.cdf(lows[index])
    uniform = ((mass - certain[index] * part) / rest[index])[common[index]]
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("ratio", RATIOS)
def test_whole_numbers_follow_from_cells(ratio):
    law = discrete_gaussian(ratio)
    levels, cells = np.empty((300, 301)), np.empty((300, 301))
    law.levels(Seed(1, 2, 3, 4), levels)
    law.cells(Seed(1, 2, 3, 4), cells)
    np.testing.assert_array_equal(np.floor(cells), levels)
    # Ends of cells are whole multiples of the width, held by float64 without rounding.
    scaled = np.ldexp(cells, law.fraction_bits)
    np.testing.assert_array_equal(scaled, np.rint(scaled))
    assert np.max(np.abs(levels)) <= law.largest
    # The middle of the cell, in exact arithmetic, and the width of the cell.
    middles = law.to_normal(cells)
    for y, z in zip(cells[0, :40], middles[0, :40], strict=True):
        exact = (Fraction(y) + Fraction(1, 2 ** (law.fraction_bits + 1)) - Fraction(1, 2)) / law.ratio
        half = Fraction(1, 2 ** (law.fraction_bits + 1)) / law.ratio
        assert half <= Fraction(1, 2**49)
        assert abs(Fraction(float(z)) - exact) <= Fraction(1, 2**51) * abs(exact)


@pytest.mark.parametrize("ratio", [QUANTUM, Fraction(2**12)])
@pytest.mark.parametrize(("method", "dtype"), [("levels", np.float32), ("levels", np.float64), ("cells", np.float64)])
def test_a_shorter_array_gets_the_beginning(ratio, method, dtype):
    law = discrete_gaussian(ratio)
    long, short = np.empty((2000, 101), dtype), np.empty((77, 101), dtype)
    getattr(law, method)(Seed(1, 2, 3, 4), long)
    getattr(law, method)(Seed(1, 2, 3, 4), short)
    np.testing.assert_array_equal(long[:77], short)
    others = [Seed(2, 2, 3, 4), Seed(1, 0, 3, 4), Seed(1, 2, 5, 4), Seed(1, 2, 3, 5)]
    for seed, stream in [*((other, 0) for other in others), (Seed(1, 2, 3, 4), 1)]:
        other = np.empty_like(short)
        getattr(law, method)(seed, other, stream)
        assert np.mean(other == short) < 0.1


@pytest.mark.parametrize("ratio", RATIOS)
def test_tails_to_the_last_level(ratio):
    law = discrete_gaussian(ratio)
    words = np.array([0, 2**64 - 1, int(law.thresholds[0]), int(law.thresholds[-1]) - 1], dtype=np.uint64)
    last = len(law.inner) - 1
    np.testing.assert_array_equal(law._rest_cells(words)[:2], [np.searchsorted(law.thresholds, 0, side="right"), last])
    for word in (*words, *np.random.default_rng(0).integers(0, 2**64, 1000, dtype=np.uint64)):
        cell = law._rest_cells(np.array([word]))[0]
        assert cell == sum(int(t) <= int(word) for t in law.thresholds)
    assert ends(law, 0)[0] <= -10
    assert ends(law, last)[1] >= 10
    assert law.largest >= int(10 * ratio)


def test_ratio_out_of_range():
    for ratio in (Fraction(1, 2), Fraction(2 * MOST_LEVELS)):
        with pytest.raises(ValueError, match="ratio must be from 1"):
            discrete_gaussian(ratio)


def test_the_last_steps_of_the_proof():
    """What is said of the number of digits."""
    assert Decimal(128) ** -20 / Decimal(2432902008176640000).sqrt() < Decimal(10) ** -50
