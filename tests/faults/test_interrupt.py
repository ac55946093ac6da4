"""Ctrl-C leaves a usable journal, and no worker behind."""

import os
import signal
import time

import pytest
from helpers import long_runs
from helpers.long_runs import INPUTS, assert_same

from smoothcert import read_journal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


def children_of(pid):
    """Processes below one, worker processes among them, without the helper that only watches over temporary files."""
    psutil = pytest.importorskip("psutil")
    below = psutil.Process(pid).children(recursive=True)
    return [child for child in below if "resource_tracker" not in " ".join(child.cmdline())]


def alive(worker):
    psutil = pytest.importorskip("psutil")
    try:
        return worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(("n_jobs", "whole_group"), [(1, False), (2, False), (2, True)])
def test_interrupt(n_jobs, whole_group, tmp_path):
    journal = tmp_path / "run.sqlite"
    process = long_runs.start(journal, n_jobs, pause=0.2, start_new_session=True)
    try:
        long_runs.wait_for_evidence(journal)
        workers = children_of(process.pid)
        assert len(workers) >= (2 if n_jobs == 2 else 0)
        # A terminal sends the signal to all processes of the group, a supervisor to the main one.
        os.killpg(process.pid, signal.SIGINT) if whole_group else process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
        assert "KeyboardInterrupt" in errors
        assert process.returncode != 0
        until = time.monotonic() + 60.0  # long, for a busy machine; workers that nobody stops stay for minutes
        while time.monotonic() < until and any(map(alive, workers)):
            time.sleep(0.02)
        assert not any(map(alive, workers))
    finally:
        long_runs.end(process)
    view = read_journal(journal)
    assert 0 < view.fraction_done < 1
    clf = long_runs.model()
    assert_same(clf.certify(INPUTS, journal=journal), clf.certify(INPUTS))
