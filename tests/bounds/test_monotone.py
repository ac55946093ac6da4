"""Every bound moves the way the theory says, in every argument."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from smoothcert import bounds

# The published numbers are right to about 1e-13 before they are rounded to the safe side.
SLACK = 1e-12

unit = st.floats(0.0, 1.0)
distance = st.floats(0.0, 9.0)
gradient = st.floats(0.0, 0.5)


def falls(*values):
    return all(b <= a * (1 + SLACK) + SLACK for a, b in itertools.pairwise(values))


@given(p=st.tuples(unit, unit), g=st.tuples(gradient, gradient), r=st.tuples(distance, distance))
def test_first_and_second_order(p, g, r):
    (p0, p1), (g0, g1), (r0, r1) = sorted(p), sorted(g), sorted(r)
    for function in (bounds.first_order_lower_bound, bounds.first_order_upper_bound):
        assert falls(function(p1, r0), function(p0, r0))
    assert falls(bounds.first_order_lower_bound(p0, r0), bounds.first_order_lower_bound(p0, r1))
    assert falls(bounds.first_order_upper_bound(p0, r1), bounds.first_order_upper_bound(p0, r0))
    assert falls(bounds.first_order_radius(p1), bounds.first_order_radius(p0))

    lower, upper = bounds.second_order_lower_bound, bounds.second_order_upper_bound
    assert falls(lower(p1, g0, r0), lower(p0, g0, r0))
    assert falls(lower(p0, g0, r0), lower(p0, g1, r0))
    assert falls(lower(p0, g0, r0), lower(p0, g0, r1))
    assert falls(upper(p1, g0, r0), upper(p0, g0, r0))
    assert falls(upper(p0, g1, r0), upper(p0, g0, r0))
    assert falls(upper(p0, g0, r1), upper(p0, g0, r0))
    assert falls(bounds.second_order_radius(p1, g0), bounds.second_order_radius(p0, g0))
    assert falls(bounds.second_order_radius(p0, g0), bounds.second_order_radius(p0, g1))
    assert lower(p0, g0, r0) >= bounds.first_order_lower_bound(p0, r0)
    assert upper(p0, g0, r0) <= bounds.first_order_upper_bound(p0, r0)
    assert bounds.second_order_radius(p0, g0) >= bounds.first_order_radius(p0)


@given(
    a=st.tuples(unit, unit), b=st.tuples(unit, unit), r=st.tuples(distance, distance), g=st.tuples(gradient, gradient)
)
def test_dipole_and_second_order_dipole(a, b, r, g):
    (both0, both1), (r0, r1), (g0, g1) = sorted(a), sorted(r), sorted(g)
    one0, one1 = (x * (1 - both1) / 2 for x in sorted(b))
    lower, upper = bounds.dipole_lower_bound, bounds.dipole_upper_bound
    assert falls(lower(both1, one0, r0), lower(both0, one0, r0))
    assert falls(lower(both0, one1, r0), lower(both0, one0, r0))
    assert falls(lower(both0, one0, r0), lower(both0, one0, r1))
    assert falls(upper(both0, one0, r1), upper(both0, one0, r0))
    assert falls(bounds.dipole_radius(both1, one0), bounds.dipole_radius(both0, one0))
    assert falls(bounds.dipole_radius(both0, one1), bounds.dipole_radius(both0, one0))
    # Knowing pairs is knowing more than their sum.
    total = min(both0 + one0, 1.0)
    assert lower(both0, one0, r0) >= bounds.first_order_lower_bound(total, r0) * (1 - SLACK) - SLACK
    assert upper(both0, one0, r0) <= bounds.first_order_upper_bound(total, r0) * (1 + SLACK) + SLACK

    radius = bounds.second_order_dipole_radius
    solver = 1e-9  # The optimiser stops a little short of the best multipliers.
    assert radius(both1, one0, g0) >= radius(both0, one0, g0) * (1 - solver)
    assert radius(both0, one0, g0) >= radius(both0, one0, g1) * (1 - solver)


@given(p=unit, rival=st.tuples(unit, unit))
def test_a_stronger_rival_certifies_less(p, rival):
    weak, strong = sorted(rival)
    assert falls(bounds.first_order_radius(p, weak), bounds.first_order_radius(p, strong))
    assert bounds.first_order_radius(p, strong) >= bounds.first_order_radius(p) * (1 - SLACK)


@given(p=unit, g=gradient, rivals=st.lists(st.tuples(unit, gradient), min_size=1, max_size=4))
def test_more_rivals_certify_less(p, g, rivals):
    p_rivals, g_rivals = np.transpose(rivals)
    all_of_them = bounds.second_order_multiclass_radius(p, g, p_rivals, g_rivals)
    first = bounds.second_order_multiclass_radius(p, g, p_rivals[:1], g_rivals[:1])
    assert falls(first, all_of_them, bounds.second_order_radius(p, g))
