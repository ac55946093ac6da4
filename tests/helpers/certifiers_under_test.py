"""All certifiers the package exports, in all their modes, and the one that the documentation writes.

A new one is tested by existing.
"""

import itertools
from dataclasses import replace

import numpy as np
from hoeffding_certifier import HoeffdingCertifier
from sklearn.base import clone

import smoothcert
from smoothcert import testing
from smoothcert.bounds._directional._integral import bin_masses
from smoothcert.certifiers import BaseCertifier
from smoothcert.certifiers._directional._designs import design_shares
from smoothcert.certifiers._directional._plan import plan_from_pilot
from smoothcert.certifiers._directional._rival_plan import _fill, _first_order, _plan_tests, plan_against_rivals
from smoothcert.tallies import (
    DirectionalPlan,
    DirectionalTally,
    GradientTally,
    PairTally,
    RivalPlan,
    RivalTally,
    VoteTally,
)

# Values of the parameters that choose a mode. Those of a certifier not listed here are left at their defaults.
MODES = {
    "against": ["rivals", "half"],
    "gradient_bound": ["centred", "paper"],
    "inference": ["joint", "split", "paper"],
}


AGAINST_HALF = {"against": "half"}
"""What compares the class with one half, where that can be chosen."""


def exported_certifiers():
    exported = (getattr(smoothcert, name) for name in smoothcert.__all__)
    return [c for c in exported if isinstance(c, type) and issubclass(c, BaseCertifier)]


def certifiers_in_all_modes():
    for certifier in [*exported_certifiers(), HoeffdingCertifier]:
        names = [name for name in certifier().get_params() if name in MODES]
        for values in itertools.product(*(MODES[name] for name in names)):
            yield certifier(**dict(zip(names, values, strict=True)))


def name(certifier):
    modes = {key: value for key, value in certifier.get_params().items() if key in MODES}
    return type(certifier).__name__ + "".join(f"-{value}" for value in modes.values())


ALL = list(certifiers_in_all_modes())
IDS = [name(certifier) for certifier in ALL]


def with_samples(certifier, n_samples):
    """The certifier with another number of samples, and with no more bins than they can fill."""
    certifier = clone(certifier).set_params(n_samples=n_samples)
    if "n_bins" in certifier.get_params():
        certifier.set_params(n_bins=min(certifier.n_bins, n_samples // 20))
    certifier.check_params()
    return certifier


def sample_tally(certifier, classify, n_classes, n_samples, n_rows, n_features, seed, **settings):
    """Evidence of `n_rows` runs of the certifier, with `n_samples` samples each."""
    settings |= {"n_classes": n_classes, "n_rows": n_rows, "n_features": n_features, "seed": seed}
    return testing.sample_tally(with_samples(certifier, n_samples), classify, **settings)


def extreme_tally(certifier, hits, n, n_features):
    """Evidence with `hits` votes of `n` for class 0 of three, all in the first feature."""
    n_rows = 1
    tally = certifier.new_tally(n_rows, n_features, 3, np.zeros(n_rows, int))
    if isinstance(tally, VoteTally):
        return VoteTally([[hits, n - hits, 0]], n, [0])
    if isinstance(tally, GradientTally):
        several = tally.hits.ndim == 2
        shape = (1, 3) if several else (1,)
        grad_sum = np.zeros((*shape, n_features))
        grad_sum[..., 0] = 0.2 * n
        counts = [[hits, n - hits, 0]] if several else [hits]
        return GradientTally(counts, n, grad_sum, np.full(shape, n * n_features / 4), tally.centre, [0])
    if isinstance(tally, PairTally):
        pairs = n // 2
        both, one = divmod(hits, 2) if hits <= 2 * pairs else (pairs, 0)
        sums = {}
        if tally.grad_sum is not None:
            sums = {"grad_sum": np.full((1, n_features), 0.1 * one), "grad_sq": np.array([one * n_features / 4.0])}
        one = min(one, pairs - both)
        return PairTally(both, one, pairs, one_plus=one // 2, **sums)
    if isinstance(tally, RivalTally):
        return extreme_rival_tally(certifier, hits, n, n_features)
    if isinstance(tally, DirectionalTally):
        return extreme_directional_tally(certifier, hits, n, n_features)
    return None


def forced(plan, pilot, certifier, design=None):
    """The plan against the first rival of a pilot, measured even where the pilot would not; with designed noise if a
    design is given."""
    which = np.zeros(pilot.plan.rivals.shape, bool)
    which[:, 0] = True
    by_votes, _ = _first_order(pilot, int(pilot.n.max()), certifier.alpha)
    radius = np.maximum(plan.radius, 0.02)
    shares = np.zeros((len(pilot), pilot.plan.n_strata))
    if design is not None:
        shares = design_shares(pilot.plan, design, np.minimum(radius, 3.0))
    test = _plan_tests(pilot, which, by_votes, shares, int(pilot.n.max()), certifier._levels)
    made = _fill(pilot.plan, [test], [np.arange(len(test.row))], radius, by_votes, len(pilot))
    return replace(made, design=shares)


def extreme_rival_tally(certifier, hits, n, n_features):
    """As against one half: hits in the bins farthest left, votes for the one rival in all others."""
    edges, direction = certifier._edges, np.eye(1, n_features)
    ends = np.rint(np.cumsum(bin_masses(edges)) * n).astype(np.int64)
    trials = np.diff(ends, prepend=0)
    plan = RivalPlan.towards(edges, direction, [[1]])
    squares = np.bincount(plan.strata, weights=trials) * (n_features - 1) / 2

    def tally(total, plan):
        own = np.clip(total - (ends - trials), 0, trials)
        measured = 1 + plan.rivals.shape[1]  # with very few samples no rival is
        bins = np.stack([own, trials - own])[None, :measured]
        # The class, all that are not measured, the rival.
        sums = np.zeros((1, 1 + measured, plan.n_strata, n_features))
        sums = sums, np.stack([squares, 0 * squares, squares])[None, : 1 + measured]
        return RivalTally(np.array([[total, n - total, 0]]), [n], bins, trials[None], *sums, plan, [0])

    pilot = tally(max(hits, round(0.7 * n)), plan)
    return tally(hits, forced(plan_against_rivals(pilot, n, certifier._levels), pilot, certifier))


def extreme_directional_tally(certifier, hits, n, n_features):
    """Trials spread over the bins like noise, hits in those farthest left.

    The pilot saw at least 70% of hits, so that there is a plan to be disappointed. With very few samples there is none.
    """
    edges, direction = certifier._edges, np.eye(1, n_features)
    ends = np.rint(np.cumsum(bin_masses(edges)) * n).astype(np.int64)
    trials = np.diff(ends, prepend=0)

    def from_the_left(total):
        return np.clip(total - (ends - trials), 0, trials)[None]

    plan = DirectionalPlan.towards(edges, direction)
    rest = np.bincount(plan.strata, weights=trials) * (n_features - 1) / 4
    sums = np.zeros((1, plan.n_strata, n_features)), rest[None]
    seen = max(hits, round(0.7 * n))
    pilot = DirectionalTally([seen], [n], from_the_left(seen), trials[None], *sums, plan, [0])
    plan = plan_from_pilot(pilot, n, certifier.alpha, 0.8 * certifier.alpha, 0.2 * certifier.alpha)
    # Measured even where the pilot would not.
    forced = replace(plan, measured=np.any(plan.multipliers, axis=(1, 2)), radius=np.maximum(plan.radius, 0.02))
    return replace(pilot, hits=np.array([hits]), bin_hits=from_the_left(hits), plan=forced)
