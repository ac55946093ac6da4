"""How often certificates against rivals exceed the truth, on classifiers where their limits are tight.

The classes are stripes of a line, so that nothing is lost across the direction and the distance at which a rival
overtakes is a formula. Pilots are shared by some of the runs: the promise holds for every pilot.
Run: python benchmarks/coverage.py [--repetitions 2000]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr

from smoothcert import DirectionalCertifier, FirstOrderCertifier, SecondOrderCertifier
from smoothcert.testing import sample_tally

STRIPES = {
    # Borders of the stripes along the line, and the class of each.
    "three stripes": ((0.4, 1.3), (0, 1, 2)),
    "half-spaces with two rivals": ((0.3, 1.1), (0, 2, 1)),
}


def truth(borders, labels):
    """Distance at which another class is level with class 0, if the input moves to the right."""

    def lead(x):
        shares = np.zeros(3)
        shares[list(labels)] = np.diff(ndtr(np.r_[-np.inf, borders, np.inf] - x))
        return shares[0] - shares[1:].max()

    return brentq(lead, 0.0, 5.0)


def ahead(X, labels):
    return np.ones_like(X)


def certifiers(n_samples, alpha):
    return [
        DirectionalCertifier(n_samples, alpha=alpha, direction=ahead, n_bins=40),
        FirstOrderCertifier(n_samples, alpha=alpha),
        SecondOrderCertifier(n_samples, alpha=alpha),
    ]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repetitions", type=int, default=2000)
    arguments.add_argument("--n-samples", type=int, default=3000)
    given = arguments.parse_args()
    lines = ["classifier\tcertifier\talpha\trepetitions\terrors\trate\tlower_99\tupper_99\tmean_of_truth\tseconds"]
    print(lines[0])
    for name, (borders, labels) in STRIPES.items():
        for alpha in (0.05, 0.2):
            for certifier in certifiers(given.n_samples, alpha):
                start, radii = time.process_time(), []
                for seed, first in enumerate(range(0, given.repetitions, 500)):
                    tally = sample_tally(
                        certifier,
                        lambda z, borders=borders, labels=labels: np.array(labels)[np.digitize(z[..., 0], borders)],
                        n_classes=3,
                        n_rows=min(500, given.repetitions - first),
                        n_features=1,
                        seed=seed,
                        n_pilots=25,
                    )
                    radii.append(certifier.certify_tally(tally).radius)
                radius, true = np.concatenate(radii), truth(borders, labels)
                errors = int(np.sum(radius > true))
                low, high = stats.binomtest(errors, len(radius)).proportion_ci(0.99)
                lines.append(
                    f"{name}\t{type(certifier).__name__}\t{alpha}\t{len(radius)}\t{errors}\t{errors / len(radius):.4f}"
                    f"\t{low:.4f}\t{high:.4f}\t{radius.mean() / true:.3f}\t{time.process_time() - start:.1f}"
                )
                print(lines[-1], flush=True)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "coverage.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
