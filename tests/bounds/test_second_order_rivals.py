"""Second order against a rival: the norm of the gradient of the lead."""

import mpmath
import numpy as np
import pytest
from helpers.planar_classes import CLASSES, PlanarClasses
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack
from scipy.special import logit, ndtr, ndtri

from smoothcert.bounds import first_order_radius, second_order_multiclass_radius, second_order_radius

INF = np.inf

# Probabilities of class and rival; limits of the gradient norms of both and of the lead.
CASES = [
    (0.5, 0.2, INF, INF, 0.1),
    (0.5, 0.2, INF, INF, 0.0),
    (0.5, 0.2, INF, INF, 0.5),
    (0.8, 0.1, INF, INF, 0.2),
    (0.3, 0.05, INF, INF, 0.1),
    (0.97, 0.01, INF, INF, 0.05),
    (0.45, 0.3, 0.1, INF, 0.15),  # the class's own limit stops the division
    (0.45, 0.3, INF, 0.05, 0.15),  # the rival's does
    (0.45, 0.3, 0.1, 0.12, 0.5),  # the limit of the lead says nothing
]


def radius(p, rival, own, other, lead, **known):
    return second_order_multiclass_radius(p, own, [rival], [other], [lead], **known)


def least_lead(p, rival, own, other, lead, r, n_cells=500):
    """The least lead at distance `r` that votes constant on small intervals of the line of attack can have: a linear
    programme, which knows nothing of slabs."""
    edges = np.concatenate([[-INF], np.linspace(-6.0, 6.0, n_cells - 1), [INF]])
    mass, moved = np.diff(ndtr(edges)), np.diff(ndtr(edges - r))
    moment = -np.diff(np.exp(-np.square(edges) / 2.0) / np.sqrt(2.0 * np.pi))
    none = np.zeros(n_cells)
    limits = [(np.r_[-moment, moment], lead), (np.r_[-moment, none], own), (np.r_[none, moment], other)]
    limits = [(row, limit) for row, limit in limits if np.isfinite(limit)]
    rows = csr_array(np.array([row for row, _ in limits]))
    one_vote = hstack([eye_array(n_cells), eye_array(n_cells)])
    found = linprog(
        np.r_[moved, -moved],
        A_ub=vstack([rows, one_vote]),
        b_ub=np.r_[[limit for _, limit in limits], np.ones(n_cells)],
        A_eq=np.array([np.r_[mass, none], np.r_[none, mass]]),
        b_eq=[p, rival],
        bounds=(0.0, 1.0),
    )
    return found.fun


@pytest.mark.parametrize("case", CASES)
def test_is_what_a_linear_programme_finds(case):
    """Votes that are constant on intervals can do a little less harm than all, so its least lead is a little larger."""
    r = float(radius(*case))
    assert 0.0 <= least_lead(*case, r) < 1e-4
    assert least_lead(*case, 1.005 * r) < 0.0


@pytest.mark.parametrize("case", [case for case in CASES if case[2] == case[3] == INF])
def test_against_fifty_digits(case):
    """Two slabs with parallel chords, which together lose the limit of the lead at first and meet at the radius."""
    p, rival, _, _, lead = case
    r = float(radius(*case))
    with mpmath.workdps(50):
        p, rival, lead = mpmath.mpf(p), mpmath.mpf(rival), mpmath.mpf(lead)

        def quantile(mass):
            return mpmath.sqrt(2) * mpmath.erfinv(2 * mass - 1)

        def conditions(x, y, r):
            a, b = (1 - p) / (1 + mpmath.exp(-x)), rival / (1 + mpmath.exp(-y))
            ends = [(quantile(a), quantile(a + p)), (quantile(b), quantile(b + 1 - rival))]
            slopes = [(mpmath.exp(r * v) - mpmath.exp(r * u)) / (v - u) for u, v in ends]
            at_first = sum(mpmath.npdf(v) - mpmath.npdf(u) for u, v in ends)
            kept = sum(mpmath.ncdf(v - r) - mpmath.ncdf(u - r) for u, v in ends)
            return [slopes[0] - slopes[1], at_first - lead, kept - 1]

        # Start from a coarse search in double precision.
        below = np.linspace(0.001, 0.999, 60)
        a, b = (outside * below for outside in (float(1 - p), float(rival)))
        u, v = (ndtri(a), ndtri(b)), (ndtri(a + float(p)), ndtri(b + float(1 - rival)))
        slope = [(np.exp(r * v[i]) - np.exp(r * u[i])) / (v[i] - u[i]) for i in range(2)]
        speed = [(np.exp(-(v[i] ** 2) / 2) - np.exp(-(u[i] ** 2) / 2)) / np.sqrt(2 * np.pi) for i in range(2)]
        gap = np.abs(slope[0][:, None] - slope[1]) + np.abs(speed[0][:, None] + speed[1] - float(lead))
        i, j = np.unravel_index(np.argmin(gap), gap.shape)
        *_, exact = mpmath.findroot(conditions, (logit(below[i]), logit(below[j]), r), tol=1e-40, maxsteps=100)
        assert r <= exact
        assert exact - r < 1e-8


