"""A worker process that dies takes nothing with it that was counted before."""

import os
import signal
from contextlib import suppress

import long_runs
import pytest
from joblib import parallel_config
from long_runs import INPUTS, assert_same

from smoothcert import read_journal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


class Mortal(long_runs.GaussianNB):
    """Its worker dies at a vote, once a file tells it to."""

    def __init__(self, trigger=""):
        super().__init__()
        self.trigger = trigger

    def predict(self, X):
        if os.path.exists(self.trigger):
            with suppress(FileNotFoundError):  # another worker was first; one dies, not all
                os.unlink(self.trigger)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().predict(X)


@pytest.mark.slow
def test_loky_worker(tmp_path, monkeypatch):
    journal, trigger = tmp_path / "run.sqlite", tmp_path / "die"
    monkeypatch.setattr("smoothcert._sampling._UNIT_SECONDS", 0.001)
    clf = long_runs.model(n_jobs=2)
    clf.estimator_ = Mortal(str(trigger)).fit(long_runs.X, long_runs.Y)
    reference = clf.certify(INPUTS)

    from smoothcert._journal import Journal

    add = Journal.add

    def add_and_tell(self, stage, row, span, tally):
        add(self, stage, row, span, tally)
        if stage == 3 and row == 2:
            trigger.touch()

    monkeypatch.setattr(Journal, "add", add_and_tell)
    with parallel_config(backend="loky"), pytest.raises(RuntimeError, match=r"worker process died.*run\.sqlite"):
        clf.certify(INPUTS, journal=journal)
    monkeypatch.setattr(Journal, "add", add)
    trigger.unlink(missing_ok=True)
    share = read_journal(journal).share
    assert 0 < share < 1
    with parallel_config(backend="loky"):
        assert_same(clf.certify(INPUTS, journal=journal), reference)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, about a worker that went away and ports in use
def test_dask_worker(tmp_path):
    distributed = pytest.importorskip("distributed")
    trigger = tmp_path / "die"
    clf = long_runs.model()
    clf.estimator_ = Mortal(str(trigger)).fit(long_runs.X, long_runs.Y)
    reference = clf.certify(INPUTS)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options, local_directory=str(tmp_path)) as cluster,
        distributed.Client(cluster) as client,
    ):
        before = {worker["pid"] for worker in client.run(_pid).values()}
        assert os.getpid() not in before
        with parallel_config(backend="dask"):
            # The main process votes too, in the first block; the trigger must wait for the workers.
            import smoothcert._sampling as sampling

            unit = sampling._tally_unit
            told = []

            def tell(*arguments):
                found = unit(*arguments)
                if not told:
                    told.append(True)
                    trigger.touch()
                return found

            sampling._tally_unit = tell
            try:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(sampling, "_UNIT_SECONDS", 0.001)
                    found = clf.certify(INPUTS, journal=tmp_path / "run.sqlite")
            finally:
                sampling._tally_unit = unit
        assert not trigger.exists()  # somebody died of it
    assert_same(found, reference)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dask_gives_up_a_unit_that_kills_its_workers(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    import dask

    journal, trigger = tmp_path / "run.sqlite", tmp_path / "die"
    monkeypatch.setattr("smoothcert._sampling._UNIT_SECONDS", 0.001)
    clf = long_runs.model()
    clf.estimator_ = Mortal(str(trigger)).fit(long_runs.X, long_runs.Y)
    reference = clf.certify(INPUTS)
    from smoothcert._journal import Journal

    add = Journal.add

    def add_and_tell(self, stage, row, span, tally):
        add(self, stage, row, span, tally)
        if stage == 3 and row == 2:
            trigger.touch()

    monkeypatch.setattr(Journal, "add", add_and_tell)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(**options, local_directory=str(tmp_path)) as cluster,
        distributed.Client(cluster),
        parallel_config(backend="dask"),
        pytest.raises(RuntimeError, match=r"workers died over the same piece of work.*run\.sqlite"),
    ):
        clf.certify(INPUTS, journal=journal)
    monkeypatch.setattr(Journal, "add", add)
    trigger.unlink(missing_ok=True)
    assert 0 < read_journal(journal).share < 1
    assert_same(clf.certify(INPUTS, journal=journal), reference)


def _pid():
    return {"pid": os.getpid()}
