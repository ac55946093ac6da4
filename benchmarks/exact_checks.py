"""How exact closed forms are: expected scores against samples, radii against attacks, once and at length.

Run: python benchmarks/exact_checks.py [name of a model ...]

For each family of models with a closed form: on iris, the largest difference between the expected scores of one
input and the means over ten million noisy copies, in standard errors; and on 200 inputs of iris and wine, the ratio of
certified radii to the smallest attack found, its largest value (which must not exceed 1) and its median. The tests do
the same with fewer samples and inputs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.base import clone

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.exact_cases import ALL, LINEAR, load_scaled, own_scores, smallest_attacks  # noqa: E402

from smoothcert._exact import exact_certificates  # noqa: E402
from smoothcert._exact._registry import read_model  # noqa: E402

SIGMA = 0.5
N_SAMPLES, BLOCK = 10_000_000, 250_000
N_INPUTS = 200


def deviation_of_samples(model, X):
    """Largest difference of means over samples and expected scores, in standard errors."""
    rng = np.random.default_rng(0)
    expected = exact_certificates(model, X, SIGMA).scores
    worst = 0.0
    for x, truth in zip(X, expected, strict=True):
        total, squares = np.zeros_like(truth), np.zeros_like(truth)
        for _ in range(N_SAMPLES // BLOCK):
            scores = own_scores(model, x + SIGMA * rng.standard_normal((BLOCK, len(x)))) - truth
            total += scores.sum(axis=0)
            squares += np.square(scores).sum(axis=0)
        error = np.sqrt(np.maximum(squares / N_SAMPLES, 1e-30) / N_SAMPLES)
        worst = max(worst, float(np.max(np.abs(total / N_SAMPLES) / error)))
    return worst


def ratios_to_attacks(name, model, X):
    prediction, radius = exact_certificates(model, X, SIGMA)[1:]
    search = {"starts": 1, "steps": 3} if name in LINEAR else {"starts": 6, "steps": 60 if name == "GaussianNB" else 30}
    attack = smallest_attacks(read_model(model), X, np.full(X.shape[1], SIGMA), prediction, **search)
    return radius[attack < np.inf] / attack[attack < np.inf]


def main():
    path = ROOT / "benchmarks" / "results" / "exact_checks.tsv"
    header = "model\tsamples_in_standard_errors\tdata\tinputs\tlargest_ratio\tmedian_ratio"
    known = path.read_text().splitlines()[1:] if path.exists() else []
    for name in sys.argv[1:] or ALL:
        lines = []
        for data in ("iris", "wine"):
            X, y = load_scaled(data)
            model = clone(ALL[name]).fit(X, y)
            deviation = f"{deviation_of_samples(model, X[[70]]):.2f}" if data == "iris" else ""
            rng = np.random.default_rng(0)
            some = X[rng.integers(0, len(X), N_INPUTS)] + 0.1 * rng.standard_normal((N_INPUTS, X.shape[1]))
            ratio = ratios_to_attacks(name, model, some)
            lines.append(f"{name}\t{deviation}\t{data}\t{len(ratio)}\t{ratio.max():.6f}\t{np.median(ratio):.4f}")
            print(lines[-1], flush=True)
        known = [line for line in known if line.split("\t")[0] != name] + lines
        path.write_text("\n".join([header, *known]) + "\n")


if __name__ == "__main__":
    main()
