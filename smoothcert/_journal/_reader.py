"""Looking into a journal, also while a run writes to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from .._certificates import Certificates, build_certificates
from .._engine import (
    Counted,
    Evidence,
    Question,
    Span,
    Stage,
    count_draws,
    last_block,
    missing_spans,
    run_stages,
    stages_for,
)
from .._validation import IndexArray
from ..certifiers import BaseCertifier
from ..certifiers._lookup import find_certifier
from ..tallies import IntArray, Tally
from ._schema import check_path, is_new, read_about, read_labels, read_payload, read_spans, translate_sqlite_errors
from ._serialisation import unpack, unpack_tally


@dataclass(frozen=True, eq=False)
class JournalView:
    """The progress of a run with a journal, and the certificates that are finished.

    `read_journal` returns it. It does not change while the run continues; read the journal again to see the progress.

    Attributes
    ----------
    provenance : mapping
        How the certificates are made, as in `Certificates`. ``"seconds"`` is the time spent so far.
    samples : ndarray of int, shape (n_rows,)
        Number of samples counted for each input.
    samples_per_row : int
        Number of samples that an input needs. If radii were asked for, the largest number that it may need.
    finished : ndarray of int
        Numbers of the rows of `X` that have all their samples. If radii were asked for, of those that are decided.
    certificates : Certificates or None
        Certificates of the finished rows, in the order of `finished`. None if no row is finished. If the smoothed
        classifier is a step of a pipeline, radii are in the space of this step, which is named in
        ``certificates.space``; only `certify` converts them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from smoothcert import FirstOrderCertifier, SmoothedClassifier, read_journal
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SmoothedClassifier(GaussianNB(), certifier=FirstOrderCertifier(n_samples=1000), random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     journal = Path(directory) / "run.sqlite"
    ...     _ = clf.certify(X[::50], journal=journal)  # this may run in another process
    ...     view = read_journal(journal)
    >>> view.fraction_done
    1.0
    >>> view.samples, view.samples_per_row
    (array([1100, 1100, 1100]), 1100)
    >>> X[::50][view.finished].shape  # the inputs of the certificates below
    (3, 4)
    >>> view.certificates
    Certificates(3 inputs, 100% certified, median radius 0.615, FirstOrderCertifier(n_samples=1000))
      0: 0  radius 0.615
      1: 1  radius 0.0118
      2: 2  radius 0.615
    """

    provenance: Mapping[str, Any]
    samples: IntArray
    samples_per_row: int
    finished: IndexArray
    certificates: Certificates | None

    @property
    def fraction_done(self) -> float:
        """Fraction of all samples that are counted, or of the inputs that are decided if radii were asked for."""
        if "asked_radii" in self.provenance:
            return len(self.finished) / len(self.samples)
        return float(self.samples.sum() / (self.samples_per_row * len(self.samples)))

    def __repr__(self) -> str:
        # Rounded down: a run that is nearly finished is not finished.
        fraction_done = np.floor(1000 * self.fraction_done) / 10
        certifier = self.provenance.get("certifier")
        rows = f"{len(self.finished)} of {len(self.samples)} inputs"
        if "asked_radii" in self.provenance:  # how many samples there will be is not known
            return f"JournalView({rows} decided, {self.samples.sum()} samples, {certifier})"
        return f"JournalView({rows} finished, {fraction_done:g}% of the samples, {certifier})"


def read_journal(path: Any) -> JournalView:
    """Return the progress of a run with a journal, and the certificates that are finished.

    The journal is not changed, and a run that writes to it is not disturbed. If a run was killed while it wrote, the
    log beside the journal is recovered first, as it would be when the run is continued. If the log cannot be written,
    an error says so.

    Parameters
    ----------
    path : path-like
        The path that was given to `certify` as `journal`.

    Returns
    -------
    JournalView
        With `provenance`, `samples`, `samples_per_row`, `fraction_done`, `finished` and `certificates`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from smoothcert import FirstOrderCertifier, SmoothedClassifier, read_journal
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SmoothedClassifier(GaussianNB(), certifier=FirstOrderCertifier(n_samples=1000), random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     journal = Path(directory) / "run.sqlite"
    ...     certificates = clf.certify(X[:5], journal=journal)
    ...     view = read_journal(journal)
    >>> view
    JournalView(5 of 5 inputs finished, 100% of the samples, FirstOrderCertifier(n_samples=1000))
    >>> bool((view.certificates.radius == certificates.radius).all())
    True
    """
    path = check_path(path, "path")
    if not path.exists():
        raise FileNotFoundError(f"path must be a journal written by certify, got {str(path)!r}, which does not exist.")
    with translate_sqlite_errors(path, "read", _CURE), closing(_open(path)) as file:
        file.execute("BEGIN")  # one state of the file, whatever is written meanwhile
        if is_new(file, path):
            raise ValueError(f"path must be a journal written by certify, got {str(path)!r}, which is empty.")
        return _view(file)


_CURE = (
    "A file that a run is writing to, or was when it was killed, can be read only where its log can be written. Copy "
    "all files that begin with its name to a directory where you may write, and read the copy there."
)


def _open(path: Path) -> sqlite3.Connection:
    # A kill may leave a log that must be rolled back or recovered before anything can be read, and SQLite refuses that
    # to a connection that asked for reading only. Where the file may not be written, "rw" opens it for reading.
    file = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=30.0, isolation_level=None)
    file.execute("PRAGMA query_only = ON")
    return file


def _view(file: sqlite3.Connection) -> JournalView:
    about = read_about(file)
    facts, spans = about["facts"], read_spans(file)
    certifier, question = find_certifier(*facts["certifier"]), Question.from_plain(about["question"])
    if not facts["designs"]:
        certifier = certifier.without_designs()
    provenance = {**facts["provenance"], **question.provenance}
    provenance |= {"seed": int(about["seed"]), "seconds": float(about["seconds"])}
    samples, evidence = _evidence(file, facts, certifier, question, spans)
    certificates = None
    if len(evidence.rows):
        # Behind steps of a pipeline radii were asked for in its own units, and these are in the units of the steps.
        comparable = facts["space"] == "input"
        known = {name: value for name, value in provenance.items() if comparable or name != "asked_radii"}
        classes = unpack(read_labels(file))["classes"]
        classes = classes.astype(object) if facts["object_labels"] else classes
        certificates = build_certificates(
            evidence,
            classes,
            sigma=facts["effective_sigma"],
            provenance=known,
            space=facts["space"],
            lost=None if facts["lost"] is None else np.array(facts["lost"])[list(evidence.rows)],
            feature_scale=None if facts["feature_scale"] is None else np.array(facts["feature_scale"]),
            n_features=facts["n_features"],
        )
    each = certifier.n_selection + certifier.n_samples
    return JournalView(
        MappingProxyType(provenance), samples, each, np.array(evidence.rows, dtype=np.intp), certificates
    )


def _evidence(
    file: sqlite3.Connection,
    facts: Mapping[str, Any],
    certifier: BaseCertifier,
    question: Question,
    spans: Mapping[tuple[int, int], Sequence[Span]],
) -> tuple[IntArray, Evidence]:
    """Return the samples counted for each row, and the evidence about rows that are finished."""
    samples = np.zeros(facts["n_rows"], dtype=np.int64)

    def collect(stage: Stage) -> tuple[Sequence[int], Tally | None]:
        done, tallies = [], []
        for row, n_draws in stage.draws.items():
            known, block = spans.get((stage.number, row), ()), stage.block_size(row, facts["n_features"])
            if not callable(stage.observes):
                before = stage.before.get(row, 0)
                samples[row] += stage.sides * (count_draws(known, block, n_draws) - before)
            if not missing_spans(known, -(-n_draws // block)):
                done.append(row)
                tallies.append(unpack_tally(read_payload(file, stage.number, row), stage.new_tally(row)))
        return done, type(tallies[0]).concatenate(tallies) if tallies else None

    def count(counted: Counted) -> dict[int, int]:
        return {row: last_block(spans.get((counted.number, row), ())) for row in counted.rows}

    shape = facts["n_rows"], facts["n_features"], facts["n_classes"]
    return samples, run_stages(stages_for(certifier, question, facts["gradients"], *shape), collect, count)
