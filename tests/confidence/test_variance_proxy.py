"""The variance proxy is proved: branch and bound over the worst functions, see the theory of the gradient's limit.

With ``M = 2 Phi(c + l/2) - 2 Phi(l/2) + 2 Phi(l/2 - c)`` and ``psi = l^2/8 + ln M - l (2 phi(c) - phi(0))`` the claim
is ``F = psi - v l^2 / 2 < 0`` for all ``c >= 0`` and ``l > 0``. On a box, `F` is at most its value in the middle plus
the largest slopes times half the sides; the slopes are bounded by monotone parts. Boxes where that is not below zero
are halved.
"""

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import ndtr

from smoothcert.confidence._gradient import VARIANCE_PROXY

LARGEST_C, LEAST_EXPONENT, LARGEST_EXPONENT = 8.0, 0.3, 12.0

ROUNDING = 1e-9
"""Far more than the roundings of float64 below, which are about 1e-13; a test compares with 40 digits."""


def density(x):
    return np.exp(-0.5 * np.square(x)) / np.sqrt(2.0 * np.pi)


def mass(c, left_exponent, right_exponent):
    """`M`, with the exponent of the part that falls with it and the exponent of the part that rises."""
    middle = ndtr(-left_exponent / 2.0) - ndtr(-left_exponent / 2.0 - c)
    return 2.0 * (middle + ndtr(right_exponent / 2.0 - c))


def margin(c, exponent, proxy):
    psi = exponent**2 / 8.0 + np.log(mass(c, exponent, exponent)) - exponent * (2.0 * density(c) - density(0.0))
    return psi - proxy * exponent**2 / 2.0


