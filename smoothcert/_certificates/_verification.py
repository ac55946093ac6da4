"""Computing radii again from the evidence, to notice what was changed or damaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._validation import BoolArray
from ._evidence import EvidencePart, StoredEvidence
from ._rows import put_together

if TYPE_CHECKING:
    from ._result import Certificates

_TOLERANCE = 1e-9
"""Relative difference that is not reported. Another machine may round the last digits of a bound differently."""


@dataclass(frozen=True, eq=False)
class Verification:
    """What came out when radii were computed again.

    It is true if all certificates could be computed again and none differs.

    Attributes
    ----------
    differs : ndarray of bool, shape (n,)
        Certificates that are not what their evidence proves.
    checked : ndarray of bool, shape (n,)
        Certificates whose evidence is there.
    message : str
        What was found, in words.
    """

    differs: BoolArray
    checked: BoolArray
    message: str

    def __bool__(self) -> bool:
        return bool(np.all(self.checked) and not np.any(self.differs))

    def __repr__(self) -> str:
        return f"Verification({self.message})"


def verify(certificates: Certificates) -> Verification:
    """Compare certificates with what their evidence proves."""
    n, evidence = len(certificates), certificates.evidence
    if evidence is None:
        why = (
            "no samples were drawn"
            if certificates.provenance.get("certifier") == "exact"
            else "none was kept, or the module of its certifier is not imported"
        )
        return Verification(
            np.zeros(n, bool), np.zeros(n, bool), f"0 of {n} certificates have evidence to compute them from: {why}."
        )
    reasons: dict[int, str] = {}
    for row, reason in _differences(certificates, evidence):
        reasons.setdefault(row, reason)
    differs = np.zeros(n, dtype=bool)
    differs[list(reasons)] = True
    if not reasons:
        return Verification(differs, np.ones(n, bool), f"The evidence proves all {n} certificates.")
    shown = "; ".join(f"{row}: {reasons[row]}" for row in sorted(reasons)[:5])
    more = f"; and {len(reasons) - 5} more" if len(reasons) > 5 else ""
    return Verification(
        differs,
        np.ones(n, bool),
        f"{len(reasons)} of {n} certificates differ from what their evidence proves. {shown}{more}.",
    )


def _differences(certificates: Certificates, evidence: StoredEvidence) -> Iterator[tuple[int, str]]:
    """Yield certificates that are not what they should be, with a reason; some of them several times."""
    n = len(certificates)
    proved, limits, counts = np.zeros(n), [], []
    fill: dict[str, float] = {}
    alpha, sigma = (certificates.provenance.get(name) for name in ("alpha", "sigma"))
    for part in evidence.parts:
        if alpha is not None and not part.certifier.alpha <= alpha:
            for row in part.rows:
                yield int(row), f"certified at level {part.certifier.alpha:g}, which is more than alpha={alpha:g}"
        try:
            inference = part.certifier.certify_tally(part.tally)
            summary = part.tally.summary()
            proved[part.rows] = inference.radius
        except (ArithmeticError, AssertionError, IndexError, TypeError, ValueError) as error:
            for row in part.rows:
                yield int(row), f"the evidence is impossible ({error})"
            continue
        limits.append((part.rows, inference.limits))
        counts.append((part.rows, summary))
        fill |= type(part.tally).fill
        yield from _candidates(certificates, part)
    yield from _arrays("the limit", certificates.limits, put_together(limits, n))
    yield from _arrays("the count", certificates.counts, put_together(counts, n, fill))
    if isinstance(sigma, float | int):
        for row in np.flatnonzero(~(evidence.sigma <= sigma)):
            yield int(row), f"radii are multiplied with {evidence.sigma[row]:g}, which is more than sigma={sigma:g}"
    radius = evidence.issue(proved)
    for row in np.flatnonzero(~_close(certificates.radius, radius)):
        yield int(row), f"radius {certificates.radius[row]:.10g}, and the evidence proves {radius[row]:.10g}"
    for row in np.flatnonzero(certificates.abstained != (certificates.radius == 0.0)):
        yield int(row), f"abstained={bool(certificates.abstained[row])} with radius {certificates.radius[row]:.10g}"


def _candidates(certificates: Certificates, part: EvidencePart) -> Iterator[tuple[int, str]]:
    candidate = getattr(part.tally, "candidate", None)
    if candidate is None or certificates.classes is None:
        return
    for row, index in zip(part.rows, candidate, strict=True):
        if not 0 <= index < len(certificates.classes) or certificates.prediction[row] != certificates.classes[index]:
            yield int(row), f"prediction {certificates.prediction[row]!s}, and the evidence is about another class"


def _arrays(
    what: str, stored: Mapping[str, NDArray[Any]], found: Mapping[str, NDArray[Any]]
) -> Iterator[tuple[int, str]]:
    for name, again in found.items():
        if name == "direction":  # too large to be kept twice
            continue
        kept = stored.get(name, np.empty(0))
        # Some of the inputs may have needed longer rows, and need not be among these any more.
        kept = (
            kept[(slice(None), *(slice(0, length) for length in again.shape[1:]))] if kept.ndim == again.ndim else kept
        )
        if kept.shape != again.shape:
            yield from ((row, f"{what} {name} is missing") for row in range(len(again)))
            continue
        same = _close(kept, again).reshape(len(again), -1).all(axis=1)
        for row in np.flatnonzero(~same):
            yield int(row), f"{what} {name} differs"


def _close(one: NDArray[Any], other: NDArray[Any]) -> BoolArray:
    """Return where numbers agree, infinite and missing ones included."""
    if one.dtype.kind != "f" and other.dtype.kind != "f":
        return np.asarray(one == other)
    with np.errstate(invalid="ignore"):
        near = np.abs(one - other) <= _TOLERANCE * np.maximum(np.abs(one), np.abs(other))
    return np.asarray(near | (one == other) | (np.isnan(one) & np.isnan(other)))
