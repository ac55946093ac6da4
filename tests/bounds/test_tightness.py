"""Each certificate is attained: its worst-case classifier changes the vote exactly at the certified radius."""

import numpy as np
import pytest

from smoothcert import bounds, worst_case

PAIRS = [
    (bounds.first_order_radius, worst_case.first_order_worst_case, (0.6,)),
    (bounds.first_order_radius, worst_case.first_order_worst_case, (0.999,)),
    (bounds.second_order_radius, worst_case.second_order_worst_case, (0.8, 0.0)),
    (bounds.second_order_radius, worst_case.second_order_worst_case, (0.8, 0.15)),
    (bounds.second_order_radius, worst_case.second_order_worst_case, (0.9999, 2e-4)),
    (bounds.second_order_radius, worst_case.second_order_worst_case, (0.8, 3.0)),
    (bounds.dipole_radius, worst_case.dipole_worst_case, (0.7, 0.1)),
    (bounds.dipole_radius, worst_case.dipole_worst_case, (0.9, 0.0)),
    (bounds.dipole_radius, worst_case.dipole_worst_case, (0.4, 0.3)),
    (bounds.second_order_dipole_radius, worst_case.second_order_dipole_worst_case, (0.7, 0.1, 0.1)),
    (bounds.second_order_dipole_radius, worst_case.second_order_dipole_worst_case, (0.95, 0.02, 0.01)),
    (bounds.second_order_dipole_radius, worst_case.second_order_dipole_worst_case, (0.4, 0.25, 0.2)),
    (bounds.second_order_dipole_radius, worst_case.second_order_dipole_worst_case, (0.7, 0.1, 0.5)),
]
IDS = [f"{radius.__name__}{arguments}" for radius, _, arguments in PAIRS]


@pytest.mark.parametrize(("radius", "worst", "arguments"), PAIRS, ids=IDS)
def test_vote_is_even_exactly_at_the_radius(radius, worst, arguments):
    classifier = worst(*arguments)
    r = float(radius(*arguments))
    assert abs(float(classifier.probability(r)) - 0.5) < 1e-9
    assert float(classifier.probability(0.0)) == pytest.approx(_probability(arguments, radius), abs=1e-9)
    assert float(classifier.probability(0.99 * r)) > 0.5 > float(classifier.probability(1.01 * r))


@pytest.mark.parametrize(("radius", "worst", "arguments"), PAIRS, ids=IDS)
def test_vote_is_even_at_the_radius_by_sampling_in_three_dimensions(radius, worst, arguments):
    rng = np.random.default_rng(0)
    direction = np.array([1.0, -2.0, 2.0]) / 3.0
    classifier = worst(*arguments)
    n = 400_000
    hits = classifier.predict(rng.standard_normal((n, 3)) + float(radius(*arguments)) * direction, direction)
    # Five standard deviations: each case raises a false alarm with probability 6e-7.
    assert abs(hits.mean() - 0.5) < 5 * 0.5 / np.sqrt(n)


@pytest.mark.parametrize(("both", "one_sided", "grad_norm"), [(0.7, 0.1, 0.1), (0.95, 0.02, 0.01), (0.4, 0.25, 0.2)])
def test_worst_case_of_the_pair_programme_has_the_given_statistics(both, one_sided, grad_norm):
    classifier = worst_case.second_order_dipole_worst_case(both, one_sided, grad_norm)
    z = np.linspace(-9.0, 9.0, 1_800_001)
    weight = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    inside = classifier.contains(z)
    assert np.sum(weight * inside * inside[::-1]) == pytest.approx(both, abs=1e-5)
    assert np.sum(weight * inside * ~inside[::-1]) == pytest.approx(one_sided, abs=1e-5)
    assert classifier.grad_norm == pytest.approx(grad_norm, abs=1e-7)


def _probability(arguments, radius):
    return arguments[0] + arguments[1] if "dipole" in radius.__name__ else arguments[0]


def test_classifier_refuses_a_useless_direction():
    classifier = worst_case.first_order_worst_case(0.7)
    points = np.zeros((2, 3))
    for direction in ([0.0, 0.0, 0.0], [1.0, np.nan, 0.0], [1.0, 0.0]):
        with pytest.raises(ValueError, match="direction"):
            classifier.predict(points, direction)
    with pytest.raises(ValueError, match="X must have shape"):
        classifier.predict([0.0, 1.0])


@pytest.mark.parametrize("worst", [worst_case.first_order_worst_case, worst_case.second_order_worst_case])
def test_worst_cases_are_one_at_a_time(worst):
    arguments = ([0.6, 0.7],) if worst is worst_case.first_order_worst_case else ([0.6, 0.7], 0.1)
    with pytest.raises(ValueError, match="p must be a single number"):
        worst(*arguments)