def test_never_below_two_norms_and_first_order():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.95, 60)
    rival = rng.uniform(0.02, 0.98, 60) * np.minimum(p, 1.0 - p)
    own, other, lead = rng.uniform(0.0, 0.4, (3, 60))
    found = radius(p, rival[:, None], own, other[:, None], lead[:, None])
    plain = second_order_multiclass_radius(p, own, rival[:, None], other[:, None])
    assert np.all(found >= plain * (1.0 - 1e-9))
    assert np.all(found >= first_order_radius(p, rival))
    shorter = radius(p, rival[:, None], own, other[:, None], 0.9 * lead[:, None])
    assert np.all(shorter >= found * (1.0 - 1e-8))


def test_against_all_that_is_left_it_is_the_certificate_against_one_half():
    for p, grad_norm in ((0.7, 0.1), (0.9, 0.05), (0.6, 0.0)):
        both = radius(p, 1.0 - p, INF, INF, 2.0 * grad_norm)
        assert both == pytest.approx(second_order_radius(p, grad_norm), rel=1e-7)


def test_more_votes_for_the_class_are_no_harm():
    """Where its slab would lie on one side of the input, a larger share could be worse; limits are lower ones."""
    for rival in (1e-4, 1e-3):
        p = np.array([0.05, 0.06, 0.1, 0.2])
        found = radius(p, np.full((4, 1), rival), INF, INF, 0.0)
        assert np.all(np.diff(found) > 0.0)


@pytest.mark.parametrize("lead", [0.05, 0.3])
@pytest.mark.parametrize(("p", "rival", "by_votes"), [(0.49, 0.21, 0.44), (0.72, 0.12, 0.92), (0.3, 0.2, 0.18)])
def test_least_of_the_pairs_that_a_joint_limit_leaves(p, rival, by_votes, lead):
    """Brute force along the arc of pairs with the same first-order radius."""
    joint = float(radius(p, rival, INF, INF, lead, first_order=by_votes))
    own = np.linspace(p, min(ndtr(ndtri(rival) + 2.0 * by_votes), ndtr(by_votes)), 101)
    along = radius(own, ndtr(ndtri(own) - 2.0 * by_votes)[:, None], INF, INF, lead)
    assert joint <= along.min() * (1.0 + 1e-9)
    assert joint == pytest.approx(along.min(), rel=1e-8)
    assert joint > radius(p, rival, INF, INF, lead)


def test_no_pair_inside_the_arc_is_worse():
    rng = np.random.default_rng(1)
    p, by_votes, lead = rng.uniform(0.3, 0.6, 20), rng.uniform(0.3, 0.8, 20), rng.uniform(0.0, 0.5, 20)
    rival = np.minimum(ndtr(ndtri(p) - 2.0 * by_votes) * rng.uniform(1.02, 1.5, 20), ndtr(-by_votes))
    joint = second_order_multiclass_radius(p, 0.3, rival[:, None], INF, lead[:, None], by_votes[:, None])
    own = p + np.linspace(0.0, 1.0, 9)[:, None] * np.maximum(ndtr(ndtri(rival) + 2.0 * by_votes) - p, 0.0)
    other = np.minimum(ndtr(ndtri(own) - 2.0 * by_votes), 1.0 - own)
    along = second_order_multiclass_radius(own, 0.3, other[..., None], INF, lead[:, None])
    assert np.all(joint >= by_votes)
    assert np.all(joint <= along.min(axis=0) * (1.0 + 1e-9))


@pytest.mark.parametrize("name", ["three stripes", "wedges", "disk and sectors", "rival behind"])
def test_never_above_the_truth(name):
    shape, step = PlanarClasses.of(*CLASSES[name]), 1e-4
    steps = step * np.array([[1, -1, 0, 0], [0, 0, 1, -1]])
    p = np.array([float(part.probability(0.0, 0.0)) for part in shape.parts])
    moved = np.array([[float(part.probability(x, y)) for x, y in steps.T] for part in shape.parts])
    gradients = (moved[:, ::2] - moved[:, 1::2]) / (2.0 * step)
    norm = np.linalg.norm(gradients, axis=1)
    leads = np.linalg.norm(gradients[0] - gradients[1:], axis=1)
    found = second_order_multiclass_radius(p[0], norm[0], p[1:], norm[1:], leads)
    assert first_order_radius(p[0], p[1:].max()) * (1.0 - 1e-9) <= found <= shape.radius() + 1e-6
