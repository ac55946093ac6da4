"""A journal can be read at every moment: while it is begun, written, left behind by a kill, and taken up again."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from helpers import long_runs
from helpers.long_runs import INPUTS, assert_same

from smoothcert import read_journal

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# What a run is in the middle of when it is killed. A small cache makes SQLite write before the commit.
ROLLBACK = (
    "PRAGMA cache_size = 2",
    "BEGIN IMMEDIATE",
    "UPDATE about SET value = '{}'",
    "UPDATE evidence SET payload = payload || zeroblob(20000)",
)
LOG = ("PRAGMA journal_mode = WAL", "UPDATE about SET value = value")


@pytest.fixture(scope="module")
def reference():
    return long_runs.model().certify(INPUTS)


@pytest.fixture
def journal(tmp_path_factory, finished):
    path = tmp_path_factory.mktemp("reading") / "run.sqlite"
    shutil.copy(finished, path)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "run.sqlite"
    long_runs.model().certify(INPUTS, journal=path)
    return path


def killed_after(path, statements):
    child = os.fork()
    if child == 0:
        file = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            file.execute(statement).fetchall()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def beside(path):
    return {file.name.removeprefix(path.name) for file in path.parent.iterdir()} - {""}


def test_killed_before_a_commit_without_log(journal, reference):
    """As a kill leaves the file that falls into the change to or from a write-ahead log."""
    killed_after(journal, ROLLBACK)
    assert beside(journal) == {"-journal"}
    assert_same(read_journal(journal).certificates, reference)
    assert_same(long_runs.model().certify(INPUTS, journal=journal), reference)


@pytest.mark.parametrize("lost", [(), ("-shm",), ("-shm", "-wal")], ids=str)
def test_killed_with_a_log(lost, journal, reference):
    killed_after(journal, LOG)
    assert beside(journal) == {"-shm", "-wal"}
    for name in lost:
        Path(f"{journal}{name}").unlink()
    assert_same(read_journal(journal).certificates, reference)
    assert_same(long_runs.model().certify(INPUTS, journal=journal), reference)


def test_not_yet_begun(tmp_path):
    path = tmp_path / "run.sqlite"
    path.touch()
    with pytest.raises(ValueError, match="which is empty"):
        read_journal(path)
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(ValueError, match="which is empty"):
        read_journal(path)
    os.truncate(path, 0)
    Path(f"{path}-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(504))
    with pytest.raises(ValueError, match="which is empty"):
        read_journal(path)


def test_reading_changes_nothing(journal):
    before = journal.read_bytes()
    read_journal(journal)
    assert journal.read_bytes() == before
    assert beside(journal) == set()


# One process reads without pause while its children begin, write, are killed and take up again. Kills are spread over
# the first moments of a run, in which the file is made and its log begun, and over the rest of it.
HAMMER = """
import os, random, signal, sys, time
from helpers import long_runs
from smoothcert import read_journal
from smoothcert._engine import _collect
from smoothcert._journal import _writer as _journal

_journal._LEAST_SECONDS, _journal._TIMES_COST = 0.0, 0.0
_collect._TASK_SECONDS = 0.001
directory, chance = sys.argv[1], random.Random(0)
clf = long_runs.model()

def look(path):
    try:
        return read_journal(path).fraction_done
    except FileNotFoundError:
        return -1.0
    except ValueError as error:
        assert "which is empty" in str(error), error
        return 0.0

def gone(child):
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

runs = views = 0
while runs < 60:
    path = os.path.join(directory, f"{runs}.sqlite")
    last, ended = -1.0, False
    while not ended:  # until a run on this file was left alone for long enough
        runs += 1
        child = os.fork()
        if child == 0:
            try:
                clf.certify(long_runs.INPUTS[:2], journal=path)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
            os._exit(0)
        looks = chance.choice([-1, -1, 0, 1, 2, 5, 10**6])  # counted, not timed
        begun = last
        while looks < 0 and not ended:  # for the short time in which the file changes to a log, or back
            ended, looks = gone(child), -int(not os.path.exists(path + "-journal"))
        while looks and not ended:
            now = look(path)
            assert now >= last, (now, last)
            looks -= now != begun
            last, views = now, views + (now > 0)
            ended = gone(child)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert look(path) == 1.0
print(runs, views)
"""


@pytest.mark.slow
def test_hammered_while_runs_are_killed(tmp_path):
    paths = [str(Path(long_runs.__file__).parents[1]), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", HAMMER, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""  # no run met an error because it was being read
    runs, views = map(int, result.stdout.split())
    assert runs >= 60
    assert views > runs
