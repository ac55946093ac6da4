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
from numpy.typing import NDArray

from ._certificates import Certificates
from ._issue import issue
from ._journal import FUNCTION, certifier_name
from ._journal_file import check_path, is_new, read_about, read_labels, read_payload, read_spans, told
from ._ledger import Span, draws_in, gaps
from ._noise import SELECTION, block_rows
from ._payload import unpack, unpack_tally
from ._stages import Look, follow_stages
from .certifiers import BaseCertifier
from .tallies import IntArray, Tally, VoteTally


@dataclass(frozen=True, eq=False)
class JournalView:
    """How far a run is, and what it has proved.

    Attributes
    ----------
    provenance : mapping
        How the certificates are made, as in `Certificates`; ``"seconds"`` are those spent so far.
    samples : ndarray of int, shape (n_rows,)
        Samples counted for each input.
    samples_per_row : int
        Samples an input needs.
    finished : ndarray of int
        Rows of `X` that have all their samples.
    certificates : Certificates or None
        Of the finished rows, in that order. None while there are none. Where the smoothed classifier is part of a
        pipeline, radii are in its own space, named in ``certificates.space``; `certify` itself converts them.
    """

    provenance: Mapping[str, Any]
    samples: IntArray
    samples_per_row: int
    finished: NDArray[np.intp]
    certificates: Certificates | None

    @property
    def share(self) -> float:
        """Share of all samples that are counted."""
        return float(self.samples.sum() / (self.samples_per_row * len(self.samples)))

    def __repr__(self) -> str:
        # Rounded down: a run that is nearly finished is not finished.
        share = np.floor(1000 * self.share) / 10
        certifier = self.provenance.get("certifier")
        rows = f"{len(self.finished)} of {len(self.samples)} inputs finished"
        return f"JournalView({rows}, {share:g}% of the samples, {certifier})"


def read_journal(path: Any) -> JournalView:
    """Show how far a run with a journal is, and the certificates it has already.

    Nothing in the file is changed, and a run that writes to it is not disturbed. What a killed run left half-written
    beside the file is put in order first, as the run itself would do when continued; where that may not be written,
    an error says so.

    Parameters
    ----------
    path : path-like
        What was given to `certify` as `journal`.

    Returns
    -------
    JournalView
        With `provenance`, `samples`, `samples_per_row`, `share`, `finished` and `certificates`.

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
    with told(path, "read", _CURE), closing(_open(path)) as file:
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
    certifier = _certifier(*facts["certifier"])
    provenance = {**facts["provenance"], "seed": int(about["seed"]), "seconds": float(about["seconds"])}
    samples, rows, evidence = _evidence(file, facts, certifier, spans)
    certificates = None
    if evidence is not None:
        candidate, tally = evidence
        classes = unpack(read_labels(file))["classes"]
        classes = classes.astype(object) if facts["object_labels"] else classes
        lost = None if facts["lost"] is None else np.array(facts["lost"])[list(rows)]
        certificates = issue(certifier, candidate, tally, facts["unit"], classes, provenance, facts["space"], lost)
    each = certifier.n_selection + certifier.n_samples
    return JournalView(MappingProxyType(provenance), samples, each, np.array(rows, dtype=np.intp), certificates)


def _evidence(
    file: sqlite3.Connection,
    facts: Mapping[str, Any],
    certifier: BaseCertifier,
    spans: Mapping[tuple[int, int], Sequence[Span]],
) -> tuple[IntArray, Sequence[int], tuple[IntArray, Tally] | None]:
    """Samples counted for each row, rows that are finished, and their candidates and evidence."""
    block, n_classes = block_rows(facts["n_features"]), facts["n_classes"]
    samples = np.zeros(facts["n_rows"], dtype=np.int64)
    chosen = [row for row in range(facts["n_rows"]) if spans.get((SELECTION, row))]
    samples[chosen] = certifier.n_selection
    if not chosen:
        return samples, (), None
    votes = [unpack_tally(read_payload(file, SELECTION, row), VoteTally.empty(1, n_classes)) for row in chosen]
    candidate = np.argmax(VoteTally.concatenate(votes).counts, axis=1)

    def collect(look: Look, places: Sequence[int]) -> tuple[Sequence[int], Tally | None]:
        done, tallies = [], []
        for place in places:
            row, n_draws = chosen[place], look.draws(place)
            found = spans.get((look.stage, row), ())
            if not callable(look.observes):
                samples[row] += look.sides * draws_in(found, block, n_draws)
            if not gaps(found, -(-n_draws // block)):
                done.append(place)
                tallies.append(unpack_tally(read_payload(file, look.stage, row), look.empty(place)))
        return done, type(tallies[0]).concatenate(tallies) if tallies else None

    places, tally = follow_stages(certifier, facts["gradients"], candidate, facts["n_features"], n_classes, collect)
    rows = [chosen[place] for place in places]
    return samples, rows, None if tally is None else (candidate[list(places)], tally)


def _certifier(name: str, params: dict[str, Any]) -> BaseCertifier:
    """The certifier of a run, found by name among those that are loaded."""
    kinds = [BaseCertifier]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
        if certifier_name(kind) == name:
            # What a function gave is stored; it is not called again.
            known: dict[str, Any] = {k: _not_called if str(v).startswith(FUNCTION) else v for k, v in params.items()}
            return kind(**known)
    raise ValueError(
        f"The certifier {name} of the journal must be loaded to read it, got none. Import its module first."
    )


def _not_called(*arguments: Any) -> Any:
    raise RuntimeError("A function given to the certifier is not part of the journal.")
