"""Looks at growing evidence: levels add up to alpha, and the largest radius over all looks keeps the promise."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from helpers import certifiers_under_test as under_test
from scipy import stats
from sklearn.base import clone

from smoothcert import DirectionalCertifier, FirstOrderCertifier
from smoothcert.certifiers._looks import LEAST_SAMPLES, plan_looks
from smoothcert.certifiers._prospect import first_order_prospect, scaled_prospect
from smoothcert.confidence import binomial_lower
from smoothcert.tallies import GradientTally, PairTally, Tally, VoteTally
from smoothcert.testing import sample_tally
from smoothcert.testing._certifier import FALSE_ALARM, situations

ALPHA = 0.05


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("n_samples", [2, 4, 500, 998, 1000, 1998, 10_000, 100_000, 1_000_000])
@pytest.mark.parametrize("largest_block", [128, 256, 2048])
def test_looks_are_at_whole_blocks_and_halve(n_samples, sides, largest_block):
    looks = plan_looks(n_samples // sides, sides, largest_block, ALPHA)
    draws = [looks.draws(look) for look in range(looks.n_early + 4)]
    assert all(later == 2 * earlier for earlier, later in pairwise(draws))
    assert all(n % looks.block == 0 for n in draws)
    assert 1 <= looks.block <= largest_block
    full = sides * draws[looks.n_early]
    assert 0.99 * n_samples <= full <= n_samples or n_samples - full < 2 * sides
    if n_samples >= 2 * LEAST_SAMPLES:
        assert LEAST_SAMPLES <= sides * draws[0] < 2 * LEAST_SAMPLES
    else:
        assert looks.n_early == 0
    assert looks.last(looks.draws(looks.n_early)) == looks.n_early
    assert looks.last(4 * looks.draws(looks.n_early)) == looks.n_early + 2
    assert [looks.at_least(n) for n in draws] == list(range(len(draws)))
    assert looks.at_least(draws[1] + 1) == 2


@pytest.mark.parametrize("alpha", [0.001, 0.05, 1 / 3, 1e-300])
@pytest.mark.parametrize("n_samples", [300, 1000, 3000, 10**5, 10**7])
def test_levels_do_not_exceed_alpha_together(alpha, n_samples):
    """Exactly, in fractions, with the rest of the endless series added."""
    looks = plan_looks(n_samples, 1, 2048, alpha)
    levels = [Fraction(looks.level(look)) for look in range(looks.n_early + 40)]
    total = sum(levels) + levels[-1]  # each later look has half of the one before
    assert total <= Fraction(alpha)
    assert total > Fraction(alpha) * Fraction(999, 1000)
    screened = plan_looks(n_samples, 1, 2048, 0.1 * alpha, equal=True)
    rest = plan_looks(n_samples, 1, 2048, (1.0 - 0.1) * alpha)
    both = sum(Fraction(screened.level(look)) for look in range(screened.n_early + 1))
    both += sum(Fraction(rest.level(look)) for look in range(rest.n_early + 40)) + Fraction(
        rest.level(rest.n_early + 39)
    )
    assert both <= Fraction(alpha)
    with pytest.raises(ValueError, match="the last one"):
        screened.level(screened.n_early + 1)


def error_of_largest(p, ends, levels):
    """Probability that the lower limit of some look exceeds `p`, by the exact law of the votes: those without an error
    so far, look by look."""
    error, law, before = 0.0, np.ones(1), 0
    for n, level in zip(ends, levels, strict=True):
        law = np.convolve(law, stats.binom.pmf(np.arange(n - before + 1), n - before, p))
        wrong = binomial_lower(np.arange(n + 1), n, level) > p
        error += law[wrong].sum()
        law[wrong] = 0.0
        before = n
    return error


def truths(ends, levels):
    """Just below limits that a look may give: where errors are most likely."""
    for n, level in zip(ends, levels, strict=True):
        for share in (0.6, 0.9, 0.99):
            for hits in {round(share * n), min(round(share * n) + 7, n), n}:
                yield float(binomial_lower(hits, n, level)) * (1 - 1e-12)


def test_exact_error_of_the_largest_radius_over_looks():
    """Every outcome of the random walk of votes is counted; nothing is simulated."""
    looks = plan_looks(2000, 1, 2048, ALPHA)
    ends = [looks.draws(look) for look in range(looks.n_early + 2)]
    levels = [looks.level(look) for look in range(len(ends))]
    errors = [error_of_largest(p, ends, levels) for p in truths(ends, levels)]
    assert 0.6 * ALPHA < max(errors) <= ALPHA


def test_looking_again_and_again_at_full_alpha_breaks_the_promise():
    looks = plan_looks(2000, 1, 2048, ALPHA)
    ends = [looks.draws(look) for look in range(looks.n_early + 2)]
    levels = [ALPHA] * len(ends)
    assert max(error_of_largest(p, ends, levels) for p in truths(ends, levels)) > 1.5 * ALPHA


def quick(certifier):
    """The certifier with few samples and, if it has bins, few of them: quick plans."""
    certifier = under_test.with_samples(clone(certifier).set_params(alpha=ALPHA), 1200)
    return certifier.set_params(n_bins=10) if hasattr(certifier, "n_bins") else certifier


def largest_radius(certifier, situation, n_rows, seed, full_alpha=False):
    """Largest radius over all looks, one beyond the full number of samples and those of the screen among them."""
    n_features, n_classes, rng = 2, 3, np.random.default_rng(seed)
    sides = 2 if certifier.pairing == "antithetic" else 1
    settings = {"n_classes": n_classes, "n_rows": n_rows, "n_features": n_features}
    plan = getattr(sample_tally(certifier, situation.classify, seed=seed, n_pilots=5, **settings), "plan", None)
    largest = np.zeros(n_rows)

    def look_at(own, looks, last, plan):
        tally = own.new_tally(n_rows, n_features, n_classes, np.zeros(n_rows, int), plan)
        for look in range(last + 1):
            new = looks.draws(look) - (looks.draws(look - 1) if look else 0)
            noise = rng.standard_normal((n_rows, new, n_features))
            votes = situation.classify(noise)
            tally.update(noise, np.stack([votes, situation.classify(-noise)], axis=1) if sides == 2 else votes)
            level = looks.alpha if full_alpha else looks.level(look)
            np.maximum(largest, own.at_level(level).certify_tally(tally).radius, out=largest)

    alpha, screen = certifier.alpha, certifier.screen()
    if screen is not None:
        of_screen, alpha = screen.part * alpha, (1 - screen.part) * alpha
        looks = plan_looks(screen.certifier.n_samples, 1, 2048, of_screen, equal=True)
        look_at(screen.certifier, looks, looks.n_early, None)
    looks = plan_looks(certifier.n_samples // sides, sides, 2048, alpha)
    look_at(certifier, looks, looks.n_early + 1, plan)
    return largest


SLOW = {"DirectionalCertifier": 40, "SecondOrderDipoleCertifier": 100, "DipoleCertifier": 200}
"""Fewer runs of those that take long."""

TIGHT = [situation for situation in situations() if situation.name in ("half-space", "two rivals")]


@pytest.mark.simulation
@pytest.mark.slow
@pytest.mark.parametrize("situation", TIGHT, ids=lambda situation: situation.name)
@pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)
def test_largest_radius_over_looks_keeps_the_promise(certifier, situation):
    certifier = quick(certifier)
    n_runs = SLOW.get(type(certifier).__name__, 1000)
    radius = largest_radius(certifier, situation, n_runs, seed=1)
    wrong = int(np.sum(radius > situation.truth(certifier.against) + 1e-12))
    assert wrong <= stats.binom.ppf(1 - FALSE_ALARM, n_runs, ALPHA)


@pytest.mark.slow
def test_the_coverage_test_finds_looks_at_full_alpha():
    certifier = FirstOrderCertifier(n_samples=2000, alpha=ALPHA, **under_test.AGAINST_HALF)
    radius = largest_radius(certifier, TIGHT[0], 2000, seed=1, full_alpha=True)
    assert int(np.sum(radius > TIGHT[0].half)) > stats.binom.ppf(1 - FALSE_ALARM, 2000, ALPHA)


@pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)
def test_another_level_leaves_the_certifier_as_it_is(certifier):
    before = certifier.get_params()
    other = certifier.at_level(1e-5)
    assert type(other) is type(certifier)
    assert other.get_params() == {**before, "alpha": 1e-5}
    assert certifier.get_params() == before


@pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)
def test_scaled_evidence_is_what_more_samples_would_give(certifier):
    """Four times the evidence promises more at the same level, and not wildly more."""
    certifier, situation = quick(certifier), TIGHT[0]
    settings = {"n_classes": 3, "n_rows": 3, "n_features": 2, "seed": 0}
    tally = sample_tally(certifier, situation.classify, **settings)
    prospect = scaled_prospect(certifier, tally, 4, ALPHA)
    now = certifier.certify_tally(tally).radius
    assert np.all(prospect > now)
    assert np.all(prospect < now + 0.6)


def test_scaled_sums_leave_unbiased_estimates_as_they_are():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((1, 400, 3))
    hit = noise[..., 0] < 0.5
    gradient = GradientTally.empty(1, 3)
    gradient.update(noise, hit)
    pairs = PairTally.empty(1, 3)
    pairs.update(noise, np.stack([hit, noise[..., 0] > -0.5], axis=1))
    for tally in (gradient, pairs):
        np.testing.assert_allclose(tally.scaled(64).norm_sq, tally.norm_sq, rtol=0.01)
    votes = VoteTally([[70, 20, 10]], 100, [0]).scaled(8)
    assert votes.counts.tolist() == [[560, 160, 80]]
    assert votes.n.tolist() == [800]


def test_a_tally_that_cannot_be_scaled_has_the_prospect_of_its_votes():
    class Unknown(VoteTally):
        squared = None

    tally = Unknown([[70, 20, 10]], 100, [0])
    assert tally.scaled(4) is None
    assert scaled_prospect(FirstOrderCertifier(), tally, 4, 0.001) == 0.0
    assert Tally.class_and_rival(tally) is None


def test_prospect_of_votes_is_optimistic():
    n = np.array([1000])
    for p, q in [(0.9, 0.05), (0.6, 0.3), (0.4, 0.3)]:
        truth = (stats.norm.ppf(p) - stats.norm.ppf(q)) / 2
        hits, rivals = stats.binom.ppf(0.02, n, p), stats.binom.ppf(0.98, n, q)  # unlucky votes
        assert first_order_prospect(hits, rivals, n, "rivals") > truth
    assert first_order_prospect(n, 0 * n, n, "half") == np.inf
    assert first_order_prospect(n // 4, n // 2, n, "half") == 0.0


def test_a_smaller_pilot_where_gradients_give_the_direction():
    certifier = DirectionalCertifier(100_000)
    assert certifier.for_looks(gradients=True).pilot_fraction == 0.1
    assert certifier.for_looks(gradients=False) is certifier
    assert certifier.pilot_fraction == 0.2
    few = DirectionalCertifier(2400)
    few.for_looks(gradients=True).check_params()
    assert DirectionalCertifier(10**5, pilot_fraction=0.02).for_looks(gradients=True).pilot_fraction == 0.02
    assert FirstOrderCertifier().for_looks(gradients=True).n_samples == 100_000


def test_the_screen_of_the_directional_certificate():
    certifier = DirectionalCertifier(50_000, alpha=0.01, pilot_fraction=0.1)
    screen = certifier.screen()
    assert screen.certifier.n_samples == 5000
    assert screen.certifier.against == "rivals"
    for other in ({"against": "half"}, {"rivals": None}):
        assert clone(certifier).set_params(**other).screen().certifier.against == "half"
    assert FirstOrderCertifier().screen() is None
