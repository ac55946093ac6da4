"""Radii and bounds against 50 digits: close to the truth and never on its wrong side."""

import numpy as np
import pytest
from helpers import mp_reference as reference

from smoothcert import bounds

PROBABILITIES = [0.5 + 1e-9, 0.6, 0.9, 0.99, 1 - 1e-6, 1 - 1e-12]
GRADIENT_SHARES = [0.0, 1e-6, 0.5, 0.999, 1.0, 1.5]


def assert_below_and_close(value, truth, relative=1e-9):
    truth_scaled = truth if truth != 0 else reference.mpf(1)
    assert reference.mpf(float(value)) <= truth
    assert (truth - reference.mpf(float(value))) / truth_scaled <= relative


def largest_gradient(p):
    return float(reference.pdf(reference.quantile(reference.mpf(p))))


def pairs():
    for p in PROBABILITIES:
        most = 2 * (1 - p)  # both + 2 one_sided <= 1 leaves at most 1 - p for one_sided
        for share in (0.0, 1e-6, 0.5, 0.999):
            one_sided = share * most / 2
            yield p - one_sided, one_sided
    yield 1 - 1e-15, 0.0
    yield 1 - 1e-9, 4e-10
    yield 1e-9, 0.5 - 0.5e-9
    yield 0.2, 0.4 - 1e-12


@pytest.mark.parametrize("p", [*PROBABILITIES, 0.5 + 2**-53, 1 - 2**-53])
def test_first_order_radius(p):
    assert_below_and_close(bounds.first_order_radius(p), reference.first_order_radius(p))


@pytest.mark.parametrize(
    ("p", "rival"),
    [(0.4, 0.2), (0.3, 0.3 - 1e-9), (1e-7, 1e-9), (0.9, 0.05), (0.3 + 1e-15, 0.3), (0.6, 0.4), (0.7, 0.9)],
)
def test_first_order_radius_against_a_rival(p, rival):
    rival_mass = min(reference.mpf(rival), reference.mpf(1) - reference.mpf(p))
    truth = (reference.quantile(reference.mpf(p)) - reference.quantile(rival_mass)) / 2
    assert_below_and_close(bounds.first_order_radius(p, rival), truth)


@pytest.mark.parametrize("share", GRADIENT_SHARES)
@pytest.mark.parametrize("p", PROBABILITIES)
def test_second_order_radius(p, share):
    grad_norm = share * largest_gradient(p)
    assert_below_and_close(bounds.second_order_radius(p, grad_norm), reference.second_order_radius(p, grad_norm))


@pytest.mark.parametrize(("both", "one_sided"), list(pairs()))
def test_dipole_radius(both, one_sided):
    assert_below_and_close(bounds.dipole_radius(both, one_sided), reference.dipole_radius(both, one_sided))


@pytest.mark.parametrize("r", [0.0, 1e-9, 0.3, 4.0])
@pytest.mark.parametrize("p", [1e-6, 0.1, 0.9, 1 - 1e-9])
def test_bounds_bracket_the_truth(p, r):
    mp, q = reference.mpf, reference.quantile
    assert_below_and_close(bounds.first_order_lower_bound(p, r), reference.cdf(q(mp(p)) - mp(r)))
    upper = reference.cdf(q(mp(p)) + mp(r))
    assert upper <= mp(float(bounds.first_order_upper_bound(p, r))) <= upper * (1 + 1e-9)
    for share in (0.0, 0.5, 0.999):
        grad_norm = share * largest_gradient(p)
        lower = reference.second_order_bound(p, grad_norm, r)
        assert_below_and_close(bounds.second_order_lower_bound(p, grad_norm, r), lower, 1e-8)
        left, right = reference.slab_edges(1 - mp(p), grad_norm)
        upper = 1 - (reference.cdf(right - r) - reference.cdf(left - r))
        assert upper <= mp(float(bounds.second_order_upper_bound(p, grad_norm, r))) <= upper * (1 + 1e-9)
    both, one_sided = p * 0.75, min(p * 0.25, (1 - p * 0.75) / 2)
    assert_below_and_close(
        bounds.dipole_lower_bound(both, one_sided, r), reference.dipole_bound(both, one_sided, r), 1e-8
    )
    neither = 1 - mp(both) - 2 * mp(one_sided)
    upper = 1 - reference.dipole_bound(neither, one_sided, r)
    assert upper <= mp(float(bounds.dipole_upper_bound(both, one_sided, r))) <= upper + 1e-10


@pytest.mark.parametrize(
    ("p", "grad_norm", "rivals"),
    [
        (0.45, 0.1, [(0.3, 0.1), (0.2, 0.25)]),
        (0.45, 0.1, [(0.3, 0.0), (0.2, 0.27)]),
        (0.3, 0.0, [(0.29, 0.0), (0.2, 0.0), (0.1, 0.0)]),
        (0.7, 0.3, [(0.1, 0.05), (0.1, 0.15), (1e-12, 1e-3)]),
    ],
)
def test_second_order_multiclass_radius_against_every_rival(p, grad_norm, rivals):
    mp = reference.mpf
    truth = reference.mp.inf
    for p_rival, grad_rival in rivals:
        own = reference.slab_edges(p, grad_norm)
        other = reference.slab_edges(1 - mp(p_rival), grad_rival)

        def lead(r, own=own, other=other):
            ours = reference.cdf(own[1] - r) - reference.cdf(own[0] - r)
            return ours + reference.cdf(other[1] - r) - reference.cdf(other[0] - r) - 1

        truth = min(truth, reference.root(lead, mp(0), mp(12)))
    alone = reference.second_order_radius(p, grad_norm) if p > 0.5 else mp(0)
    value = bounds.second_order_multiclass_radius(p, grad_norm, *np.transpose(rivals))
    assert_below_and_close(value, max(truth, alone))


def test_the_steeper_rival_may_be_the_closer_one():
    flat_runner_up = bounds.second_order_multiclass_radius(0.45, 0.0, [0.3], [0.0])
    with_steep_third = bounds.second_order_multiclass_radius(0.45, 0.0, [0.3, 0.25], [0.0, 0.31])
    assert with_steep_third < 0.95 * flat_runner_up
