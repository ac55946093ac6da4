"""Scores of certificates against the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._certificates import Certificates
from .._validation import BoolArray, FloatArray, check_interval
from ._asked import warn_if_not_asked


def certified_accuracy_score(y_true: ArrayLike, certificates: Certificates, radius: float = 0.0) -> float:
    """Return the fraction of inputs that are right and certified at `radius`.

    At least this fraction of the predictions stays right under every perturbation shorter than `radius`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    certificates : Certificates
    radius : float, default=0.0
        In the units of the certificates. At 0 it is the fraction of inputs that are right and certified at all. If
        certificates were made by ``certify(X, radius=...)``, give one of those radii.

    Returns
    -------
    float

    Examples
    --------
    >>> from smoothcert import Certificates
    >>> from smoothcert.metrics import certified_accuracy_score
    >>> certificates = Certificates([0, 1, 1], [0.4, 0.1, 0.0], [False, False, True])
    >>> certified_accuracy_score([0, 1, 1], certificates, radius=0.25)
    0.3333333333333333
    """
    right = _certified_right(y_true, certificates)
    least = check_interval("radius", radius, lower=0.0, cure="Give a distance in the units of the certificates.")
    if least.ndim:
        raise ValueError(f"radius must be a single number, got {radius!r}. For several use certified_accuracy_curve.")
    warn_if_not_asked(f"The certified accuracy at {float(least):g}", [certificates], [float(least)])
    return float(np.mean(right & (certificates.radius >= least)))


def certified_accuracy_curve(
    y_true: ArrayLike, certificates: Certificates, radii: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return certified accuracy against the radius.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    certificates : Certificates
    radii : array-like, optional
        Where to evaluate; by default 0 and every radius at which the accuracy falls. If certificates were made by
        ``certify(X, radius=...)``, give those radii.

    Returns
    -------
    radii, accuracy : ndarray
    """
    curve = accuracy_curve(y_true, certificates, radii)
    warn_if_not_asked("A curve of certified accuracy", [certificates], None if radii is None else curve[0].tolist())
    return curve


def accuracy_curve(
    y_true: ArrayLike, certificates: Certificates, radii: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return what `certified_accuracy_curve` does, whatever was asked."""
    right = _certified_right(y_true, certificates)
    reached = np.sort(certificates.radius[right])
    if radii is None:
        points = np.unique(np.concatenate([[0.0], reached]))
    else:
        points = np.atleast_1d(check_interval("radii", radii, lower=0.0, cure="Give distances."))
    return points, (len(reached) - np.searchsorted(reached, points, side="left")) / len(right)


def average_certified_radius(y_true: ArrayLike, certificates: Certificates) -> float:
    """Return the mean certified radius, counted as 0 where the prediction is wrong or nothing is certified.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    certificates : Certificates

    Returns
    -------
    float
    """
    average = float(np.mean(np.where(_certified_right(y_true, certificates), certificates.radius, 0.0)))
    warn_if_not_asked("The average certified radius", [certificates])
    return average


def abstention_rate(certificates: Certificates) -> float:
    """Return the fraction of inputs for which nothing is certified.

    Parameters
    ----------
    certificates : Certificates

    Returns
    -------
    float
    """
    rate = float(np.mean(_checked(certificates).abstained))
    warn_if_not_asked("The share of certified inputs", [certificates], [0.0])
    return rate


def _certified_right(y_true: Any, certificates: Certificates) -> BoolArray:
    _checked(certificates)
    labels = as_labels(y_true)
    if labels.shape != (len(certificates),):
        raise ValueError(
            f"y_true must have one label for each of the {len(certificates)} certificates, got shape {labels.shape}. "
            "Give the labels of the inputs that were certified, in the same order."
        )
    if _is_text(labels) != _is_text(certificates.prediction):
        raise ValueError(
            f"y_true must hold labels like the predicted ones, got {labels[0]!r} where predictions look like "
            f"{certificates.prediction[0]!r}. Use the labels that were given to fit."
        )
    right: BoolArray = ~certificates.abstained & (certificates.prediction == labels)
    return right


def as_labels(y_true: Any) -> NDArray[Any]:
    """Return labels as an array."""
    try:
        return np.asarray(y_true)
    except ValueError:  # lists of different lengths
        raise ValueError("y_true must be a sequence of labels, got sequences of different lengths in it.") from None


def _is_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "US" or (labels.dtype.kind == "O" and isinstance(labels[0], str))


def _checked(certificates: Certificates) -> Certificates:
    if not isinstance(certificates, Certificates):
        raise TypeError(
            f"certificates must be Certificates, got {type(certificates).__name__}. They are what certify returns."
        )
    if len(certificates) == 0:
        raise ValueError("certificates must not be empty, got 0 certificates. The score is undefined without inputs.")
    return certificates
