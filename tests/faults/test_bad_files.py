"""Files that are torn, full, read-only, old or not ours: nothing written is lost, and messages say what to do."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from helpers import long_runs
from helpers.long_runs import INPUTS, assert_same

from smoothcert import read_journal
from smoothcert._journal._schema import SCHEMA


@pytest.fixture(scope="module")
def reference():
    return long_runs.model().certify(INPUTS)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A journal with its log, as a killed run leaves them."""
    directory = tmp_path_factory.mktemp("killed")
    process = long_runs.start(directory / "run.sqlite", pause=0.1)
    try:
        long_runs.wait_for_evidence(directory / "run.sqlite", least=0.3)
    finally:
        process.kill()
        long_runs.end(process)
    assert (directory / "run.sqlite-wal").stat().st_size > 0
    return directory


def copied(killed, directory):
    for file in killed.iterdir():
        shutil.copy(file, directory)
    return directory / "run.sqlite"


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 100, 4096, 5000, 0.3, 0.7, 1.0])
def test_torn_log(killed, lost, tmp_path, reference):
    """The end of the log is missing: the run continues from the last whole commit."""
    path = copied(killed, tmp_path)
    log = Path(f"{path}-wal")
    size = log.stat().st_size
    os.truncate(log, size - (int(lost * size) if isinstance(lost, float) else lost))
    assert_same(long_runs.model().certify(INPUTS, journal=path), reference)


@pytest.mark.slow
def test_garbage_at_the_end_of_the_log(killed, tmp_path, reference):
    path = copied(killed, tmp_path)
    log = Path(f"{path}-wal")
    content = bytearray(log.read_bytes())
    content[-3000:] = np.random.default_rng(0).bytes(3000)
    log.write_bytes(content)
    assert_same(long_runs.model().certify(INPUTS, journal=path), reference)


def finished(directory):
    path = directory / "run.sqlite"
    long_runs.model().certify(INPUTS, journal=path)
    return path


@pytest.mark.parametrize("share", [0.2, 0.6, 0.95])
def test_torn_file(share, tmp_path):
    path = finished(tmp_path)
    os.truncate(path, int(share * path.stat().st_size))
    with pytest.raises((ValueError, OSError), match=r"journal .*run\.sqlite"):
        long_runs.model().certify(INPUTS, journal=path)


def test_damaged_evidence_is_noticed(tmp_path):
    path = finished(tmp_path)
    with closing(sqlite3.connect(path)) as file, file:
        (payload,) = file.execute("SELECT payload FROM evidence WHERE stage = 3 AND row = 1").fetchone()
        at = payload.index(b"\x93NUMPY") + 130  # a number, not the heading before it
        changed = payload[:at] + bytes([payload[at] ^ 1]) + payload[at + 1 :]
        file.execute("UPDATE evidence SET payload = ? WHERE stage = 3 AND row = 1", (changed,))
    for call in (lambda: long_runs.model().certify(INPUTS, journal=path), lambda: read_journal(path)):
        with pytest.raises(ValueError, match=r"journal must be a whole file.*CRC"):
            call()


@pytest.mark.parametrize(("version", "age"), [(SCHEMA - 1, "an older"), (SCHEMA + 1, "a newer")])
def test_another_version(version, age, tmp_path):
    path = finished(tmp_path)
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    for call in (lambda: long_runs.model().certify(INPUTS, journal=path), lambda: read_journal(path)):
        with pytest.raises(ValueError, match=f"of version {SCHEMA}, got version {version}.*{age} smoothcert"):
            call()
    assert path.read_bytes() == before


def test_files_of_others(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, " * 100)
    for call in (lambda: long_runs.model().certify(INPUTS, journal=path), lambda: read_journal(path)):
        with pytest.raises(ValueError, match="whole file written by certify"):
            call()
    assert path.read_text() == "Dear diary, " * 100
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE mine (a)")
    with pytest.raises(ValueError, match="another SQLite database"):
        long_runs.model().certify(INPUTS, journal=path)


@contextmanager
def nobody():
    """Root may write anywhere; be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_read_only(reference):
    clf = long_runs.model()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        path = finished(directory)
        before = path.read_bytes()
        path.chmod(0o444)
        directory.chmod(0o555)
        try:
            with nobody():
                with pytest.raises(OSError, match=r"journal .*run\.sqlite.*could not be opened"):
                    clf.certify(INPUTS, journal=path)
                assert_same(read_journal(path).certificates, reference)
        finally:
            directory.chmod(0o755)
        assert path.read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
@pytest.mark.parametrize("left", ["-journal", "-wal"])
def test_read_only_with_what_a_kill_left(left):
    """Nobody may put it in order here: the error says what to do, and the copy can be read."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as other:
        directory = Path(name)
        path = finished(directory)
        if left == "-wal":
            with closing(sqlite3.connect(path)) as file:
                file.execute("PRAGMA journal_mode = WAL")
        content = {"-journal": bytes.fromhex("d9d505f920a163d7") + bytes(504), "-wal": b""}
        Path(f"{path}{left}").write_bytes(content[left])
        for file in directory.iterdir():
            file.chmod(0o444)
        directory.chmod(0o555)
        try:
            with nobody(), pytest.raises(OSError, match=r"could not be read.*is not lost.*Copy all files"):
                read_journal(path)
            for file in directory.iterdir():
                (Path(other) / file.name).write_bytes(file.read_bytes())
        finally:
            directory.chmod(0o755)
        assert read_journal(Path(other) / path.name).fraction_done == 1.0


FULL = """
import resource, sys
from helpers import long_runs
from smoothcert._engine import _collect
from smoothcert._journal import _writer as _journal
# Many small commits, so that the limit is met.
_journal._LEAST_SECONDS = _journal._TIMES_COST = 0.0
_collect._TASK_SECONDS = 1e-6
clf = long_runs.model(long_runs.SecondOrderDipoleCertifier())
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    clf.certify(long_runs.INPUTS, journal=sys.argv[1])
except OSError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs limits of file size")
@pytest.mark.parametrize("limit", [20_000, 60_000, 150_000])
def test_full_disk(limit, tmp_path, reference):
    """A file that may not grow: the run stops and says why; with room again it continues."""
    path = tmp_path / "run.sqlite"
    paths = [str(Path(long_runs.__file__).parents[1]), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-W", "ignore", "-c", FULL, str(path), str(limit)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)
    assert result.returncode == 0, result.stderr
    assert "could not be" in result.stdout
    assert "is not lost" in result.stdout
    assert "disk has room" in result.stdout
    assert_same(long_runs.model().certify(INPUTS, journal=path), reference)
