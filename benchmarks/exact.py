"""Certificates in closed form against the derandomised method for stump ensembles, and their speed.

Run: SMOOTHCERT_DATA=folder/with/mnist python benchmarks/exact.py

The derandomised method (Horvath, Mueller, Fischer, Vechev: (De-)randomized smoothing for decision stump ensembles,
2022) smooths the *hard* vote of an ensemble with one stump for each feature. Features get independent noise, so the
distribution of the sum of the stumps is a convolution, which gives the probability of the vote exactly, and with it the
first-order radius. Here it is written again: for each feature the stump with the largest likelihood under noise, leaf
values in steps of 1/64 as integers, the convolution by dynamic programming.

The same stumps with the mean of their scores (soft vote) are certified by the separable dual, and so are ensembles of
scikit-learn. The figure is the average radius in the units of the inputs, 0 where the prediction is wrong, each at
the sigma from the list where it is largest without losing more than 3 points of accuracy. (Without that condition a
very large sigma wins, with a classifier that hardly looks at its input.)

How leaf values are made matters by some percent, and so do the inputs. MNIST 2-6, sigma 0.25, soft vote: 2.72 as here,
2.75 if classes count by their frequency, 2.66 with log odds, 2.71 with leaf values that are not rounded. Powers of leaf
values, tuned on the inputs shown, reach 2.84. The standard error of 200 inputs is 0.08; over 600 inputs the average is
2.61. Radii depend on how columns are scaled; what can be compared between data sets is the ratio of soft to hard vote.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

from smoothcert import FirstOrderCertifier, SmoothedClassifier
from smoothcert._exact import exact_certificates
from smoothcert._exact._step_functions import Steps, StepScores
from smoothcert.datasets import load_mnist

LEVELS = 64
N_TEST = 200
N_TRAIN = 4000


def digits(first, second):
    def split(name):
        X, y = load_mnist(name, flatten=True)
        mine = (y == first) | (y == second)
        return X[mine].astype(np.float64), (y[mine] == second).astype(int)

    (X, y), (X_test, y_test) = split("train"), split("test")
    return X, y, X_test[:N_TEST], y_test[:N_TEST]


def table(X, y):
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    scaler = MinMaxScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(X_test)[:N_TEST], y_test[:N_TEST]


def breast_cancer():
    return table(*load_breast_cancer(return_X_y=True))


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return table(X, (y > np.median(y)).astype(int))


def likeliest_stumps(X, y, sigma, n_thresholds=64):
    """For each feature the threshold and the two leaf values with the largest likelihood under noise.

    Noise makes an input go right with a probability, so a leaf holds fractions of inputs. Leaf values are the share
    of the second class, minus one half, in steps of 1 / LEVELS.
    """
    weights = len(y) / (2.0 * np.bincount(y))  # classes count the same, or the larger one wins everywhere
    low, high = X.min(), X.max()
    thresholds = np.linspace(low, high, n_thresholds + 2)[1:-1]
    at, left, right = np.empty(X.shape[1]), np.zeros(X.shape[1], dtype=int), np.zeros(X.shape[1], dtype=int)
    for j in range(X.shape[1]):
        values, index = np.unique(X[:, j], return_inverse=True)
        counts = np.zeros((len(values), 2))
        np.add.at(counts, (index, y), weights[y])
        goes_right = ndtr((values - thresholds[:, None]) / sigma)
        leaves = np.stack([(1.0 - goes_right) @ counts, goes_right @ counts], axis=1) + 1e-12
        share = leaves / leaves.sum(axis=2, keepdims=True)
        best = np.argmax((leaves * np.log(share)).sum(axis=(1, 2)))
        at[j] = thresholds[best]
        left[j], right[j] = np.rint((share[best, :, 1] - 0.5) * LEVELS)
    return at, left, right


def convolved_probability(X, at, left, right, sigma):
    """Probability that the sum of the stumps is positive under noise, and that it is negative."""
    if len(X) > 8:  # few rows at a time stay in the cache
        parts = [convolved_probability(X[i : i + 8], at, left, right, sigma) for i in range(0, len(X), 8)]
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    lowest = int(np.minimum(left, right).sum())
    jumps = np.abs(right - left)
    mass = np.ones((len(X), 1))
    for j in np.flatnonzero(jumps):
        up = ndtr((X[:, j] - at[j]) / sigma)[:, None]
        up = up if right[j] > left[j] else 1.0 - up
        new = np.zeros((len(X), mass.shape[1] + jumps[j]))
        new[:, : mass.shape[1]] = mass * (1.0 - up)
        new[:, jumps[j] :] += mass * up
        mass = new
    sums = lowest + np.arange(mass.shape[1])
    return mass[:, sums > 0].sum(axis=1), mass[:, sums < 0].sum(axis=1)


def derandomised(X, y, stumps, sigma):
    positive, negative = convolved_probability(X, *stumps, sigma)
    p = np.where(y == 1, positive, negative)
    return sigma * np.maximum(ndtri(np.minimum(p, 1.0 - 1e-12)), 0.0)


def soft(X, y, stumps, sigma):
    """The same stumps, certified by the separable dual."""
    at, left, right = stumps
    scores = np.array([-0.5, 0.5]) / LEVELS
    features = {j: Steps(at[[j]], at[[j]], (right[j] - left[j]) * scores[None]) for j in np.flatnonzero(left != right)}
    form = StepScores(left.sum() * scores, features, float(np.abs(left).sum() + np.abs(right).sum()), len(at), False)
    noise = np.full(X.shape[1], sigma)
    expected = form.expected_scores(X, noise)
    prediction = np.argmax(expected, axis=1)
    return np.where(prediction == y, sigma * form.certified_radius(X, noise, expected, prediction), 0.0)


def of_model(X, y, model, sigma):
    certificates = exact_certificates(model, X, sigma)
    return np.where(model.classes_[certificates.prediction] == y, sigma * certificates.radius, 0.0)


def compare(name, data, sigmas):
    X, y, X_test, y_test = data
    rng = np.random.default_rng(0)
    rows = []
    for sigma in sigmas:
        stumps = likeliest_stumps(X, y, sigma)
        # Models of scikit-learn are trained under the noise, on equal numbers of both classes.
        some = np.concatenate([rng.choice(np.flatnonzero(y == c), N_TRAIN // 2) for c in (0, 1)])
        noisy, labels = X[some] + sigma * rng.standard_normal((len(some), X.shape[1])), y[some]
        forest = RandomForestClassifier(100, max_depth=1, random_state=0).fit(noisy, labels)
        spread = RandomForestClassifier(500, max_depth=1, max_features=1, random_state=0).fit(noisy, labels)
        boosting = HistGradientBoostingClassifier(max_leaf_nodes=2, random_state=0).fit(noisy, labels)
        methods = {
            "derandomised hard vote": lambda s=stumps, g=sigma: derandomised(X_test, y_test, s, g),
            "same stumps, soft vote": lambda s=stumps, g=sigma: soft(X_test, y_test, s, g),
            "RandomForest(max_depth=1)": lambda m=forest, g=sigma: of_model(X_test, y_test, m, g),
            "RandomForest(500, max_depth=1, max_features=1)": lambda m=spread, g=sigma: of_model(X_test, y_test, m, g),
            "HistGradientBoosting, stumps": lambda m=boosting, g=sigma: of_model(X_test, y_test, m, g),
        }
        for method, certify in methods.items():
            start = time.perf_counter()
            radius = certify()
            seconds = time.perf_counter() - start
            rows.append((name, method, sigma, radius.mean(), np.mean(radius > 0.0), 1e3 * seconds / len(X_test)))
            print(*rows[-1], sep="\t", flush=True)
    best = []
    for method in dict.fromkeys(row[1] for row in rows):
        mine = [row for row in rows if row[1] == method]
        accurate = max(row[4] for row in mine) - 0.03
        best.append(max((row for row in mine if row[4] >= accurate), key=lambda row: row[3]))
    return best


def speed():
    """Seconds for 1,000 inputs of breast cancer, and for one input by sampling."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    sigma = 0.5
    smoothed = SmoothedClassifier(
        HistGradientBoostingClassifier(interaction_cst="no_interactions", random_state=0),
        sigma=sigma,
        certifier=FirstOrderCertifier(100_000),
        random_state=0,
    ).fit(X, y)
    start = time.perf_counter()
    exact_certificates(smoothed.estimator_, np.tile(X, (2, 1))[:1000], sigma)
    exact = time.perf_counter() - start
    start = time.perf_counter()
    smoothed.certify(X[:5])
    sampled = (time.perf_counter() - start) / 5.0
    print(f"exact {exact:.2f} s for 1000 inputs, sampled {sampled:.3f} s for one, ratio {1e3 * sampled / exact:.0f}")
    return [
        # Seconds for 1,000 inputs are milliseconds for one.
        ("breast cancer", "HistGradientBoosting without interactions, exact", sigma, exact),
        ("breast cancer", "HistGradientBoosting without interactions, 100,000 samples", sigma, 1e3 * sampled),
    ]


def main():
    rows = [
        *compare("breast cancer", breast_cancer(), (0.0625, 0.125, 0.25, 0.5, 1.0)),
        *compare("diabetes", diabetes(), (0.0625, 0.125, 0.25, 0.5)),
        *compare("MNIST 1-5", digits(1, 5), (0.125, 0.25, 0.5, 1.0, 2.0)),
        *compare("MNIST 2-6", digits(2, 6), (0.125, 0.25, 0.5, 1.0, 2.0)),
    ]
    lines = ["data\tmethod\tbest_sigma\taverage_radius\tcertified_accuracy_at_0\tms_per_input"]
    for name, method, sigma, radius, accuracy, ms in rows:
        lines.append(f"{name}\t{method}\t{sigma}\t{radius:.4f}\t{accuracy:.3f}\t{ms:.2f}")
    for name, method, sigma, ms in speed():
        lines.append(f"{name}\t{method}\t{sigma}\t\t\t{ms:.2f}")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "exact.tsv").write_text(text)


if __name__ == "__main__":
    main()
