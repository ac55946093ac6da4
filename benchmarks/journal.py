"""What a journal and a cluster cost. Run: python benchmarks/journal.py [--inputs 20] [--samples 1000000] [--repeats 5]

For a small network:

- The share of the time of a run with a journal, in one process, that goes into the journal: fingerprints, packing,
  writing and waiting for the disk. It is all done in turn with the votes, so the share is what the journal costs. To
  compare whole runs with and without would take a machine that is quiet to a percent. Target: less than 2%.
- loky: two processes on this machine; dask: two Dask workers on this machine. Interleaved in one process. Target: less
  than 15% more.

Results go to benchmarks/results/journal.tsv.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

# Before torch is loaded: one thread for each process, so that processes can be compared.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from joblib import parallel_config
from sklearn.frozen import FrozenEstimator
from skorch import NeuralNetClassifier
from torch import nn

from smoothcert import DirectionalCertifier, FirstOrderCertifier, SmoothedClassifier
from smoothcert._journal import Journal, RunDescription

CERTIFIERS = {"first order": FirstOrderCertifier, "directional": DirectionalCertifier}


def small_cnn(certifier):
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 100), nn.ReLU(), nn.Linear(100, 10)]
    net = NeuralNetClassifier(nn.Sequential(*layers), criterion=nn.CrossEntropyLoss, train_split=None, verbose=0)
    model = SmoothedClassifier(FrozenEstimator(net.initialize()), sigma=0.25, certifier=certifier, random_state=0)
    X = np.random.default_rng(0).random((20, 1, 7, 7), dtype=np.float32)
    return model.fit(X, np.arange(20) % 10), X


def seconds(function, *arguments, **options):
    start = time.perf_counter()
    function(*arguments, **options)
    return time.perf_counter() - start


def compare(jobs, repeats):
    """Median seconds of each job, and the median, least and largest ratio of the second to the first."""
    times = {name: [] for name in jobs}
    for repeat in range(repeats + 1):
        # Turn about, so that neither is always the one after the other.
        for name in list(jobs) if repeat % 2 else list(jobs)[::-1]:
            taken = jobs[name]()
            if repeat:  # the first round warms up
                times[name].append(taken)
    first, second = (np.array(times[name]) for name in jobs)
    ratios = second / first
    return np.median(first), np.median(second), np.median(ratios), ratios.min(), ratios.max()


class Clock:
    """Adds up the time spent in some functions, counting calls inside of each other once."""

    def __init__(self):
        self.spent, self.inside = 0.0, False

    def watched(self, function):
        def timed(*arguments, **options):
            if self.inside:
                return function(*arguments, **options)
            self.inside, start = True, time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.spent += time.perf_counter() - start
                self.inside = False

        return timed


def journal_cost(model, X, repeats):
    """Seconds of each run, of those the ones in the journal, and the median, least and largest share."""
    clock = Clock()
    watched = [(Journal, name) for name in ("__init__", "__enter__", "__exit__", "add", "entry", "spans")]
    watched += [(RunDescription, name) for name in ("identity", "facts")]
    kept = [getattr(owner, name) for owner, name in watched]
    whole, inside = [], []
    with tempfile.TemporaryDirectory() as directory:
        try:
            for (owner, name), function in zip(watched, kept, strict=True):
                setattr(owner, name, clock.watched(function))
            for repeat in range(repeats):
                clock.spent = 0.0
                whole.append(seconds(model.certify, X, journal=Path(directory) / f"{repeat}.sqlite"))
                inside.append(clock.spent)
        finally:
            for (owner, name), function in zip(watched, kept, strict=True):
                setattr(owner, name, function)
    shares = np.divide(inside, whole)
    return np.median(whole), np.median(inside), np.median(shares), shares.min(), shares.max()


def dask_cost(model, X, repeats):
    from distributed import Client, LocalCluster

    model.set_params(n_jobs=2)

    def run(backend):
        with parallel_config(backend=backend):
            return seconds(model.certify, X)

    run("loky")  # its workers start before the cluster changes the environment that they would inherit
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster):
        return compare({"loky": lambda: run("loky"), "dask": lambda: run("dask")}, repeats)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=20)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--certifiers", nargs="+", choices=list(CERTIFIERS), default=list(CERTIFIERS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    what = f"{options.inputs} inputs, {options.samples} samples each, {options.repeats} repeats"
    lines = [
        f"# CNN 1x7x7, {what}; {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}",
        "certifier\tcompared\tseconds\tseconds of the second\tratio\tleast\tlargest\ttarget",
    ]
    for name, certifier in ((name, CERTIFIERS[name]) for name in options.certifiers):
        for title, cost, target in (("whole, in the journal", journal_cost, 0.02), ("loky, dask", dask_cost, 1.15)):
            model, X = small_cnn(certifier(options.samples))
            first, second, *ratios = cost(model, X[: options.inputs], options.repeats)
            shown = [f"{first:.2f}", f"{second:.2f}", *(f"{ratio:.3f}" for ratio in ratios), f"{target}"]
            lines.append("\t".join([name, title, *shown]))
            print(lines[-1], flush=True)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "journal.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
