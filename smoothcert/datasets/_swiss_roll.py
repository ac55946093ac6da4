"""The swiss roll of the paper, cut into an inner and an outer class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validation import FloatArray


def make_swiss_roll_classes(
    n_samples: int = 100, *, noise: float = 1.0, random_state: Any = None
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Make two classes that wind around each other in the plane.

    scikit-learn's swiss roll seen from its end, divided by ten. The published experiment trains on 1000 points with
    ``random_state=1`` and certifies 100 points with ``random_state=2``.

    Parameters
    ----------
    n_samples : int, default=100
        Number of points.
    noise : float, default=1.0
        Standard deviation of the noise on the points, before the division by ten.
    random_state : int, RandomState or None, default=None
        Seed, as in scikit-learn.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Points.
    y : ndarray of int, shape (n_samples,)
        1 for the outer part of the roll, which begins at the angle 3 pi, 0 for the inner part.

    References
    ----------
    Levine, Kumar, Goldstein, Feizi: Tight second-order certificates for randomized smoothing, 2021, Figure 2.

    Examples
    --------
    >>> from smoothcert.datasets import make_swiss_roll_classes
    >>> X, y = make_swiss_roll_classes(5, random_state=2)
    >>> X.shape, y
    ((5, 2), array([0, 0, 1, 0, 0]))
    """
    from sklearn.datasets import make_swiss_roll

    points, angle = make_swiss_roll(n_samples=n_samples, noise=noise, random_state=random_state)
    return points[:, [0, 2]] / 10.0, (angle > 3.0 * np.pi).astype(np.int64)