def density_range(low, high):
    """Least and largest density on intervals."""
    nearest = np.where((low <= 0.0) & (high >= 0.0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return density(np.maximum(np.abs(low), np.abs(high))), density(nearest)


def largest_slopes(c0, c1, l0, l1, proxy):
    """Bounds of the absolute derivatives of `F` by `c` and by the exponent, on boxes."""
    least_mass, largest_mass = mass(c1, l1, l0), mass(c0, l0, l1)  # M falls with c
    near_low, near_high = density_range(l0 / 2.0 - c1, l1 / 2.0 - c0)
    far_low, far_high = density_range(l0 / 2.0 + c0, l1 / 2.0 + c1)
    at_low, at_high = density_range(l0 / 2.0, l1 / 2.0)
    c_low, c_high = density_range(c0, c1)
    # c phi(c) rises up to 1 and falls from there.
    least_moment = np.minimum(c0 * density(c0), c1 * density(c1))
    largest_moment = np.where((c0 <= 1.0) & (c1 >= 1.0), density(1.0), np.maximum(c0 * density(c0), c1 * density(c1)))
    gap_low, gap_high = np.maximum(near_low - far_high, 0.0), near_high - far_low
    by_c_low = 2.0 * l0 * least_moment - 2.0 * gap_high / least_mass
    by_c_high = 2.0 * l1 * largest_moment - 2.0 * gap_low / largest_mass
    top_low, top_high = far_low - at_high + near_low, far_high - at_low + near_high
    ratios = np.stack([top / m for top in (top_low, top_high) for m in (least_mass, largest_mass)])
    slope = 0.25 - proxy  # of what is quadratic, divided by the exponent
    by_l_low = slope * l1 + ratios.min(axis=0) - (2.0 * c_high - density(0.0))
    by_l_high = slope * l0 + ratios.max(axis=0) - (2.0 * c_low - density(0.0))
    return np.maximum(np.abs(by_c_low), np.abs(by_c_high)), np.maximum(np.abs(by_l_low), np.abs(by_l_high))


def is_proved(proxy, most_boxes=2_000_000):
    """Whether `F` is below zero on the whole rectangle, by more than rounding."""
    c0, l0 = (edges.ravel() for edges in np.meshgrid(np.arange(0.0, 8.0, 0.125), np.arange(0.3, 12.0, 0.117)))
    boxes = np.stack([c0, c0 + 0.125, l0, l0 + 0.1171])
    seen = 0
    while boxes.size:
        seen += boxes.shape[1]
        if seen > most_boxes:
            return False
        c0, c1, l0, l1 = boxes
        middle = (c0 + c1) / 2.0, (l0 + l1) / 2.0
        at_middle = margin(*middle, proxy)
        if np.any(at_middle >= -ROUNDING):
            return False
        by_c, by_l = largest_slopes(c0, c1, l0, l1, proxy)
        rise_c, rise_l = by_c * (c1 - c0) / 2.0, by_l * (l1 - l0) / 2.0
        c0, c1, l0, l1 = boxes[:, at_middle + rise_c + rise_l >= -ROUNDING]
        along_c = (rise_c > rise_l)[at_middle + rise_c + rise_l >= -ROUNDING]
        mid_c, mid_l = (c0 + c1) / 2.0, (l0 + l1) / 2.0
        first = np.where(along_c, [c0, mid_c, l0, l1], [c0, c1, l0, mid_l])
        second = np.where(along_c, [mid_c, c1, l0, l1], [c0, c1, mid_l, l1])
        boxes = np.concatenate([first, second], axis=1)
    return True


def test_the_first_boxes_cover_the_rectangle():
    c, exponent = np.arange(0.0, 8.0, 0.125), np.arange(0.3, 12.0, 0.117)
    assert c[-1] + 0.125 == LARGEST_C
    assert exponent[0] == LEAST_EXPONENT
    assert exponent[-1] + 0.1171 >= LARGEST_EXPONENT
    assert np.all(exponent[:-1] + 0.1171 > exponent[1:])


def test_proved_on_the_rectangle():
    assert is_proved(VARIANCE_PROXY)


def test_the_proof_can_fail():
    """Just below the supremum, 0.402181 at c = 2.134 and exponent 4.330, there is a point that is not below zero."""
    assert is_proved(0.4023)
    assert not is_proved(0.40218)
    assert 2.0 * margin(2.134, 4.330, 0.0) / 4.330**2 == pytest.approx(0.402181, abs=1e-6)


def test_slopes_are_bounded():
    """Against differences at random points of random boxes."""
    rng = np.random.default_rng(0)
    c0, l0 = rng.uniform(0.0, 7.9, 20_000), rng.uniform(0.3, 11.9, 20_000)
    size = 10.0 ** rng.uniform(-3.0, -1.0, 20_000)
    by_c, by_l = largest_slopes(c0, c0 + size, l0, l0 + size, VARIANCE_PROXY)
    c, exponent = c0 + size * rng.uniform(0.1, 0.9, 20_000), l0 + size * rng.uniform(0.1, 0.9, 20_000)
    step = 1e-5
    found_c = (margin(c + step, exponent, VARIANCE_PROXY) - margin(c - step, exponent, VARIANCE_PROXY)) / (2 * step)
    found_l = (margin(c, exponent + step, VARIANCE_PROXY) - margin(c, exponent - step, VARIANCE_PROXY)) / (2 * step)
    assert np.all(np.abs(found_c) <= by_c + 1e-6)
    assert np.all(np.abs(found_l) <= by_l + 1e-6)


def test_rounding_is_covered():
    rng = np.random.default_rng(1)
    with mp.workdps(40):
        for c, exponent in zip(rng.uniform(0.0, 8.0, 300), rng.uniform(0.3, 12.0, 300), strict=True):
            a, b = mpf(c), mpf(exponent)
            m = 2 * (mp.ncdf(a + b / 2) - mp.ncdf(b / 2) + mp.ncdf(b / 2 - a))
            exact = b**2 / 8 + mp.log(m) - b * (2 * mp.npdf(a) - mp.npdf(0)) - mpf(VARIANCE_PROXY) * b**2 / 2
            assert abs(mpf(float(margin(c, exponent, VARIANCE_PROXY))) - exact) < ROUNDING / 100


def test_outside_of_the_rectangle():
    """The three simple bounds of the theory."""
    s = LEAST_EXPONENT / 2.0
    second_moment = 0.5 * np.exp(s**2 / 2.0) * ((1.0 + s**2) * ndtr(s) + s * density(s))
    assert second_moment * np.exp(LEAST_EXPONENT * density(0.0)) < 0.361 < VARIANCE_PROXY
    large = 0.25 + 2.0 * np.log(2.0) / LARGEST_EXPONENT**2 + 2.0 * density(0.0) / LARGEST_EXPONENT
    assert large < 0.327 < VARIANCE_PROXY
    assert 2.0 * LARGEST_EXPONENT * density(LARGEST_C) < ROUNDING
