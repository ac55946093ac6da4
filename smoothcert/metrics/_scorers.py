"""Scorers for scikit-learn's searches and cross-validation."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .._certificates import Certificates
from .._pipelines import certify_to_choose
from .._validation import check_choice
from ._scores import abstention_rate, average_certified_radius, certified_accuracy_score

_NAMED: dict[str, Callable[[Any, Certificates], float]] = {
    "average_radius": average_certified_radius,
    "certified_share": lambda y_true, certificates: 1.0 - abstention_rate(certificates),
}


def make_certified_scorer(radius: Any = 0.0, *, space: str = "input") -> CertifiedScorer:
    """A scorer that certifies and then scores, for `cross_val_score`, `GridSearchCV` and the like.

    Parameters
    ----------
    radius : float, str or sequence of these, default=0.0
        A number: the certified accuracy at that radius. ``"average_radius"``: the average certified radius.
        ``"certified_share"``: the share of inputs not abstained from. A sequence: all of these, from a single
        certification; `GridSearchCV` then wants ``refit`` to name one, say ``"accuracy_at_0.25"``. Where features
        have a sigma each, it is in units of sigma, which differ between candidates; with `ColumnSigma` it is in units
        that do not.
    space : {"input", "smoothed"}, default="input"
        As in `smoothcert.certify`: the space of radii where steps of a pipeline come before the smoothed one.

    Returns
    -------
    CertifiedScorer
        Callable with ``(estimator, X, y)``; larger is better. It unwraps pipelines, so the radius is in the space that
        `smoothcert.certify` reports; where that is not the space of `X`, a warning says so. A radius that no input
        reaches scores 0 in every candidate, and a search then takes the first one: look at ``best_score_``. Its noise
        is independent of the noise that `certify` draws with the same `random_state`, so the certificates of the
        model chosen keep their promise.

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
        if isinstance(item, bool) or not isinstance(item, numbers.Real) or not float(item) >= 0.0:
            raise ValueError(
                f"radius must be a number of at least 0 or one of {sorted(_NAMED)}, got {item!r}. "
                "Give the radius at which accuracy is to be certified, for example 0.25."
            )
    check_choice("space", space, ("input", "smoothed"))
    return CertifiedScorer(wanted, several, space)


class CertifiedScorer:
    """What `make_certified_scorer` makes; it pickles."""

    def __init__(self, wanted: list[Any], several: bool, space: str = "input") -> None:
        self.wanted = wanted
        self.several = several
        self.space = space

    def __call__(self, estimator: Any, X: Any, y: Any) -> Any:
        certificates = certify_to_choose(estimator, X, self.space)
        unexpected = certificates.space != "input" and self.space == "input"
        if unexpected and any(item not in (0, "certified_share") for item in self.wanted):
            warnings.warn(
                f"The radii of {self!r} are distances in {certificates.space}, not in the units of X: it is not known "
                "by how much the steps before stretch distances. Compare them among models with the same steps only.",
                UserWarning,
                stacklevel=2,
            )
        scores = {_name(item): _score(item, y, certificates) for item in self.wanted}
        return scores if self.several else next(iter(scores.values()))

    def __repr__(self) -> str:
        return f"CertifiedScorer({', '.join(_name(item) for item in self.wanted)})"


def _name(item: Any) -> str:
    return item if isinstance(item, str) else f"accuracy_at_{float(item):g}"


def _score(item: Any, y: Any, certificates: Certificates) -> float:
    return _NAMED[item](y, certificates) if isinstance(item, str) else certified_accuracy_score(y, certificates, item)
