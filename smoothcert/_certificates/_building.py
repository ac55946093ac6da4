"""From evidence to certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._column_noise import ColumnNoise, Sigma
from .._engine import Evidence
from .._frames import is_frame
from .._validation import FloatArray, check_interval
from .._version import __version__
from ..certifiers import BaseCertifier
from ..tallies import IntArray, Tally
from ..tallies._condensed import condense
from ._evidence import EvidencePart, StoredEvidence
from ._result import Certificates
from ._rounding import issue_radius
from ._rows import put_together


def effective_sigma(sigma: Sigma, dtype: Any) -> float:
    """Return what radii are multiplied with: noise is scaled in the precision of the data, where sigma may round
    down.

    Where each feature has its own, radii stay in units of sigma, and the factor is at most 1: if noise is applied with
    ``s_j`` in place of ``sigma_j``, then ``|delta / s| <= |delta / sigma| / min_j (s_j / sigma_j)``.
    """
    if isinstance(sigma, ColumnNoise):
        return _effective_unit(sigma, np.dtype(dtype))
    with np.errstate(over="ignore"):
        applied = float(np.dtype(dtype).type(sigma))
    if not np.isfinite(applied):
        raise ValueError(
            f"sigma must be a finite number in the precision of the data, {np.dtype(dtype)}, got {sigma!r}. "
            "Rescale X and sigma so that sigma is neither extremely small nor extremely large."
        )
    return min(sigma, applied)


def _effective_unit(sigma: ColumnNoise, dtype: np.dtype[Any]) -> float:
    with np.errstate(over="ignore", under="ignore"):
        applied = sigma.sigma.astype(dtype).astype(np.float64)
    wrong = ~(np.isfinite(applied) & (applied > 0.0))
    if np.any(wrong):
        raise ValueError(
            f"sigma must be a positive finite number in the precision of the data, {dtype}, for each feature with "
            f"noise, got {float(sigma.sigma[wrong][0])!r}. Rescale X and sigma so that sigma is neither extremely "
            "small nor extremely large."
        )
    if np.all(applied >= sigma.sigma):
        return 1.0
    return float(np.nextafter(np.min(applied / sigma.sigma), 0.0))


def build_certificates(
    evidence: Evidence,
    classes: NDArray[Any],
    *,
    sigma: float,
    provenance: Mapping[str, Any],
    space: str = "input",
    lost: FloatArray | None = None,
    feature_scale: FloatArray | None = None,
    n_features: int | None = None,
) -> Certificates:
    """Return the certificates that the evidence proves, in the units of the inputs.

    Parameters
    ----------
    evidence : Evidence
        With at least one row.
    classes : ndarray
        Labels.
    sigma : float
        What radii are multiplied with, see `effective_sigma`.
    provenance : mapping
    space : str
    lost : ndarray, optional
        What the radius of each row loses by a cast of its input.
    feature_scale : ndarray, optional
        What one unit of a radius is in each feature.
    n_features : int, optional
        Number of features with noise.
    """
    n, place = len(evidence.rows), {row: i for i, row in enumerate(evidence.rows)}
    proved = np.zeros(n)
    limits: list[tuple[list[int], Mapping[str, NDArray[Any]]]] = []
    upper_limits: set[str] = set()
    of_kind: dict[type[Tally], tuple[list[int], list[Tally]]] = {}
    parts = []
    for part in evidence.parts:
        places = [place[row] for row in part.rows]
        inference = part.certifier.certify_tally(part.tally) if part.inference is None else part.inference
        proved[places] = inference.radius
        limits.append((places, inference.limits))
        upper_limits |= part.certifier.upper_limits & inference.limits.keys()
        rows, tallies = of_kind.setdefault(type(part.tally), ([], []))
        rows.extend(places)
        tallies.append(part.tally)
        parts.append(EvidencePart(np.array(places, dtype=np.intp), part.certifier, condense(part.tally)))
    counts = [(rows, kind.concatenate(tallies).summary()) for kind, (rows, tallies) in of_kind.items()]
    fill = {name: value for kind in of_kind for name, value in kind.fill.items()}
    radius = issue_radius(proved, sigma, lost)
    counted = put_together(counts, n, fill)
    return Certificates(
        prediction=classes[evidence.candidate],
        radius=radius,
        abstained=radius == 0.0,
        limits=put_together(limits, n),
        counts=counted,
        provenance=provenance,
        space=space,
        upper_limits=frozenset(upper_limits),
        samples_used=evidence.samples,
        stopped=evidence.stopped,
        feature_scale=feature_scale,
        n_features=n_features,
        classes=classes,
        runner_up=_runner_up(evidence.candidate, len(classes), evidence.selection, counted.get("votes")),
        evidence=StoredEvidence.start(parts, n, sigma, lost),
    )


def _runner_up(candidate: IntArray, n_classes: int, *votes: NDArray[Any] | None) -> IntArray:
    """Return the class with the most votes but for the candidate, by the last votes that name one; -1 for none."""
    found = np.full(len(candidate), -1)
    for counts in votes:
        if counts is None or counts.shape != (len(candidate), n_classes):
            continue
        others = counts.copy()
        np.put_along_axis(others, candidate[:, None], 0, axis=1)
        found = np.where(others.max(axis=1, initial=0) > 0, np.argmax(others, axis=1), found)
    return found


def with_rows_of(certificates: Certificates, X: Any, y: Any) -> Certificates:
    """Return certificates with the index of a data frame, and with true labels, where there are any."""
    index = np.asarray(X.index) if is_frame(X) else None
    label = None if y is None else np.asarray(y)
    return certificates if index is None and label is None else replace(certificates, index=index, label=label)


def certificates_from_tally(
    tally: Tally,
    certifier: BaseCertifier,
    *,
    sigma: float,
    prediction: ArrayLike | None,
    classes: ArrayLike | None,
    n_features: int | None,
    counted: Sequence[int] | None = None,
) -> Certificates:
    """Return certificates from evidence that was counted elsewhere; see `Certificates.from_tally`.

    With `counted`, the tally is about these rows of `prediction` only.
    """
    unit = float(check_interval("sigma", sigma, lower=0.0, lower_open=True, upper=np.inf, upper_open=True))
    inference = certifier.certify_tally(tally)
    candidate = getattr(tally, "candidate", None)
    labels = None if classes is None else np.asarray(classes)
    if prediction is not None:
        predicted = np.atleast_1d(np.asarray(prediction))
    elif candidate is None:
        raise ValueError(
            "prediction must be given for a tally that does not name its candidates, got None. Give the labels of "
            "the classes whose votes were counted, one for each input."
        )
    elif labels is None:
        predicted = candidate
    else:
        predicted = labels[candidate]
    rows = np.arange(len(tally)) if counted is None else np.asarray(counted, dtype=np.intp)
    n = len(predicted)
    if counted is None and n != len(tally):
        raise ValueError(f"prediction must have one label for each of the {len(tally)} inputs, got {n}.")
    proved = np.zeros(n)
    proved[rows] = inference.radius
    evidence = StoredEvidence.start([EvidencePart(rows, certifier, condense(tally))], n, unit)
    radius = evidence.issue(proved)
    counts = put_together([(rows, tally.summary())], n, type(tally).fill)
    provenance = {
        "sigma": unit,
        "alpha": float(certifier.alpha),
        "n_samples": int(certifier.n_samples),
        "certifier": repr(certifier),
        "certifier_params": certifier.get_params(),
        "version": __version__,
    }
    known = getattr(tally, "n_features", 0) or None
    return Certificates(
        prediction=predicted,
        radius=radius,
        abstained=radius == 0.0,
        limits=put_together([(rows, inference.limits)], n),
        counts=counts,
        provenance=provenance,
        upper_limits=certifier.upper_limits & inference.limits.keys(),
        n_features=known if n_features is None else int(n_features),
        classes=labels,
        evidence=evidence,
    )
