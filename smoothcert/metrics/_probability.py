"""How sure the vote is, over all inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._certificates import Certificates
from .._validation import FloatArray, check_probability
from ._asked import warn_if_not_asked
from ._scores import _certified_right, _checked


def class_probability(y_true: ArrayLike, certificates: Certificates) -> FloatArray:
    """Estimate the probability of each input's class under noise.

    An average radius can increase because easy inputs gain while other inputs are lost. The distribution of this
    probability over the inputs shows this, because a first-order certificate depends on it alone.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    certificates : Certificates
        With the counts of their votes, as `certify` returns them.

    Returns
    -------
    ndarray of shape (n,)
        Fraction of the votes for the true class if it is the predicted one, and 0 otherwise. This is an estimate, not a
        confidence bound.

    Examples
    --------
    >>> from smoothcert import Certificates
    >>> from smoothcert.metrics import class_probability
    >>> counts = {"hits": [90, 70, 55], "n": [100, 100, 100]}
    >>> certificates = Certificates([0, 1, 1], [0.4, 0.1, 0.0], [False, False, True], counts=counts)
    >>> class_probability([0, 0, 1], certificates)
    array([0.9 , 0.  , 0.55])
    """
    counts = _checked(certificates).counts
    if "share" in counts:  # of noise at random, where the votes may be on other noise
        hits, n = counts["share"], np.ones(len(certificates))
    elif {"hits", "n"} <= counts.keys():
        hits, n = counts["hits"], counts["n"]
    elif {"both", "one", "pairs"} <= counts.keys():
        hits, n = 2 * counts["both"] + counts["one"], 2 * counts["pairs"]
    else:
        raise ValueError(
            "certificates must have the counts of votes, hits and n or both, one and pairs, got "
            f"{sorted(counts)}. Use those that certify returned."
        )
    warn_if_not_asked("The probability of a class", [certificates], fault="far off")
    everywhere = Certificates(certificates.prediction, certificates.radius, np.zeros(len(certificates), dtype=bool))
    right = _certified_right(y_true, everywhere)  # also where the certifier abstained
    return np.where(right, hits / np.maximum(n, 1), 0.0)


def class_probability_curve(
    y_true: ArrayLike, certificates: Certificates, probabilities: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the fraction of inputs whose class has at least a given probability under noise.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    certificates : Certificates
        With the counts of their votes.
    probabilities : array-like, optional
        Where to evaluate; by default 0 and every probability at which the share falls.

    Returns
    -------
    probabilities, share : ndarray

    Examples
    --------
    >>> from smoothcert import Certificates
    >>> from smoothcert.metrics import class_probability_curve
    >>> counts = {"hits": [90, 70, 55, 90], "n": [100, 100, 100, 100]}
    >>> certificates = Certificates([0, 1, 1, 1], [0.4, 0.1, 0.0, 0.4], [False, False, True, False], counts=counts)
    >>> class_probability_curve([0, 0, 1, 1], certificates)
    (array([0.  , 0.55, 0.9 ]), array([1.  , 0.75, 0.5 ]))
    """
    values = np.sort(class_probability(y_true, certificates))
    if probabilities is None:
        points = np.unique(np.concatenate([[0.0], values]))
    else:
        points = np.atleast_1d(check_probability("probabilities", probabilities))
    return points, (len(values) - np.searchsorted(values, points, side="left")) / len(values)
