"""A run that takes as long as a test wants, for tests that stop it half-way, and a program that does such a run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from smoothcert import (
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
    SmoothedClassifier,
    read_journal,
)

X, Y = load_iris(return_X_y=True)
INPUTS = X[::25]
N_SAMPLES = 40_000
# Imported, not run as a script: a class in "__main__" is another class.
PROGRAM = "from helpers import long_runs; long_runs.main()"


class SlowGaussianNB(GaussianNB):
    """Takes its time over each vote, without using the processor; the pause does not belong to the model."""

    pause = 0.0

    def predict(self, X):
        time.sleep(type(self).pause)
        return super().predict(X)

    def __reduce__(self):
        # The pause goes to the workers, but by the environment, so that it is no part of the model's content.
        return _rebuilt, (self.__getstate__(),)


def _rebuilt(state):
    SlowGaussianNB.pause = float(os.environ.get("LONG_RUN_PAUSE", "0"))
    model = SlowGaussianNB()
    model.__setstate__(state)
    return model


def model(certifier=None, **parameters):
    certifier = SecondOrderDipoleCertifier() if certifier is None else certifier
    certifier.set_params(n_samples=N_SAMPLES)
    settings = {"sigma": 0.4, "random_state": 3, "batch_size": 2048, **parameters}
    return SmoothedClassifier(SlowGaussianNB(), certifier=certifier, n_augment=1, **settings).fit(X, Y)


def every_certifier():
    """One of each kind."""
    return [
        FirstOrderCertifier(),
        SecondOrderCertifier(),
        DipoleCertifier(),
        SecondOrderDipoleCertifier(),
        DirectionalCertifier(n_bins=12),  # few bins: to plan takes no longer than to sample
    ]


def assert_same(one, other):
    """The same certificates to the last bit, evidence included."""
    for name in ("prediction", "radius", "abstained"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for group in ("limits", "counts"):
        mine, theirs = getattr(one, group), getattr(other, group)
        assert set(mine) == set(theirs)
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name])


def start(journal, n_jobs=1, pause=0.02, **options):
    """The program, in a process of its own that has just begun to certify."""
    paths = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LONG_RUN_PAUSE": str(pause)}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(journal), str(n_jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )
    assert process.stdout.readline().strip() == "started", process.stderr.read()
    return process


def wait_for_evidence(journal, least=0.02, seconds=300.0):
    """Until a run has something in its journal."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if Path(journal).exists():
            try:
                view = read_journal(journal)
            except ValueError:  # not yet begun
                continue
            if view.fraction_done > least:
                return view
        time.sleep(0.05)
    raise AssertionError("The run did not get anywhere.")


def end(process):
    """Stop a process whatever it does, so that a failed test leaves nothing behind."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.communicate()


def main():
    # Shells start programs in the background with interrupts ignored, and tests may run there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    journal, n_jobs = sys.argv[1], int(sys.argv[2])
    SlowGaussianNB.pause = float(os.environ["LONG_RUN_PAUSE"])
    clf = model(n_jobs=n_jobs)
    print("started", flush=True)  # noqa: T201
    clf.certify(INPUTS, journal=journal)
