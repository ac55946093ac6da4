"""Backends beyond the processes of one machine: the same certificates, the model sent once."""

import os
from collections import Counter

import pytest
from helpers import long_runs
from helpers.long_runs import INPUTS, assert_same
from joblib import parallel_config, register_parallel_backend
from joblib._parallel_backends import ThreadingBackend
from sklearn.naive_bayes import GaussianNB

from smoothcert import read_journal
from smoothcert._engine import _collect


class Witness(GaussianNB):
    """Writes down in which process it was unpacked."""

    def __init__(self, diary=""):
        super().__init__()
        self.diary = diary

    packed = 0

    def __reduce__(self):
        Witness.packed += 1
        return _unpacked, (self.diary, self.__getstate__())


def _unpacked(diary, state):
    with open(diary, "a") as file:
        file.write(f"{os.getpid()}\n")
    model = Witness(diary)
    model.__setstate__(state)
    return model


def witnessed(diary):
    clf = long_runs.model()
    clf.estimator_ = Witness(str(diary)).fit(long_runs.X, long_runs.Y)
    return clf


def always_send_short_tasks(monkeypatch):
    monkeypatch.setattr(_collect, "_TASK_SECONDS", 1e-6)
    monkeypatch.setattr(_collect, "_NOT_WORTH_SENDING", 0.0)  # however fast this machine is


class RoundsBackend(ThreadingBackend):
    """Gives all results back at once, as those of Ray and Spark do."""

    supports_return_generator = False


def test_backends_that_return_lists_work_in_rounds(tmp_path, monkeypatch):
    register_parallel_backend("rounds", RoundsBackend)
    always_send_short_tasks(monkeypatch)
    clf = long_runs.model()
    reference = clf.certify(INPUTS)
    from smoothcert._journal._writer import Journal

    add, shares = Journal.add, []

    def add_and_look(self, *arguments):
        add(self, *arguments)
        self.flush()
        shares.append(read_journal(self.path).fraction_done)

    monkeypatch.setattr(Journal, "add", add_and_look)
    with parallel_config(backend="rounds", n_jobs=2):
        assert_same(clf.certify(INPUTS), reference)
        assert_same(clf.certify(INPUTS, journal=tmp_path / "run.sqlite"), reference)
    assert len(set(shares)) > 8  # evidence comes in as the work goes on, not at its end


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_local_processes_read_the_model_once(backend, tmp_path, monkeypatch):
    always_send_short_tasks(monkeypatch)
    clf = witnessed(tmp_path / "diary")
    with parallel_config(backend=backend, n_jobs=2):
        assert_same(clf.certify(INPUTS), long_runs_reference(clf))
    times = Counter((tmp_path / "diary").read_text().split())
    assert 1 <= len(times) <= 2 or backend == "multiprocessing"  # its pool may be replaced between stages
    assert set(times.values()) == {1}


def long_runs_reference(clf):
    with parallel_config(backend="sequential"):
        return clf.certify(INPUTS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, about ports in use
def test_dask_sends_the_model_once_to_each_worker(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    always_send_short_tasks(monkeypatch)
    clf = witnessed(tmp_path / "diary")
    reference = clf.certify(INPUTS)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options, local_directory=str(tmp_path)) as cluster,
        distributed.Client(cluster),
        parallel_config(backend="dask"),
    ):
        Witness.packed = 0
        found = clf.certify(INPUTS)
        assert Witness.packed == 1  # tasks do not carry it
        assert_same(clf.certify(INPUTS, journal=tmp_path / "run.sqlite"), reference)
    assert_same(found, reference)
    # Once for each of the two runs, in each worker that had work.
    times = Counter((tmp_path / "diary").read_text().split())
    assert 1 <= len(times) <= 2
    assert max(times.values()) <= 2
    assert str(os.getpid()) not in times
