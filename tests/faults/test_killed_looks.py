"""A run that was asked for radii and is killed in the middle of its looks ends with the same bits as any other."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import long_runs
from helpers.long_runs import assert_same

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

KILLER = """
import json, os, random, signal, sys, time
from helpers import long_runs
from smoothcert._engine import _collect
from smoothcert._journal import _writer
from faults.test_killed_looks import QUESTION, certifiers, model, samples

# Commits as often as possible, so that kills fall into them too; short tasks, so that looks are cut.
_writer._LEAST_SECONDS, _writer._TIMES_COST = 0.0, 0.0
_collect._TASK_SECONDS = 0.01
long_runs.SlowGaussianNB.pause = 0.02
directory, chance = sys.argv[1], random.Random(0)
story = []
for certifier in certifiers():
    name, clf = type(certifier).__name__, model(certifier)
    path = os.path.join(directory, name + ".sqlite")
    for _ in range(10):
        before = samples(path)
        child = os.fork()
        if child == 0:
            clf.certify(journal=path, **QUESTION)
            os._exit(0)
        until = time.monotonic() + 60.0
        while samples(path) <= before and time.monotonic() < until:
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                break
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        story.append([name, os.WIFSIGNALED(status), samples(path)])
print(json.dumps(story))
"""

# From one flower to another of the next kind, and radii that some inputs on the way just reach or not: many looks.
QUESTION = {
    "X": np.linspace(long_runs.X[60], long_runs.X[110], 8),
    "y": [1] * 6 + [0, 2],
    "radius": [0.105, 0.2136, 0.442, 0.54, 0.85],
    "max_samples": 2 * long_runs.N_SAMPLES,
}


def certifiers():
    every = long_runs.every_certifier()
    return [every[0], every[-1]]  # one that only counts votes, and one with a screen and pilots


def model(certifier):
    return long_runs.model(certifier, batch_size=1000)


def samples(path):
    """Samples that a journal has, 0 before there is one."""
    try:
        return int(long_runs.read_journal(path).samples.sum())
    except (FileNotFoundError, ValueError):
        return 0


@pytest.mark.slow
def test_twenty_kills_in_the_middle_of_looks(tmp_path):
    paths = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", KILLER, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)
    assert result.returncode == 0, result.stderr
    story = json.loads(result.stdout)
    assert len(story) == 20
    assert sum(killed for _, killed, _ in story) >= 15
    for certifier in certifiers():
        counted = [n for name, _, n in story if name == type(certifier).__name__]
        assert counted == sorted(counted)
        clf = model(certifier)
        reference = clf.certify(**QUESTION)
        final = clf.certify(journal=tmp_path / f"{type(certifier).__name__}.sqlite", **QUESTION)
        assert_same(final, reference)
        assert final.samples_used.tolist() == reference.samples_used.tolist()
        assert final.stopped.tolist() == reference.stopped.tolist()
        assert counted[0] < final.samples_used.sum()
