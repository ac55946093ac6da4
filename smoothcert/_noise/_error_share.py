r"""The part of alpha that exact noise takes.

What is drawn is not quite what is assumed: the cells of the noise have a law that is :math:`\tau` away from the exact
one in total variation for each number, and a normal number is known by the middle of its cell only. Suppose that a run
draws N vectors of d numbers. With probability at least :math:`1 - Nd\tau` the cells are those of true normal vectors.

Projections on a direction are put into bins. Each normal number is within :math:`2^{-49}` of the middle of its cell.
Given the cells these distances are independent, with means below :math:`2^{-90}`; so, by Hoeffding's inequality, they
move a projection by at most :math:`11\cdot2^{-49}`, but with probability :math:`2e^{-60}`, and never by more than
:math:`\sqrt d\,2^{-49}`. The middle is computed with an error of at most :math:`2^{-51}|Z|`, the sum of products, where
it is near an edge, with one of :math:`3\cdot2^{-53}|Z|`, and its quotient by the length of the direction with one below
:math:`2^{-49}`. As :math:`|Z| \le \sqrt d + 10` but with probability :math:`e^{-50}`, all this moves a projection by
less than

.. math:: \varepsilon = 2^{-48}\Bigl(\tfrac14\sqrt d + \tfrac12\min(\sqrt d, 11) + 4\Bigr) .

So no projection falls into another bin than that of the true normal vector, unless the latter's is that close to an
edge, which has a probability of at most :math:`2\varphi(0)\varepsilon` for each edge.

Together they must be below one percent of alpha, which certificates do without.
"""

from __future__ import annotations

import math

from ._grid import Grid

SHARE = 0.01
"""Part of `alpha` that is kept for the noise."""


def lower_level(alpha: float) -> float:
    """Return what is left of `alpha` for certificates, rounded down."""
    return alpha * (1.0 - SHARE) * (1.0 - 2.0**-50)


def check_error_share(grid: Grid, alpha: float, n_samples: int, n_features: int, n_edges: int) -> None:
    """Raise an error if a run has too many samples for the error of the noise to stay below its part of alpha.

    Parameters
    ----------
    grid : Grid
    alpha : float
    n_samples : int
        Draws of noise for one input at most.
    n_features : int
        Number of features with noise.
    n_edges : int
        Edges of bins into which projections are put.
    """
    each = max(law.distance for law, _ in grid.laws)
    root = math.sqrt(n_features)
    misplaced = n_edges * 0.8 * 2.0**-48 * (root / 4.0 + min(root, 11.0) / 2.0 + 4.0)
    of_one = n_features * each + misplaced + 2e-22
    if n_samples * of_one * 1.001 > SHARE * alpha:
        raise ValueError(
            f"n_samples must be at most {int(SHARE * alpha / (1.001 * of_one)):,} with noise='exact', alpha={alpha:g} "
            f"and {n_features} features, got {n_samples:,}: the error of the noise must stay below one percent of "
            "alpha. Use fewer samples, a larger alpha or noise='gaussian'."
        )
