"""Checks of what is asked of `certify`: radii, labels and a number of samples."""

from __future__ import annotations

import numbers
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_EXAMPLE = "Give a distance in the units of X, for example radius=0.5, or an increasing sequence of them."


def check_asked_radii(radius: Any) -> tuple[float, ...] | None:
    """Return the radii asked for, None if there are none.

    0 is allowed: certificates with a radius above 0 count as certified there, as in `smoothcert.metrics`.
    """
    if radius is None:
        return None
    try:
        radii = np.asarray(radius)
        if radii.dtype.kind not in "fiu" or radii.ndim > 1:
            raise TypeError
        radii = radii.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"radius must be a number or a sequence of numbers, got {_shorten(radius)}. {_EXAMPLE}"
        ) from None
    asked = [float(value) for value in np.atleast_1d(radii)]
    if not asked:
        raise ValueError(f"radius must hold at least one number, got an empty sequence. {_EXAMPLE}")
    for value in asked:
        if not 0.0 <= value < np.inf:
            raise ValueError(f"radius must be at least 0 and finite, got {value!r}. {_EXAMPLE}")
    for smaller, larger in pairwise(asked):
        if not smaller < larger:
            raise ValueError(
                f"radius must be an increasing sequence, got {smaller!r} before {larger!r}. Sort it, for example by "
                "np.unique."
            )
    return tuple(asked)


def check_max_samples(max_samples: Any, asked: tuple[float, ...] | None, n_samples: int) -> None:
    """Require a number of samples that goes with what is asked."""
    if max_samples is None:
        return
    if asked is None:
        raise ValueError(
            f"max_samples must be None unless radius is given, got {max_samples!r}. Without radius, exactly n_samples "
            "of the certifier are drawn: change n_samples, or give radius."
        )
    if not isinstance(max_samples, numbers.Integral) or isinstance(max_samples, bool) or max_samples < n_samples:
        raise ValueError(
            f"max_samples must be an integer of at least the certifier's n_samples, {n_samples}, got {max_samples!r}. "
            "For fewer samples use a certifier with a smaller n_samples."
        )


def as_class_indices(y: Any, classes: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
    """Return the index in `classes` of each label."""
    labels = np.asarray(y)
    if labels.ndim == 0:
        raise ValueError(
            f"y must have one label for each of the {n_rows} inputs, got {_shorten(y)}. Give radius and journal "
            "by name, for example certify(X, radius=0.5)."
        )
    if labels.shape != (n_rows,):
        raise ValueError(
            f"y must have one label for each of the {n_rows} inputs, got shape {labels.shape}. Give the true labels "
            "of X, or leave them out."
        )
    index = {label: i for i, label in enumerate(classes.tolist())}
    found = [index.get(label, -1) for label in labels.tolist()]
    if -1 in found:
        unknown = labels.tolist()[found.index(-1)]
        raise ValueError(
            f"y must hold labels that were seen in fit, got {unknown!r}. An input with another label cannot be "
            "certified; leave its row out of X and y."
        )
    return np.array(found, dtype=np.int64)


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
