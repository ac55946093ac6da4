"""What is special to one certifier."""

import numpy as np
import pytest

from smoothcert import DipoleCertifier, FirstOrderCertifier, SecondOrderCertifier, SecondOrderDipoleCertifier
from smoothcert.bounds import first_order_radius
from smoothcert.confidence import binomial_lower, binomial_upper
from smoothcert.tallies import GradientTally, PairTally, VoteTally


def test_against_rivals_a_class_is_certified_below_one_half():
    tally = VoteTally([[4500, 3000, 2500]], 10_000, candidate=[0])
    assert FirstOrderCertifier(against="half").certify_tally(tally).radius == 0
    radius = FirstOrderCertifier().certify_tally(tally).radius
    # One joint limit instead of two at half of the level each.
    divided = first_order_radius(binomial_lower(4500, 10_000, 0.0005), binomial_upper(3000, 10_000, 0.0005))
    assert divided > 0.15
    assert radius > divided + 0.005


@pytest.mark.parametrize("counts", [9000, [9000], [[9000, 1000]], [[9000, 700]]], ids=str)
def test_one_or_two_classes_are_certified_against_one_half_with_all_of_alpha(counts):
    tally = VoteTally(counts, 10_000, candidate=[0])
    rivals, half = (FirstOrderCertifier(against=against).certify_tally(tally) for against in ("rivals", "half"))
    assert rivals.radius == half.radius == first_order_radius(binomial_lower(9000, 10_000, 0.001))
    assert "p_rival" not in rivals.limits


def test_second_order_compares_every_class():
    shape = np.zeros((1, 3, 2))
    tally = GradientTally([[45_000, 30_000, 25_000]], 100_000, shape, np.full((1, 3), 50_000.0), candidate=[0])
    flat = SecondOrderCertifier().certify_tally(tally).radius
    steep = shape.copy()
    steep[0, 2, 0] = 0.31 * 100_000
    tally_steep = GradientTally([[45_000, 30_000, 25_000]], 100_000, steep, np.full((1, 3), 50_000.0), candidate=[0])
    # The third class, with fewer votes than the runner-up, overtakes first once its gradient is known to be large.
    assert SecondOrderCertifier().certify_tally(tally_steep).radius < 0.95 * flat
    assert SecondOrderCertifier().certify_tally(GradientTally([45_000], 100_000, [[0, 0]], 5e4)).radius == 0


def test_votes_that_are_not_listed_are_one_rival():
    """30,000 of 100,000 votes for the class, and all others may be for a single rival: nothing is certain."""
    one_column = VoteTally(30_000, 100_000)
    assert one_column.rivals == 70_000
    assert FirstOrderCertifier().certify_tally(one_column).radius == 0.0
    listed = VoteTally([[55_000, 5_000, 0]], 100_000, candidate=[0])
    complete = VoteTally([[55_000, 5_000, 40_000]], 100_000, candidate=[0])
    for tally in (listed, complete):
        assert tally.rivals == 40_000
    radius = [FirstOrderCertifier().certify_tally(tally).radius for tally in (listed, complete)]
    np.testing.assert_array_equal(*radius)


def test_second_order_takes_votes_that_are_not_listed_for_one_rival():
    def tally(counts):
        classes = len(counts)
        return GradientTally([counts], 100_000, np.zeros((1, classes, 2)), np.full((1, classes), 5e4), candidate=[0])

    certifier, first = SecondOrderCertifier(), FirstOrderCertifier()
    assert certifier.certify_tally(tally([30_000])).radius == 0.0
    assert certifier.certify_tally(tally([30_000, 20_000])).radius == 0.0
    # Of the rival that is not listed no gradient is known, so the class may be lost sooner than to one that is flat.
    unknown = certifier.certify_tally(tally([55_000, 5_000, 0]))
    known = certifier.certify_tally(tally([55_000, 5_000, 40_000]))
    assert 0.0 < unknown.radius < known.radius
    assert unknown.limits["p_rivals"][0, -1] == known.limits["p_rivals"][0, 1]
    # All votes for the class: a rival that was never seen has some probability left, and the radius is finite.
    alone = certifier.certify_tally(tally([100_000])).radius
    votes = first.set_params(alpha=0.00078).certify_tally(VoteTally(100_000, 100_000)).radius
    assert alone == pytest.approx(votes, rel=1e-6)


def test_second_order_helps_at_ordinary_sample_sizes():
    tally = GradientTally.from_norm_sq(75_000, 100_000, 0.2**2, n_features=3072)
    published = GradientTally.from_norm_sq(75_000, 100_000, 0.2**2, n_features=3072, centre=0.0)
    first = FirstOrderCertifier().certify_tally(VoteTally(75_000, 100_000)).radius
    assert SecondOrderCertifier().certify_tally(tally).radius > 1.15 * first
    assert SecondOrderCertifier(gradient_bound="paper").certify_tally(published).radius < first


def test_evidence_must_fit_the_mode():
    centred = GradientTally.from_norm_sq(75_000, 100_000, 0.04, n_features=3)
    with pytest.raises(ValueError, match=r"centred at 0.0 for gradient_bound='paper', got 0.5"):
        SecondOrderCertifier(gradient_bound="paper").certify_tally(centred)
    several = GradientTally.empty(1, 2, n_classes=3, candidate=[0]).merge(
        GradientTally([[5, 3, 2]], 10, np.zeros((1, 3, 2)), np.ones((1, 3)), candidate=[0])
    )
    with pytest.raises(ValueError, match="hold one class for against='half'"):
        SecondOrderCertifier(against="half").certify_tally(several)
    with pytest.raises(ValueError, match="one_plus"):
        DipoleCertifier(inference="paper").certify_tally(PairTally(60, 30, 100))
    with pytest.raises(ValueError, match="gradient sums"):
        SecondOrderDipoleCertifier().certify_tally(PairTally(60, 30, 100))
