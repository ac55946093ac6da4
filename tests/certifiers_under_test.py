"""All certifiers the package exports, in all their modes; a new one is tested by existing."""

import itertools

import numpy as np

import smoothcert
from smoothcert.certifiers import BaseCertifier
from smoothcert.tallies import GradientTally, PairTally, VoteTally

# Values of the parameters that choose a mode. Those of a certifier not listed here are left at their defaults.
MODES = {
    "multiclass": [False, True],
    "gradient_bound": ["centred", "paper"],
    "inference": ["joint", "split", "paper"],
}


def exported_certifiers():
    exported = (getattr(smoothcert, name) for name in smoothcert.__all__)
    return [c for c in exported if isinstance(c, type) and issubclass(c, BaseCertifier)]


def certifiers_in_all_modes():
    for certifier in exported_certifiers():
        names = [name for name in certifier().get_params() if name in MODES]
        for values in itertools.product(*(MODES[name] for name in names)):
            yield certifier(**dict(zip(names, values, strict=True)))


def name(certifier):
    modes = {key: value for key, value in certifier.get_params().items() if key in MODES}
    return type(certifier).__name__ + "".join(f"-{value}" for value in modes.values())


ALL = list(certifiers_in_all_modes())
IDS = [name(certifier) for certifier in ALL]


def sample_tally(certifier, classify, n_classes, n_samples, n_rows, n_features, seed, candidate=0):
    """Evidence of `n_rows` independent runs about one input at the origin; `classify` maps (..., n_features) to class
    indices."""
    rng = np.random.default_rng(seed)
    tally = certifier.new_tally(n_rows, n_features, n_classes, np.full(n_rows, candidate))
    paired = certifier.pairing == "antithetic"
    draws = n_samples // 2 if paired else n_samples
    noise = rng.standard_normal((n_rows, draws, n_features))
    votes = np.stack([classify(noise), classify(-noise)], axis=1) if paired else classify(noise)
    tally.update(noise, votes)
    return tally


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
    return None
