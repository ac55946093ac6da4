"""How much further one certificate reaches than another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._certificates import Certificates
from .._validation import FloatArray, as_float_array
from ._asked import warn_if_not_asked
from ._scores import _certified_right

PAPER_EDGES = (-0.25, -0.15, -0.05, -0.01, 0.01, 0.05, 0.15, 0.25)
"""Where the paper divides relative changes: nine bins, and one on either side for inputs certified by one only."""


def certificate_gain(y_true: ArrayLike, baseline: Certificates, certificates: Certificates) -> FloatArray:
    """Return the relative change of each certified radius.

    A wrong prediction counts as not certified.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    baseline, certificates : Certificates
        Of the same inputs, in the same order.

    Returns
    -------
    ndarray of shape (n,)
        ``radius / baseline radius - 1``; -1 where only the baseline certifies, inf where it alone does not, NaN where
        neither does and there is nothing to compare.

    Examples
    --------
    >>> from smoothcert import Certificates
    >>> from smoothcert.metrics import certificate_gain
    >>> baseline = Certificates([0, 1, 1], [0.4, 0.2, 0.0], [False, False, True])
    >>> better = Certificates([0, 1, 1], [0.5, 0.2, 0.1], [False, False, False])
    >>> certificate_gain([0, 1, 1], baseline, better).round(3)
    array([0.25, 0.  ,  inf])
    """
    old, new = (np.where(_certified_right(y_true, c), c.radius, 0.0) for c in (baseline, certificates))
    if baseline.space != certificates.space:
        raise ValueError(
            f"baseline and certificates must have radii in the same space, got {baseline.space!r} and "
            f"{certificates.space!r}. Certify both with the same estimator."
        )
    warn_if_not_asked("A comparison of radii", [baseline, certificates])
    gain = np.full(old.shape, np.nan)
    both = (old > 0.0) & (new > 0.0)
    # Two radii without end are equal.
    gain[both] = [0.0 if n == o else n / o - 1.0 for n, o in zip(new[both], old[both], strict=True)]
    gain[(old > 0.0) & (new == 0.0)] = -1.0
    gain[(old == 0.0) & (new > 0.0)] = np.inf
    return gain


def gain_histogram(gain: ArrayLike, edges: Sequence[float] = PAPER_EDGES) -> NDArray[np.int64]:
    """Return the number of inputs in each range of relative change, as in figures 5 and 6 of the paper.

    Parameters
    ----------
    gain : array-like of shape (n,)
        What `certificate_gain` returns. NaN, where neither certifies, is not counted.
    edges : sequence of float, default=PAPER_EDGES
        Increasing relative changes, all finite and above -1. Each bin includes its upper edge.

    Returns
    -------
    ndarray of int, shape (len(edges) + 3,)
        Inputs certified by the baseline only; the ranges from below the first edge to above the last; inputs certified
        by the new certificate only. With the default edges these are the paper's eleven bins.

    Examples
    --------
    >>> from smoothcert.metrics import gain_histogram
    >>> gain_histogram([-1.0, -0.02, 0.0, 0.003, 0.04, 0.3, float("inf"), float("nan")])
    array([1, 0, 0, 0, 1, 2, 1, 0, 0, 1, 1])
    """
    limits = as_float_array("edges", edges)
    if limits.ndim != 1 or not (np.all(np.isfinite(limits)) and np.all(limits > -1.0) and np.all(np.diff(limits) > 0)):
        raise ValueError(
            f"edges must be increasing finite numbers above -1, got {edges!r}. "
            "They are relative changes: 0.05 means 5%."
        )
    values = as_float_array("gain", gain).ravel()
    values = values[~np.isnan(values)]
    lost, won = values == -1.0, values == np.inf
    # Ratios, not differences, so that a radius of exactly 1.01 times the other is on the edge and not beside it.
    bins = np.searchsorted(1.0 + limits, 1.0 + values[~lost & ~won], side="left")
    inner = np.bincount(bins, minlength=len(limits) + 1)
    return np.concatenate([[lost.sum()], inner, [won.sum()]]).astype(np.int64)
