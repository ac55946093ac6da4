"""A worker process that dies takes nothing with it that was counted before."""

import os
import signal
from contextlib import contextmanager, suppress

import pytest
from helpers import long_runs
from helpers.long_runs import INPUTS, assert_same
from joblib import parallel_config

from smoothcert import read_journal
from smoothcert._engine import _collect
from smoothcert._journal._writer import Journal
from smoothcert._noise import ESTIMATION

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")]


class Mortal(long_runs.GaussianNB):
    """Its worker dies at a vote, once a file tells it to; the process of the tests does not."""

    def __init__(self, trigger="", survivor=0):
        super().__init__()
        self.trigger = trigger
        self.survivor = survivor

    def predict(self, X):
        if os.path.exists(self.trigger) and os.getpid() != self.survivor:
            with suppress(FileNotFoundError):  # another worker was first; one dies, not all
                os.unlink(self.trigger)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().predict(X)


@pytest.fixture
def trigger(tmp_path):
    return tmp_path / "die"


@pytest.fixture
def clf(trigger, monkeypatch):
    """A model whose workers can be told to die, and whose work is cut into many units."""
    monkeypatch.setattr(_collect, "_TASK_SECONDS", 0.001)
    monkeypatch.setattr(_collect, "_NOT_WORTH_SENDING", 0.0)  # however fast this machine is
    clf = long_runs.model()
    clf.estimator_ = Mortal(str(trigger), os.getpid()).fit(long_runs.X, long_runs.Y)
    return clf


@contextmanager
def death_in_the_middle(trigger):
    """Tell workers to die once some of the evidence is in the journal."""
    add = Journal.add

    def add_and_tell(self, stage, row, span, tally):
        add(self, stage, row, span, tally)
        if stage == 3 and row == 2:
            trigger.touch()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "add", add_and_tell)
        yield
    trigger.unlink(missing_ok=True)


@contextmanager
def dask_workers(folder):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options, local_directory=str(folder)) as cluster,
        distributed.Client(cluster) as client,
        parallel_config(backend="dask"),
    ):
        yield client


def test_loky_worker(clf, trigger, tmp_path):
    journal = tmp_path / "run.sqlite"
    reference = clf.certify(INPUTS)
    clf.set_params(n_jobs=2)
    with (
        death_in_the_middle(trigger),
        parallel_config(backend="loky"),
        pytest.raises(RuntimeError, match=r"(?s)worker process died.*set a smaller n_jobs.*run\.sqlite"),
    ):
        clf.certify(INPUTS, journal=journal)
    assert 0 < read_journal(journal).fraction_done < 1
    with parallel_config(backend="loky"):
        assert_same(clf.certify(INPUTS, journal=journal), reference)


def test_without_a_journal_the_error_says_what_to_do(clf, trigger, monkeypatch):
    fill = _collect._fill_pieces

    def fill_and_tell(*arguments):
        result = fill(*arguments)
        if ESTIMATION in arguments:
            trigger.touch()  # the first task of a stage is run by the main process, all others by workers, which die
        return result

    monkeypatch.setattr(_collect, "_fill_pieces", fill_and_tell)
    clf.set_params(n_jobs=2)
    with parallel_config(backend="loky"), pytest.raises(RuntimeError, match=r"worker process died.*smaller n_jobs"):
        clf.certify(INPUTS)
    trigger.unlink(missing_ok=True)


@pytest.mark.filterwarnings("ignore")  # Dask's own, about a worker that went away and ports in use
def test_dask_worker(clf, trigger, tmp_path, monkeypatch):
    reference = clf.certify(INPUTS)
    unit, told = _collect._fill_pieces, []

    def tell(*arguments):
        # The main process votes too, in the first task of each stage; the trigger must wait for the workers.
        found = unit(*arguments)
        if not told and ESTIMATION in arguments:
            told.append(True)
            trigger.touch()
        return found

    with dask_workers(tmp_path) as client:
        assert os.getpid() not in client.run(os.getpid).values()
        monkeypatch.setattr(_collect, "_fill_pieces", tell)
        found = clf.certify(INPUTS, journal=tmp_path / "run.sqlite")
    assert not trigger.exists()  # somebody died of it
    assert_same(found, reference)


@pytest.mark.filterwarnings("ignore")
def test_dask_gives_up_a_unit_that_kills_its_workers(clf, trigger, tmp_path):
    dask = pytest.importorskip("dask")
    journal = tmp_path / "run.sqlite"
    reference = clf.certify(INPUTS)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        dask_workers(tmp_path),
        death_in_the_middle(trigger),
        pytest.raises(RuntimeError, match=r"(?s)workers died while working on the same task.*run\.sqlite"),
    ):
        clf.certify(INPUTS, journal=journal)
    assert 0 < read_journal(journal).fraction_done < 1
    assert_same(clf.certify(INPUTS, journal=journal), reference)
