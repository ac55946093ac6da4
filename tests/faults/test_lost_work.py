"""Work that a cluster loses is done again, and nothing else is."""

import random
from collections import Counter
from concurrent.futures import BrokenExecutor
from contextlib import closing, nullcontext

import pytest
from helpers import certifiers_under_test as under_test
from helpers import long_runs
from helpers.long_runs import INPUTS, assert_same
from joblib import parallel_config
from sklearn.base import clone

from smoothcert import read_journal
from smoothcert._journal._writer import Journal
from smoothcert._parallel import _worker_death
from smoothcert._parallel._broadcast import Broadcast
from smoothcert._parallel._dask import dask_results
from smoothcert._parallel._executor import Executor

distributed = pytest.importorskip("distributed")


class Future:
    """Done as soon as it is submitted: with a result, with the unit's own error, or lost."""

    def __init__(self, function, arguments, loss):
        self.released = False
        try:
            self.error = loss
            self.status = "finished" if loss is None else "cancelled"
            if loss is None:
                self.value = function(*arguments)
        except Exception as error:
            self.error, self.status = error, "error"

    def result(self):
        if self.error is not None:
            raise self.error
        return self.value

    def add_done_callback(self, function):
        function(self)

    def release(self):
        self.released = True


class Cluster:
    """Both backend and client; loses the submissions that it is told to lose."""

    submit_kwargs = {"priority": 1}  # noqa: RUF012
    retrieval_context = staticmethod(nullcontext)

    def __init__(self, lost=lambda number: False, loss=None):
        self.client = self
        self.futures = []
        self.lost = lost
        self.loss = distributed.CancelledError() if loss is None else loss

    def submit(self, function, *arguments, pure, priority):
        assert not pure
        assert priority == 1
        self.futures.append(Future(function, arguments, self.loss if self.lost(len(self.futures)) else None))
        return self.futures[-1]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(_worker_death, "_PAUSE", 0.0)


def squares(n):
    return [(number, pow, (number, 2)) for number in range(n)]


LOSSES = [distributed.CancelledError(), distributed.comm.CommClosedError(), ConnectionResetError()]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("ahead", [1, 3, 100])
def test_every_unit_comes_back_once(ahead, loss):
    chance = random.Random(0)
    cluster = Cluster(lambda number: chance.random() < 0.3, loss)
    found = list(dask_results(cluster, squares(50), ahead))
    assert sorted(found) == [(number, number**2) for number in range(50)]
    lost = sum(future.status == "cancelled" for future in cluster.futures)
    assert lost > 5
    assert len(cluster.futures) == 50 + lost


def test_units_are_made_as_they_are_needed():
    made = []
    units = (made.append(unit) or unit for unit in squares(20))
    with closing(dask_results(Cluster(lambda number: number < 4), units, 3)) as results:
        next(results)
        assert len(made) == 4


def test_a_cluster_that_loses_everything_is_given_up():
    cluster = Cluster(lambda number: True)
    with pytest.raises(BrokenExecutor, match="lost the same task 7 times"):
        list(dask_results(cluster, squares(20), 2))
    assert len(cluster.futures) < 20


@pytest.mark.parametrize("kind", [ZeroDivisionError, FileNotFoundError, distributed.CancelledError])
def test_errors_of_the_model_are_raised_at_once(kind):
    calls = []

    def broken(number):
        calls.append(number)
        raise kind

    with pytest.raises(kind):
        list(dask_results(Cluster(), [(1, broken, (0,))], 2))
    assert calls == [0]


def test_work_that_kills_workers_is_not_repeated():
    class Worker:
        address = "tcp://somewhere"

    cluster = Cluster(lambda number: number == 1, distributed.KilledWorker("unit", Worker(), 3))
    with pytest.raises(BrokenExecutor, match="Several Dask workers died while working on the same task"):
        list(dask_results(cluster, squares(20), 2))


def test_leaving_early_gives_up_what_is_submitted():
    cluster = Cluster()
    with closing(dask_results(cluster, squares(20), 5)) as results:
        next(results)
    assert len(cluster.futures) == 6
    assert sum(future.released for future in cluster.futures) == 5


def test_what_units_share_is_sent_again_when_it_is_lost():
    class Copy(int):
        status = "finished"

    copies = []
    broadcast = Broadcast(7, send=lambda: copies.append(Copy(7)) or copies[-1])

    def lost(number):
        if number in (2, 3, 9):
            copies[-1].status = "cancelled"
            return True
        return False

    cluster = Cluster(lost)
    units = [(number, max, (broadcast, number)) for number in range(15)]
    assert sorted(dask_results(cluster, units, 1)) == [(number, max(number, 7)) for number in range(15)]
    assert len(copies) == 4


@pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)
def test_units_can_be_repeated_where_memory_is_shared(certifier, monkeypatch):
    """Nothing of the first time shows in the second."""
    monkeypatch.setattr("smoothcert._engine._collect._TASK_SECONDS", 1e-6)
    clf = long_runs.model(clone(certifier))
    reference = clf.certify(INPUTS[:2])

    def run_twice(self, units, several=True):
        for _, function, arguments in units:
            function(*arguments)
            yield function(*arguments)

    monkeypatch.setattr(Executor, "run", run_twice)
    assert_same(clf.certify(INPUTS[:2]), reference)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, about ports in use
def test_dask_loses_the_model_half_way(tmp_path, monkeypatch):
    """As when the last worker that has a copy dies: Dask cancels all that is under way."""
    monkeypatch.setattr("smoothcert._engine._collect._TASK_SECONDS", 1e-6)
    monkeypatch.setattr("smoothcert._engine._collect._NOT_WORTH_SENDING", 0.0)  # however fast this machine is
    clf = long_runs.model()
    reference = clf.certify(INPUTS)
    add, scatter = Journal.add, distributed.Client.scatter
    sent, entries = [], Counter()

    def scatter_and_note(self, *arguments, **options):
        sent.append(scatter(self, *arguments, **options))
        return sent[-1]

    def add_and_lose(self, stage, *arguments):
        add(self, stage, *arguments)
        entries[stage] += 1
        if entries[stage] == 3:
            client.cancel([sent[-1]], force=True)

    monkeypatch.setattr(distributed.Client, "scatter", scatter_and_note)
    monkeypatch.setattr(Journal, "add", add_and_lose)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options, local_directory=str(tmp_path)) as cluster,
        distributed.Client(cluster) as client,
        parallel_config(backend="dask"),
    ):
        found = clf.certify(INPUTS, journal=tmp_path / "run.sqlite")
    assert_same(found, reference)
    assert read_journal(tmp_path / "run.sqlite").fraction_done == 1.0
    assert len(sent) >= 2
