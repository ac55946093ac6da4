"""Choosing sigma by certified accuracy: radius asked for, against a fixed number of samples.

Run: python benchmarks/search.py [--inputs 150] [--samples 100000] [--bases mlp forest]
    [--certifiers first-order default]

`GridSearchCV` over four sigmas on digits, with one split into training and held-out data, twice: with
`make_certified_scorer(radius=0.25)`, which asks for the radius, and with a scorer that certifies the same inputs with
all samples and computes the same score. Seconds of the whole search contain training; seconds of scoring do not.
Targets: the search at least 10 times faster, and the same best sigma.

The held-out data are cut to some rows, because a fixed number of samples takes long; with all of them the ratio of the
whole search would be closer to that of scoring. Results go to benchmarks/results/search.tsv, where lines of other bases
and certifiers stay.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
import warnings
from pathlib import Path

# Before torch is loaded: one thread, so that times can be compared.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from skorch import NeuralNetClassifier
from torch import nn

from smoothcert import DirectionalCertifier, FirstOrderCertifier, LongRunWarning, SmoothedClassifier
from smoothcert.metrics import _scorers, certified_accuracy_score, make_certified_scorer

RADIUS = 0.25
SIGMAS = [0.1, 0.15, 0.25, 0.4]
INPUTS = {"mlp": 150, "forest": 50}
CERTIFIERS = {"first-order": FirstOrderCertifier, "default": DirectionalCertifier}
HEADER = (
    "base\tcertifier\tinputs\tfixed_seconds\tasked_seconds\tratio\tprocessor_ratio\tfixed_scoring\tasked_scoring\t"
    "scoring_ratio\tfixed_samples\tasked_samples\tfixed_best\tasked_best\tlargest_difference_of_scores\ttarget_ratio"
)


def mlp():
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)]
    return NeuralNetClassifier(
        nn.Sequential(*layers),
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=0.003,
        max_epochs=15,
        batch_size=64,
        train_split=None,
        verbose=0,
    )


def forest():
    return RandomForestClassifier(50, random_state=0)


BASES = {"mlp": mlp, "forest": forest}


def fixed_scorer(estimator, X, y):
    """Certify with all samples of all inputs, and score."""
    return certified_accuracy_score(y, _scorers.certify_to_choose(estimator, X), RADIUS)


def search(base, certifier, scoring, n_inputs):
    """Return the search, its seconds, those in which the processor worked for it, and the mean samples of an input."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    torch.manual_seed(0)  # both searches train the same nets
    model = SmoothedClassifier(base(), n_augment=3, certifier=certifier, random_state=0)
    split = ShuffleSplit(1, train_size=300, test_size=n_inputs, random_state=0)
    run = GridSearchCV(model, {"sigma": SIGMAS}, scoring=scoring, cv=split, refit=False, error_score="raise")
    samples, original = [], _scorers.certify_to_choose

    def record(*arguments, **settings):
        certificates = original(*arguments, **settings)
        samples.append(np.mean(certificates.samples_used))
        return certificates

    _scorers.certify_to_choose = record
    try:
        start, busy = time.perf_counter(), time.process_time()
        run.fit(X, y)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    finally:
        _scorers.certify_to_choose = original
    return run, seconds, busy, np.mean(samples)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, help=f"held-out inputs; by default {INPUTS}")
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--bases", nargs="+", choices=list(BASES), default=list(BASES))
    parser.add_argument("--certifiers", nargs="+", choices=list(CERTIFIERS), default=list(CERTIFIERS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", LongRunWarning)
    about = (
        f"# digits, radius {RADIUS}, sigma in {SIGMAS}; one process of {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )
    path = Path(__file__).parent / "results" / "search.tsv"
    path.parent.mkdir(exist_ok=True)
    lines = {tuple(line.split("\t")[:2]): line for line in path.read_text().splitlines()[2:]} if path.exists() else {}
    for certifier in options.certifiers:
        for base in options.bases:
            n_inputs = options.inputs or INPUTS[base]
            found = [
                search(BASES[base], CERTIFIERS[certifier](options.samples), scoring, n_inputs)
                for scoring in (make_certified_scorer(RADIUS), fixed_scorer)
            ]
            (asked, asked_seconds, asked_busy, asked_samples), (fixed, fixed_seconds, fixed_busy, fixed_samples) = found
            scoring = [float(np.sum(run.cv_results_["mean_score_time"])) for run in (fixed, asked)]
            difference = np.abs(asked.cv_results_["mean_test_score"] - fixed.cv_results_["mean_test_score"]).max()
            cells = [base, certifier, str(n_inputs), f"{fixed_seconds:.1f}", f"{asked_seconds:.1f}"]
            cells += [
                f"{fixed_seconds / asked_seconds:.1f}",
                f"{fixed_busy / asked_busy:.1f}",
                f"{scoring[0]:.1f}",
                f"{scoring[1]:.1f}",
            ]
            cells += [f"{scoring[0] / scoring[1]:.1f}", f"{fixed_samples:.0f}", f"{asked_samples:.0f}"]
            cells += [str(run.best_params_["sigma"]) for run in (fixed, asked)]
            line = "\t".join([*cells, f"{difference:.3f}", "10"])
            lines[base, certifier] = line
            print(line, flush=True)
            path.write_text("\n".join([about, HEADER, *lines.values()]) + "\n")


if __name__ == "__main__":
    main()
