"""The directional certificate: the class is measured along one direction, and only bounded across it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ..._numerics import LARGEST_GRADIENT, SAFETY
from ..._validation import FloatArray, as_float_array, broadcast, check_grad_norm, check_interval, check_probability
from ._dual import USUAL_SLOPE, best_multipliers, dual_value
from ._integral import bin_masses, chord_ends
from ._radius import cells_radius, n_functions, plan_cells

_LEAST_ACROSS = 1e-3
"""Displacements across are raised to this, because formulas divide by them. That is safe, since the best bound falls
with them, and makes the bound a little smaller."""

_LEAST_VERTICES = 24
"""Fewer would be valid, but lose more: with 24 vertices the edges around a radius of 1 may lose a probability of 0.001
in front and 0.004 behind."""


def directional_lower_bound(
    shares: ArrayLike, edges: ArrayLike, grad_norm: ArrayLike, along: ArrayLike, across: ArrayLike
) -> FloatArray:
    """Return the smallest probability the class can have at a displacement, knowing its shares along one direction.

    Parameters
    ----------
    shares : array-like of shape (..., n_bins)
        Share of hits among noise whose component along the direction falls into each bin.
    edges : array-like of shape (n_bins - 1,)
        Inner edges of the bins, rising, in units of sigma; the outer bins are unbounded.
    grad_norm : array-like of shape (...)
        Upper limit of the norm of the gradient orthogonal to the direction, times sigma; inf if unknown.
    along : array-like of shape (...)
        Displacement along the direction, of either sign.
    across : array-like of shape (...)
        Length of the displacement orthogonal to it, at least 0.

    Returns
    -------
    ndarray of shape (...)
        The bound for multipliers found by optimisation, rounded down. It holds whatever they are.

    Notes
    -----
    For noise `Z` with ``z1 = direction . Z`` and any orthogonal direction with component `z2`, every function `nu` and
    every ``k >= 0``, the probability is at least
    ``E[nu(z1) f] - k G + E min(0, exp(x1 z1 + x2 z2 - (x1^2 + x2^2) / 2) - nu(z1) - k z2)``.

    Examples
    --------
    A half-space seen along its normal is known completely:

    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from smoothcert.bounds import directional_lower_bound
    >>> edges = np.linspace(-4, 4, 81)
    >>> shares = (edges <= 0.8 + 1e-9).astype(float)  # hits left of 0.8
    >>> shares = np.append(shares, 0.0)
    >>> bound = directional_lower_bound(shares, edges, 0.0, along=0.5, across=0.5)
    >>> bool(norm.cdf(0.3) - 1e-3 < bound <= norm.cdf(0.3))
    True
    """
    shares, edges = _checked(shares, edges)
    grad_norm = check_grad_norm("grad_norm", grad_norm)
    along = check_interval("along", along, lower=-30.0, upper=30.0, cure="Give a displacement in units of sigma.")
    across = check_interval("across", across, lower=0.0, upper=30.0, cure="Give a length in units of sigma.")
    shape = broadcast(shares=shares[..., 0], grad_norm=grad_norm, along=along, across=across)[0].shape
    misses = np.broadcast_to(1.0 - shares, (*shape, shares.shape[-1]))
    grad_norm, along = np.broadcast_to(_finite(grad_norm), shape), np.broadcast_to(along, shape)
    # The best bound falls with `across`, so a slightly larger one is safe and keeps slopes away from zero.
    away = np.maximum(np.broadcast_to(across, shape), _LEAST_ACROSS)
    ends = chord_ends(edges, along)
    multipliers = best_multipliers(ends, misses, grad_norm, away)
    value = dual_value(ends, misses, grad_norm, away, multipliers)
    rounding = SAFETY * (1.0 + np.sum(ends.mass * np.abs(multipliers.nu), axis=-1))
    bound: FloatArray = np.clip(value - rounding, 0.0, 1.0)
    return bound[()]


def directional_radius(shares: ArrayLike, edges: ArrayLike, grad_norm: ArrayLike, n_vertices: int = 96) -> FloatArray:
    """Return the radius within which the class keeps more than half of the votes, knowing its shares along one
    direction.

    Parameters
    ----------
    shares : array-like of shape (..., n_bins)
        Share of hits in each bin.
    edges : array-like of shape (n_bins - 1,)
        Inner edges of the bins.
    grad_norm : array-like of shape (...)
        Upper limit of the norm of the gradient orthogonal to the direction, times sigma.
    n_vertices : int, default=96
        Points tested on the half circle, were they all as close as in front; more of them lose less in between.

    Returns
    -------
    ndarray of shape (...)
        Radius in units of sigma, rounded down; 0 where nothing is certified.

    Examples
    --------
    >>> import numpy as np
    >>> from smoothcert.bounds import directional_radius
    >>> edges = np.linspace(-5, 5, 101)
    >>> shares = np.append(edges <= 0.8 + 1e-9, False).astype(float)  # a half-space, hits left of 0.8
    >>> bool(0.798 < directional_radius(shares, edges, 0.0) <= 0.8)
    True
    """
    shares, edges = _checked(shares, edges)
    grad_norm = _finite(check_grad_norm("grad_norm", grad_norm))
    _check_vertices(n_vertices)
    shape = broadcast(shares=shares[..., 0], grad_norm=grad_norm)[0].shape
    misses = np.broadcast_to(1.0 - shares, (*shape, shares.shape[-1])).reshape(-1, shares.shape[-1])
    flat = np.broadcast_to(grad_norm, shape).ravel()
    found = np.zeros(len(misses))
    p = 1.0 - misses @ bin_masses(edges)
    ready = p > 0.5
    if np.any(ready):
        found[ready] = _radius(misses[ready], edges, flat[ready], p[ready], int(n_vertices))
    return (found * (1.0 - SAFETY)).reshape(shape)[()]


def directional_rival_radius(
    shares: ArrayLike, rival_shares: ArrayLike, edges: ArrayLike, grad_norm: ArrayLike, n_vertices: int = 96
) -> FloatArray:
    """Return the radius within which the class stays ahead of a rival, knowing the shares of both along one direction.

    Parameters
    ----------
    shares, rival_shares : array-like of shape (..., n_bins)
        Share of votes for the class and for the rival in each bin, together at most 1.
    edges : array-like of shape (n_bins - 1,)
        Inner edges of the bins.
    grad_norm : array-like of shape (...)
        Upper limit of the norm of the gradient of the difference of both probabilities, orthogonal to the direction,
        times sigma.
    n_vertices : int, default=96
        Points tested on the half circle, were they all as close as in front; more of them lose less in between.

    Returns
    -------
    ndarray of shape (...)
        Radius in units of sigma, rounded down; 0 where nothing is certified.

    Examples
    --------
    A class left of 0.3 and a rival right of 1.1, between which a third one has the votes, meet half-way:

    >>> import numpy as np
    >>> from smoothcert.bounds import directional_rival_radius
    >>> edges = np.linspace(-5, 5, 101)
    >>> shares = np.append(edges <= 0.3 + 1e-9, False).astype(float)
    >>> rival_shares = np.append(False, edges >= 1.1 - 1e-9).astype(float)
    >>> bool(0.695 < directional_rival_radius(shares, rival_shares, edges, 0.0) <= 0.7)
    True
    """
    shares, edges = _checked(shares, edges)
    rival_shares, _ = _checked(rival_shares, edges)
    shares, rival_shares = broadcast(shares=shares, rival_shares=rival_shares)
    if np.any(shares + rival_shares > 1.0 + SAFETY):
        raise ValueError(
            "shares and rival_shares must sum to at most 1 in every bin, "
            f"got {float(np.max(shares + rival_shares))!r}. Each vote is for one class."
        )
    # The gradient of a difference of two such functions is at most twice as long.
    grad_norm = np.minimum(check_grad_norm("grad_norm", grad_norm), 2.0 * LARGEST_GRADIENT)
    _check_vertices(n_vertices)
    n_bins = shares.shape[-1]
    shape = broadcast(shares=shares[..., 0], grad_norm=grad_norm)[0].shape
    own, other = (np.broadcast_to(part, (*shape, n_bins)).reshape(-1, n_bins) for part in (shares, rival_shares))
    flat = np.broadcast_to(grad_norm, shape).ravel()
    mass = bin_masses(edges)
    p, q = own @ mass, other @ mass
    ready = p > q
    found = np.zeros(len(p))
    if np.any(ready):
        guess = (ndtri(np.minimum(p, 1.0 - 1e-12)) - ndtri(np.maximum(q, 1e-12)))[ready] / 2.0
        misses = np.concatenate([1.0 - own, other], axis=1)
        found[ready] = _radius_from(misses[ready], edges, flat[ready], guess, int(n_vertices), 1.0)
    return (found * (1.0 - SAFETY)).reshape(shape)[()]


def _check_vertices(n_vertices: int) -> None:
    if not isinstance(n_vertices, int | np.integer) or isinstance(n_vertices, bool) or n_vertices < _LEAST_VERTICES:
        raise ValueError(f"n_vertices must be an integer of at least {_LEAST_VERTICES}, got {n_vertices!r}.")


def _radius(misses: FloatArray, edges: FloatArray, grad_norm: FloatArray, p: FloatArray, n_vertices: int) -> FloatArray:
    return _radius_from(misses, edges, grad_norm, ndtri(np.minimum(p, 1.0 - 1e-12)), n_vertices, 0.5)


def _radius_from(
    misses: FloatArray,
    edges: FloatArray,
    grad_norm: FloatArray,
    guess: FloatArray,
    n_vertices: int,
    threshold: float,
) -> FloatArray:
    """Alternate between multipliers for the distance found last and a new distance; each is valid, the largest is
    kept."""
    mass = np.tile(bin_masses(edges), n_functions(edges, misses))
    best = np.zeros(len(misses))
    guess = np.clip(guess, 1e-3, 6.0)
    slopes: FloatArray | float = USUAL_SLOPE
    for _ in range(4):
        cells = plan_cells(edges, misses, grad_norm[:, None], guess, start=slopes)
        value = np.sum(mass * cells.nu * (1.0 - misses[:, None]), axis=-1)
        limits = np.broadcast_to(grad_norm[:, None], value.shape)
        radius = cells_radius(edges, cells, value, limits, n_vertices, threshold)
        best = np.maximum(best, radius)
        if np.all(np.abs(radius - guess) <= 0.003 * guess):
            break
        guess, slopes = np.where(radius > 0.0, radius, guess / 2.0), cells.relative_slopes
    return best


def _finite(grad_norm: FloatArray) -> FloatArray:
    """Replace unknown gradients by phi(0): no function with values in [0, 1] has a larger one."""
    return np.minimum(grad_norm, LARGEST_GRADIENT)


def _checked(shares: ArrayLike, edges: ArrayLike) -> tuple[FloatArray, FloatArray]:
    edges = as_float_array("edges", edges)
    if edges.ndim != 1 or edges.size < 1 or not np.all(np.isfinite(edges)) or np.any(np.diff(edges) <= 0.0):
        raise ValueError(
            f"edges must be a rising sequence of finite numbers, got {edges!r}. Try np.linspace(-4, 4, 65)."
        )
    if edges[0] < -15.0 or edges[-1] > 15.0:
        raise ValueError(
            f"edges must lie within 15 units of sigma, where noise has mass, got {edges[0]} to {edges[-1]}. "
            "Divide by sigma; the outer bins are unbounded anyway."
        )
    shares = check_probability("shares", shares)
    if shares.ndim < 1 or shares.shape[-1] != edges.size + 1:
        raise ValueError(
            "shares must have one more entry than edges along the last axis, "
            f"got shapes {shares.shape} and {edges.shape}. "
            "The first bin is left of the first edge, the last one right of the last edge."
        )
    return shares, edges
