"""Certification rate of scikit-learn bases against a bare loop. Run: python benchmarks/estimators.py

The bare loop makes noise, calls ``predict`` and counts, written with numpy at its best block size. Both run in the
same process, interleaved; the ratio is the figure to look at.
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from _memory import peak_above
from joblib import Parallel, delayed, parallel_config
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from smoothcert import DipoleCertifier, FirstOrderCertifier, SecondOrderCertifier, SmoothedClassifier

N_SAMPLES = 100_000
SIGMA = 2.0
N_INPUTS = 6
REPEATS = 3


def bare_loop(predict, x, n_samples, block, rng):
    counts = np.zeros(10, dtype=np.int64)
    for start in range(0, n_samples, block):
        noisy = rng.standard_normal((min(block, n_samples - start), x.size))
        noisy *= SIGMA
        noisy += x
        counts += np.bincount(predict(noisy), minlength=10)
    return counts


def best_block(predict, x, rng):
    times = {}
    for block in (256, 512, 1024, 2048, 4096, 8192, 16384):
        start = time.perf_counter()
        bare_loop(predict, x, 40_000, block, rng)
        times[block] = time.perf_counter() - start
    return min(times, key=times.get)


def seconds(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def rates(base, X, y):
    smoothed = {
        "first order": FirstOrderCertifier(N_SAMPLES),
        "second order": SecondOrderCertifier(N_SAMPLES),
        "dipole": DipoleCertifier(N_SAMPLES),
    }
    fitted = SmoothedClassifier(base, sigma=SIGMA, n_augment=3, random_state=0).fit(X, y)
    rng = np.random.default_rng(0)
    inputs = X[:N_INPUTS]
    predict = fitted.estimator_.predict
    block = best_block(predict, inputs[0], rng)
    jobs = {"bare": lambda: [bare_loop(predict, x, N_SAMPLES, block, rng) for x in inputs]}
    for name, certifier in smoothed.items():
        jobs[name] = lambda certifier=certifier: fitted.set_params(certifier=certifier).certify(inputs)
    times = {name: [] for name in jobs}
    for _ in range(REPEATS):
        for name, job in jobs.items():
            times[name].append(seconds(job))
    return block, {name: N_INPUTS * N_SAMPLES / np.median(values) for name, values in times.items()}


def scaling(base, X, y):
    """Samples a second of two workers against one, on inputs enough to keep both busy."""
    fitted = SmoothedClassifier(
        base, sigma=SIGMA, certifier=FirstOrderCertifier(N_SAMPLES), n_augment=3, random_state=0
    )
    fitted.fit(X, y)
    inputs = X[:16]
    # One thread for linear algebra in either case: a single worker with two threads would be two workers.
    with parallel_config(backend="loky"), threadpool_limits(1):
        fitted.set_params(n_jobs=2).certify(inputs[:2])  # start the workers
        pairs = []
        for _ in range(3):
            one = seconds(fitted.set_params(n_jobs=1).certify, inputs)
            two = seconds(fitted.set_params(n_jobs=2).certify, inputs)
            pairs.append(one / two)
    return float(np.median(pairs))


def machine_limit(base, X, y, block):
    """What two workers could reach at best: two bare loops at the same time, in processes of their own, against one."""
    fitted = SmoothedClassifier(base, sigma=SIGMA, n_augment=3, random_state=0).fit(X, y)
    loop = delayed(bare_loop)(fitted.estimator_.predict, X[0], 8 * N_SAMPLES, block, np.random.default_rng(0))
    with Parallel(n_jobs=2, backend="loky") as parallel:
        parallel([loop, loop])  # start the workers
        pairs = [2 * seconds(parallel, [loop]) / seconds(parallel, [loop, loop]) for _ in range(3)]
    return float(np.median(pairs))


def peak_memory():
    """Megabytes above the fitted model while certifying at 3072 features and a million samples."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3072))
    y = (X[:, 0] > 0).astype(int)
    fitted = SmoothedClassifier(LogisticRegression(), certifier=SecondOrderCertifier(1_000_000), n_augment=1).fit(X, y)
    return peak_above(lambda: fitted.certify(X[:1]))


def main():
    if sys.argv[1:] == ["memory"]:
        print(f"{peak_memory():.0f}")
        return
    X, y = load_digits(return_X_y=True)
    bases = {
        "LogisticRegression": LogisticRegression(max_iter=500),
        "DecisionTreeClassifier": DecisionTreeClassifier(max_depth=12, random_state=0),
        "MLPClassifier": MLPClassifier((100,), max_iter=30, random_state=0),
        "RandomForestClassifier": RandomForestClassifier(100, max_depth=12, random_state=0),
    }
    lines = [
        "base\tblock\tbare_samples_per_s\tfirst_order\tsecond_order\tdipole\tdipole_over_first\ttwo_workers\tmachine_limit"
    ]
    for name, base in bases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            block, rate = rates(base, X, y)
            two, limit = scaling(base, X, y), machine_limit(base, X, y, block)
        ratios = [rate[k] / rate["bare"] for k in ("first order", "second order", "dipole")]
        shown = "\t".join(f"{r:.2f}" for r in [*ratios, rate["dipole"] / rate["first order"], two, limit])
        lines.append(f"{name}\t{block}\t{rate['bare']:.0f}\t{shown}")
        print(lines[-1], flush=True)
    memory = subprocess.run(
        [sys.executable, __file__, "memory"], capture_output=True, text=True, check=True
    ).stdout.strip()
    lines.append(f"# peak memory above the fitted model, 3072 features, 1e6 samples, second order: {memory} MB")
    print(lines[-1])
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "estimators.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
