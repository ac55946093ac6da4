"""Scorers for scikit-learn's searches and cross-validation."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._certificates import Certificates
from .._pipelines import certify_to_choose, find_smoothed
from .._validation import check_choice
from ._reach import warn_if_unreachable
from ._scores import abstention_rate, average_certified_radius, certified_accuracy_score

_NAMED: dict[str, Callable[[Any, Certificates], float]] = {
    "average_radius": average_certified_radius,
    "certified_share": lambda y_true, certificates: 1.0 - abstention_rate(certificates),
}


def make_certified_scorer(radius: Any = 0.0, *, space: str = "input") -> CertifiedScorer:
    """Return a scorer that certifies and then scores, for `cross_val_score`, `GridSearchCV` and the like.

    Parameters
    ----------
    radius : float, str or sequence of these, default=0.0
        A number: the certified accuracy at that radius. ``"average_radius"``: the average certified radius.
        ``"certified_share"``: the share of inputs not abstained from. A sequence: all of these, from a single
        certification; `GridSearchCV` then wants ``refit`` to name one, for example ``"accuracy_at_0.25"``. Where
        features have a sigma each, it is in units of sigma, which differ between candidates; with `ColumnSigma` it is
        in units that do not.
    space : {"input", "smoothed"}, default="input"
        As in `smoothcert.certify`: the space of radii where steps of a pipeline come before the smoothed one.

    Returns
    -------
    CertifiedScorer
        Callable with ``(estimator, X, y)``; larger is better. It unwraps pipelines, so the radius is in the space that
        `smoothcert.certify` reports; where that is not the space of `X`, a warning says so. Its noise is independent of
        the noise that `certify` draws with the same `random_state`, so the certificates of the model chosen keep their
        promise.

    Notes
    -----
    Only what the scores need is sampled. Radii are asked for all together, as in ``certify(X, y, radius=[...])``: most
    inputs are decided after some thousand samples. Inputs whose votes point to a wrong class score 0 and are given up
    at once, except for ``"certified_share"``, which counts them too. ``"average_radius"`` needs all samples of all
    other inputs.

    A radius that no input reaches scores 0 with every candidate of a search, which then takes the first one. Where
    `sigma` and `n_samples` are too small for a radius, whatever the inputs, an `UnreachableRadiusWarning` says so.

    Examples
    --------
    >>> from smoothcert.metrics import make_certified_scorer
    >>> make_certified_scorer([0.0, 0.25, "average_radius"])
    CertifiedScorer(accuracy_at_0, accuracy_at_0.25, average_radius)
    """
    several = isinstance(radius, Sequence) and not isinstance(radius, str)
    wanted = list(radius) if several else [radius]
    if not wanted:
        raise ValueError("radius must name at least one score, got an empty sequence. Give a number, for example 0.25.")
    for item in wanted:
        if isinstance(item, str) and item in _NAMED:
            continue
        if isinstance(item, bool) or not isinstance(item, numbers.Real) or not 0.0 <= float(item) < np.inf:
            raise ValueError(
                f"radius must be a finite number of at least 0 or one of {sorted(_NAMED)}, got {item!r}. "
                "Give the radius at which accuracy is to be certified, for example 0.25."
            )
    check_choice("space", space, ("input", "smoothed"))
    return CertifiedScorer(wanted, several, space)


class CertifiedScorer:
    """Scorer returned by `make_certified_scorer`; can be pickled."""

    def __init__(self, wanted: list[Any], several: bool, space: str = "input") -> None:
        self.wanted = wanted
        self.several = several
        self.space = space

    def __call__(self, estimator: Any, X: Any, y: Any) -> Any:
        labels = self._labels(estimator, y)
        certificates = certify_to_choose(estimator, X, labels, radius=self._asked(), space=self.space)
        unexpected = certificates.space != "input" and self.space == "input"
        if unexpected and any(item not in (0, "certified_share") for item in self.wanted):
            warnings.warn(
                f"The radii of {self!r} are distances in {certificates.space}, not in the units of X: it is not known "
                "by how much the steps before the smoothed classifier stretch distances. Compare these scores only "
                "between models with the same steps.",
                UserWarning,
                stacklevel=2,
            )
        scores = {_name(item): _score(item, y, certificates) for item in self.wanted}
        lost = [float(item) for item in self.wanted if not isinstance(item, str) and scores[_name(item)] == 0.0]
        if lost:
            warn_if_unreachable(estimator, X, lost, self.space)
        return scores if self.several else next(iter(scores.values()))

    def _asked(self) -> list[float] | None:
        """Return the radii that decide all scores, None if there is a score for which every radius counts."""
        if "average_radius" in self.wanted:
            return None
        return sorted({0.0 if item == "certified_share" else float(item) for item in self.wanted})

    def _labels(self, estimator: Any, y: Any) -> Any:
        """Return the labels that tell which inputs need not be certified; None if all of them are."""
        if "certified_share" in self.wanted:
            return None
        # In cross-validation a rare label may be missing in the training data. `certify` takes known labels only.
        known = getattr(find_smoothed(estimator), "classes_", np.empty(0))
        return y if set(np.asarray(y).ravel().tolist()) <= set(known.tolist()) else None

    def __repr__(self) -> str:
        return f"CertifiedScorer({', '.join(_name(item) for item in self.wanted)})"


def _name(item: Any) -> str:
    return item if isinstance(item, str) else f"accuracy_at_{float(item):g}"


def _score(item: Any, y: Any, certificates: Certificates) -> float:
    return _NAMED[item](y, certificates) if isinstance(item, str) else certified_accuracy_score(y, certificates, item)
