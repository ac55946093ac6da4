"""Exact noise: what it costs, its law over very many draws, and the radii beside those of noise in floating point.

Run ``python benchmarks/exact_noise.py [rates|draws|radii]``; without a name all three, in some minutes.
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier
from skorch import NeuralNetClassifier

from smoothcert import DirectionalCertifier, FirstOrderCertifier, SecondOrderCertifier, SmoothedClassifier
from smoothcert._noise import Seed
from smoothcert._noise._discrete_gaussian import discrete_gaussian

sys.path.insert(0, str(Path(__file__).parent))
from throughput import NETWORKS


def frozen(make):
    """The network with random weights, as a trained base; rates do not depend on weights."""
    torch.manual_seed(0)
    module, shape = make()
    net = NeuralNetClassifier(module, verbose=0, classes=list(range(10))).initialize()
    X = np.random.default_rng(0).random((4, *shape)).astype(np.float32)
    return FrozenEstimator(net), X


def perceptron():
    """A base of scikit-learn, on 8 x 8 digits."""
    X, y = load_digits(return_X_y=True)
    base = MLPClassifier((64,), max_iter=30, random_state=0).fit(X[:500] / 16, y[:500])
    return FrozenEstimator(base), X[-4:] / 16


BASES = {name: partial(frozen, make) for name, (make, _, _) in NETWORKS.items()}
BASES["scikit-learn MLP 64-64-10"] = perceptron
CERTIFIERS = {
    "first order": FirstOrderCertifier,
    "second order": SecondOrderCertifier,
    "directional": DirectionalCertifier,
}


def rates(rounds=7):
    """Print processor time of noise in floating point over that of exact noise, by turns, median of some rounds."""
    torch.set_num_threads(1)
    for name, make in BASES.items():
        base, X = make()
        n_samples = 4000 if "3x32" in name else 20_000
        for certifier, kind in CERTIFIERS.items():
            models = []
            for settings in ({}, {"noise": "exact"}, {"noise": "exact", "quantum": 1 / 255}):
                clf = SmoothedClassifier(base, certifier=kind(n_samples=n_samples), random_state=0, **settings)
                models.append(clf.fit(X, [0, 1, 2, 3]))
                models[-1].certify(X[:1])
            seconds = []
            for turn in range(rounds):
                row = X[turn % 4 : turn % 4 + 1]
                seconds.append([])
                for clf in models:
                    start = time.process_time()
                    clf.certify(row)
                    seconds[-1].append(time.process_time() - start)
            seconds = np.array(seconds)
            default, pixels = (np.median(seconds[:, 0] / seconds[:, k]) for k in (1, 2))
            print(
                f"{name:26} {certifier:13} {n_samples / np.median(seconds[:, 0]):9,.0f} samples a second; "
                f"exact noise has {default:.2f} of the rate, with quantum=1/255 {pixels:.2f}",
                flush=True,
            )


def draws(n=10**8):
    """Print tests of the law of whole numbers over very many draws."""
    for ratio in (Fraction(0.25) / Fraction(1 / 255), Fraction(2**10)):
        law = discrete_gaussian(ratio)
        numbers = np.arange(-law.largest - 1, law.largest + 2)
        found, drawn = np.zeros(len(numbers), dtype=np.int64), 0
        out = np.empty(2**20)
        while drawn < n:
            law.levels(Seed(2, 1, 0, drawn), out)
            found += np.bincount((out + law.largest + 1).astype(np.int64), minlength=len(numbers))
            drawn += len(out)
        ends = np.append(numbers, numbers[-1] + 1) - 0.5
        low, high = stats.norm.cdf(ends / float(ratio)), stats.norm.sf(ends / float(ratio))
        expected = drawn * np.where(ends[:-1] > 0, high[:-1] - high[1:], low[1:] - low[:-1])
        common = expected > 20
        observed = np.append(found[common], found[~common].sum())
        wanted = np.append(expected[common], expected[~common].sum())
        result = stats.chisquare(observed, wanted * observed.sum() / wanted.sum())
        print(
            f"ratio {float(ratio):g}: {drawn:,} draws, {len(observed)} groups, chi-square {result.statistic:.1f}, "
            f"p-value {result.pvalue:.3f}; largest {np.abs(numbers[found > 0]).max() / float(ratio):.3f} sigma; beyond "
            f"the common levels {observed[-1]} of {wanted[-1]:.1f} expected"
        )


def radii():
    """Print mean radii of both kinds of noise on digits."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    base = FrozenEstimator(MLPClassifier((64,), max_iter=60, random_state=0).fit(X[:1000], y[:1000]))
    for certifier, kind in CERTIFIERS.items():
        found = []
        for settings in ({}, {"noise": "exact"}, {"noise": "exact", "quantum": 1 / 16}):
            clf = SmoothedClassifier(base, certifier=kind(n_samples=20_000), random_state=0, **settings).fit(X, y)
            found.append(clf.certify(X[1000:1020]).radius)
        plain, fine, given = found
        print(
            f"{certifier:13} mean radius {plain.mean():.5f}; exact {fine.mean() / plain.mean() - 1:+.3%}, with "
            f"quantum=1/16 {given.mean() / plain.mean() - 1:+.3%}"
        )


if __name__ == "__main__":
    for name in sys.argv[1:] or ["rates", "draws", "radii"]:
        {"rates": rates, "draws": draws, "radii": radii}[name]()
