"""The directional bound against rivals: never above the truth, and the first order where nothing is known."""

import numpy as np
import pytest
from helpers.planar_classes import CLASSES, PlanarClasses
from scipy.special import ndtr

from smoothcert.bounds import directional_radius, directional_rival_radius, first_order_radius
from smoothcert.bounds._directional._integral import bin_masses

EDGES = np.linspace(-3.5, 3.5, 71)


def radii(name, turn, edges=EDGES):
    """The certificate with everything known, the first order, and the truth, each against all rivals."""
    shape = PlanarClasses.of(*CLASSES[name], turn)
    shares = shape.shares(edges)
    rivals = range(1, len(shares))
    certified = min(
        directional_rival_radius(shares[0], shares[b], edges, shape.gradient_across(b)) for b in rivals
    )  # fmt: skip
    p = shares @ bin_masses(edges)
    return float(certified), float(first_order_radius(p[0], p[1:].max())), shape.radius()


@pytest.mark.parametrize("turn", [0.3, 1.5])
@pytest.mark.parametrize("name", CLASSES)
def test_never_above_the_truth(name, turn):
    certified, first, truth = radii(name, turn)
    assert certified <= truth + 1e-6
    # The bins lose a little, and so do edges of the polygon; a bad direction loses what it could have gained.
    assert certified > 0.97 * first


@pytest.mark.parametrize("name", CLASSES)
def test_reaches_most_of_the_way_along_a_good_direction(name):
    certified, first, truth = radii(name, 0.0)
    assert certified > 0.9 * truth or certified > 1.03 * first


def test_half_spaces_between_which_a_third_class_has_the_votes_meet_half_way():
    edges = np.linspace(-5.0, 5.0, 201)
    shares = np.append(edges <= 0.3 + 1e-9, False).astype(float)
    rival = np.append(False, edges >= 1.1 - 1e-9).astype(float)
    assert 0.698 < directional_rival_radius(shares, rival, edges, 0.0) <= 0.7


def test_where_nothing_changes_along_the_direction_it_is_first_order():
    """The same shares in all bins, and a gradient across of which nothing is known."""
    for p, q in ((0.6, 0.2), (0.45, 0.3), (0.9, 0.1), (0.8, 0.01)):
        flat = np.full(len(EDGES) + 1, p), np.full(len(EDGES) + 1, q)
        radius = directional_rival_radius(*flat, EDGES, np.inf)
        assert radius <= first_order_radius(p, q) + 1e-9
        assert radius == pytest.approx(first_order_radius(p, q), rel=0.02)


def test_against_all_that_is_left_it_is_the_certificate_against_one_half():
    shares = ndtr(0.9 - EDGES)
    shares = np.append(shares, shares[-1])
    for grad_norm in (0.05, 0.2):
        both = directional_rival_radius(shares, 1.0 - shares, EDGES, 2.0 * grad_norm)
        assert both == pytest.approx(directional_radius(shares, EDGES, grad_norm), rel=2e-3)


def test_refuses_shares_that_do_not_fit():
    with pytest.raises(ValueError, match="sum to at most 1 in every bin"):
        directional_rival_radius([0.7, 0.5], [0.5, 0.1], [0.0], 0.1)
