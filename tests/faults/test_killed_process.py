"""A run that is killed, again and again, at any moment, ends with the same bits as one that was not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import long_runs
from helpers.long_runs import INPUTS, assert_same

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# One process imports everything once and forks the runs that are to be killed, which begin within milliseconds.
KILLER = """
import json, os, random, signal, sys, time
from helpers import long_runs
from smoothcert import read_journal
from smoothcert._engine import _collect
from smoothcert._journal import _writer as _journal

# Commits as often as possible, so that kills fall into them too.
_journal._LEAST_SECONDS, _journal._TIMES_COST = 0.0, 0.0
_collect._TASK_SECONDS = 0.01
# A whole run takes seconds, so that it is not over before a kill, however busy the machine is.
long_runs.SlowGaussianNB.pause = 0.02
directory, chance = sys.argv[1], random.Random(0)
story = []

def share(path):
    try:
        return read_journal(path).fraction_done
    except (FileNotFoundError, ValueError):  # not yet begun
        return 0.0

def runs(child):
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

for certifier in long_runs.every_certifier():
    name = type(certifier).__name__
    clf = long_runs.model(certifier)
    path = os.path.join(directory, name + ".sqlite")
    for _ in range(4):
        before = share(path)
        child = os.fork()
        if child == 0:
            clf.certify(long_runs.INPUTS, journal=path)
            os._exit(0)
        # Most kills wait until the run is under way, however slow the machine is; some come right at its beginning.
        late = chance.random() < 0.75
        while late and share(path) <= before and runs(child):
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        story.append([name, os.WIFSIGNALED(status), share(path)])
print(json.dumps(story))
"""


@pytest.mark.slow
def test_twenty_kills(tmp_path):
    paths = [str(Path(long_runs.__file__).parents[1]), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", KILLER, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)
    assert result.returncode == 0, result.stderr
    story = json.loads(result.stdout)
    assert len(story) == 20
    # The kills fell inside the runs: most hit a run that had something and was not finished.
    assert sum(killed and 0 < share < 1 for _, killed, share in story) >= 10
    for certifier in long_runs.every_certifier():
        name = type(certifier).__name__
        shares = [share for kind, _, share in story if kind == name]
        assert len(shares) == 4
        assert shares == sorted(shares)  # what was there after one kill was there after the next
        clf = long_runs.model(certifier)
        path = tmp_path / f"{name}.sqlite"
        assert_same(clf.certify(INPUTS, journal=path), clf.certify(INPUTS))


@pytest.mark.slow
def test_second_run_is_refused_and_a_dead_one_does_not_block(tmp_path):
    journal = tmp_path / "run.sqlite"
    process = long_runs.start(journal, pause=0.2)
    clf = long_runs.model()
    try:
        long_runs.wait_for_evidence(journal, least=0.0)
        with pytest.raises(RuntimeError, match="in use by another run"):
            clf.certify(INPUTS, journal=journal)
        share = long_runs.wait_for_evidence(journal).fraction_done
        assert process.poll() is None  # it goes on, and can be read meanwhile
        assert 0 < share < 1
    finally:
        process.send_signal(signal.SIGKILL)
        long_runs.end(process)
    assert_same(clf.certify(INPUTS, journal=journal), clf.certify(INPUTS))
