"""Sums of noise, exact in any order."""

from __future__ import annotations

import math
import threading
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from .._validation import FloatArray
from ._base import IntArray
from ._sum_errors import NOISE_ERROR, SUM_STEPS, gamma, length_error, round_square_down, square_of_length_up


def norm_sq_of(grad_sum: FloatArray, grad_sq: FloatArray, grad_error: FloatArray, n: IntArray) -> FloatArray:
    """Return the estimate of the squared norm from sums and a bound of their error; not below that of the true sums."""
    count = n.astype(np.float64)
    pairs = np.maximum(count * (count - 1.0), 1.0)
    square = np.sum(np.square(grad_sum), axis=-1)
    n_terms = grad_sum.shape[-1] + 8.0
    estimate = square_of_length_up(square, square + grad_sq, grad_error, n_terms) - grad_sq
    return np.where(count >= 2, estimate / pairs, np.inf)


class VectorSums(NamedTuple):
    """Sum of vectors, of their squared lengths, and a bound of the length of the first one's error."""

    total: FloatArray
    square: FloatArray
    error: FloatArray


def gradient_sums(noise: Any, weight: FloatArray) -> VectorSums:
    """Return the sum of ``weight * noise`` and of its squared length over samples; the latter rounded down.

    In float64: the order of a sum depends on how many threads share it, and in float32 that would show. Tensors stay on
    their device; what comes back is one vector and one number.
    """
    if isinstance(noise, np.ndarray):
        wide = noise.astype(np.float64, copy=False)
        total, square = weight @ wide, _weighted_square(weight, wide)
    else:
        wide = noise.double()
        on_device = wide.new_tensor(weight)
        total = (on_device @ wide).cpu().numpy()
        found = _weighted_square(weight, wide)
        square = found.cpu().numpy()
    n_samples, n_features = noise.shape
    n_numbers = n_samples * n_features
    square = round_square_down(square, gamma(n_numbers + 40) * square + n_numbers * NOISE_ERROR)
    return VectorSums(round_sum(total), square, length_error(n_samples, n_features, square, n_samples + 4))


def _weighted_square(weight: FloatArray, noise: Any) -> Any:
    """Return the sum of squared weights times squared lengths, for numpy arrays and tensors; shape of the leading axes
    of `weight`."""
    size = np.abs(weight).max(initial=0.0)
    if np.all(np.abs(weight) == size):  # then one dot product does
        flat = noise.reshape(-1)
        return size**2 * (flat @ flat)
    lengths = (noise * noise).sum(1)
    squares = np.square(weight) if isinstance(noise, np.ndarray) else noise.new_tensor(np.square(weight))
    return squares @ lengths


def squares_by_class(noise: Any, votes: IntArray, n_classes: int) -> FloatArray:
    """Return the sum of squared lengths of the noise that each class got the vote on, rounded down."""
    on_host = isinstance(noise, np.ndarray)
    wide = noise.astype(np.float64, copy=False) if on_host else noise.double()
    lengths = np.einsum("ij,ij->i", wide, wide) if on_host else wide.square().sum(1).cpu().numpy()
    known = (votes >= 0) & (votes < n_classes)
    place = np.where(known, votes, n_classes).astype(np.intp)
    square = np.asarray(np.bincount(place, weights=lengths, minlength=n_classes + 1)[:n_classes], dtype=np.float64)
    n_samples, n_features = noise.shape
    return round_square_down(square, gamma(n_samples + n_features + 40) * square + n_samples * n_features * NOISE_ERROR)


class DirectionalSums(NamedTuple):
    """Counts in bins along a direction, and sums across it in strata of bins."""

    hits: IntArray
    trials: IntArray
    total: FloatArray
    square: FloatArray
    error: FloatArray


def directional_sums(
    noise: Any, hit: NDArray[np.bool_], direction: FloatArray, edges: tuple[float, ...], strata: IntArray
) -> DirectionalSums:
    """Return the hits and trials in bins along a direction; for each stratum of bins the sum of ``(hit - 1/2) noise``
    across the direction, and of its squared length.

    Tensors stay on their device; what comes back is two numbers for each sample and one vector for each stratum.
    """
    on_host = isinstance(noise, np.ndarray)
    wide = noise.astype(np.float64, copy=False) if on_host else noise.double()
    lengths = (wide[:, None] @ wide[:, :, None])[:, 0, 0] if on_host else wide.square().sum(1).cpu().numpy()
    along = wide @ direction if on_host else (wide @ wide.new_tensor(direction)).cpu().numpy()
    place = place_in_bins(along, edges, wide, direction, lengths)
    counts = np.bincount(2 * place + hit, minlength=2 * len(strata)).reshape(-1, 2)
    stratum, n_strata = strata[place], int(strata[-1]) + 1
    weights = np.zeros((len(hit), n_strata))
    weights.reshape(-1)[stratum + np.arange(0, weights.size, n_strata)] = hit - 0.5
    total = weights.T @ wide if on_host else (wide.new_tensor(weights).T @ wide).cpu().numpy()
    across = total - (total @ direction)[:, None] * direction
    square = 0.25 * np.bincount(stratum, weights=lengths - np.square(along), minlength=n_strata)
    # Without the part along. With a direction of length one up to gamma(d) and some roundings, squares are off by four
    # times gamma(d) of these, and the vectors across by twice gamma(d) of their lengths, beside the summation.
    whole = 0.25 * np.bincount(stratum, weights=lengths, minlength=n_strata)
    n_samples, n_features = noise.shape
    lost = gamma(n_samples + 4 * n_features + 80) * whole + n_samples * n_features * NOISE_ERROR
    rounded = round_square_down(square, lost)
    in_stratum = np.bincount(stratum, minlength=n_strata)
    error = length_error(in_stratum, n_features, np.ceil(whole), n_samples + 2 * n_features + 20)
    return DirectionalSums(counts[:, 1], counts.sum(axis=1), round_sum(across), rounded, error)


def class_sums(
    noise: Any, group: IntArray, n_groups: int, direction: FloatArray, edges: tuple[float, ...], strata: IntArray
) -> DirectionalSums:
    """Return votes for groups of classes and trials in bins along a direction; for each group and stratum of bins the
    sum of the noise across the direction that the group got the vote on, and of its squared length."""
    on_host = isinstance(noise, np.ndarray)
    wide = noise.astype(np.float64, copy=False) if on_host else noise.double()
    lengths = (wide[:, None] @ wide[:, :, None])[:, 0, 0] if on_host else wide.square().sum(1).cpu().numpy()
    along = wide @ direction if on_host else (wide @ wide.new_tensor(direction)).cpu().numpy()
    place, n_bins = place_in_bins(along, edges, wide, direction, lengths), len(strata)
    n_strata = int(strata[-1]) + 1
    trials = np.bincount(place, minlength=n_bins)
    hits = np.bincount(group * n_bins + place, minlength=n_groups * n_bins).reshape(n_groups, n_bins)
    slot, n_slots = group * n_strata + strata[place], n_groups * n_strata
    total = _sums_in_slots(wide, slot, n_slots)
    across = total - (total @ direction)[:, None] * direction
    length_across = lengths - np.square(along)
    square = np.asarray(np.bincount(slot, weights=length_across, minlength=n_slots), dtype=np.float64)
    # As for one class: what the part along takes off is known up to some roundings of the whole length.
    whole = np.bincount(slot, weights=lengths, minlength=n_slots)
    n_samples, n_features = noise.shape
    lost = gamma(n_samples + 4 * n_features + 80) * whole + n_samples * n_features * NOISE_ERROR
    rounded = round_square_down(square, lost)
    in_slot = np.bincount(slot, minlength=n_slots)
    error = length_error(in_slot, n_features, np.ceil(whole), n_samples + 2 * n_features + 20)
    shape = (n_groups, n_strata)
    return DirectionalSums(
        hits, trials, round_sum(across).reshape(*shape, -1), rounded.reshape(shape), error.reshape(shape)
    )


class _Selectors(threading.local):
    """Sparse matrices of zeros and ones, one for each shape, whose ones are moved from call to call: to make one takes
    longer than to multiply with it."""

    def __init__(self) -> None:
        self.of_shape: dict[tuple[int, int], Any] = {}

    def select(self, slot: IntArray, n_slots: int) -> Any:
        """Return the matrix that sums samples into their slots."""
        shape = n_slots, len(slot)
        if shape not in self.of_shape:
            if len(self.of_shape) >= _MOST_SELECTORS:
                self.of_shape.clear()
            ends = np.arange(len(slot) + 1, dtype=np.int32)
            self.of_shape[shape] = csc_array((np.ones(len(slot)), slot.astype(np.int32), ends), shape=shape)
        ones = self.of_shape[shape]
        ones.indices[:] = slot
        return ones


_MOST_SELECTORS = 16
"""There are few shapes in a run: blocks are equally long, but for the last one of each stage."""

_selectors = _Selectors()


def _sums_in_slots(noise: Any, slot: IntArray, n_slots: int) -> FloatArray:
    """Return the sum of the samples in each slot; a sparse product takes one addition a number, whatever the number of
    slots."""
    ones = _selectors.select(slot, n_slots)
    if isinstance(noise, np.ndarray):
        sums: FloatArray = ones @ noise
        return sums
    on_device: FloatArray = (noise.new_tensor(ones.toarray()) @ noise).cpu().numpy()
    return on_device


_TICKS = 2**11
"""Ticks of the table that places values in bins, 16 KB of it. About speed only: where two edges may be near one tick,
the bins are found without it."""


@lru_cache(maxsize=64)
def _ruler(edges: tuple[float, ...]) -> tuple[FloatArray, float, float, IntArray | None]:
    """Return the edges and an infinite last one; a start and a scale that count ticks; and how many edges are below
    each tick for certain, None unless all but one of the edges near a tick are."""
    inner = np.asarray(edges)
    step = (inner[-1] - inner[0]) / (_TICKS - 2) if len(inner) > 1 else 0.0
    with_end = np.append(inner, np.inf)
    if len(inner) < 2 or np.min(np.diff(inner)) < 2.5 * step:
        return with_end, 0.0, 0.0, None
    ticks = inner[0] + step * (np.arange(_TICKS) - 1.0)
    return with_end, float(inner[0] - step), float(1.0 / step), np.searchsorted(inner, ticks - step / 2.0, side="right")


def bins_of(values: FloatArray, edges: tuple[float, ...]) -> IntArray:
    """Return the number of edges at or below each value, as by ``np.searchsorted(edges, values, side="right")``, twice
    as fast."""
    with_end, start, scale, certain = _ruler(edges)
    if certain is None:
        return np.searchsorted(with_end[:-1], values, side="right")
    tick = values - start
    tick *= scale
    np.maximum(tick, 0.0, out=tick)
    np.minimum(tick, _TICKS - 1.0, out=tick)
    place = certain[tick.astype(np.intp)]
    place += values >= with_end[place]
    return place


def place_in_bins(
    along: FloatArray, edges: tuple[float, ...], noise: Any, direction: FloatArray, lengths: FloatArray
) -> IntArray:
    """Return the bin of each sample, as if its component along the direction had been computed with hardly any error.

    Parameters
    ----------
    along : ndarray of shape (n,)
        Computed components, each with an error of at most ``gamma(d)`` times the length of the noise; also changed in
        place where they are near an edge.
    edges : tuple of float
    noise : array or tensor of float64, shape (n, d)
    direction : ndarray of shape (d,)
        Of length one up to ``gamma(d)`` and some roundings.
    lengths : ndarray of shape (n,)
        Squared lengths of the noise.
    """
    place = bins_of(along, edges)
    padded = np.concatenate([[-np.inf], edges, [np.inf]])
    gap = np.minimum(along - padded[place], padded[place + 1] - along)
    doubt = 3.0 * gamma(len(direction) + 16.0)
    # Components are not longer than the noise: first a test of all samples together.
    if np.min(gap, initial=np.inf) > 3.0 * doubt * math.sqrt(np.max(lengths, initial=0.0)):
        return place
    for sample in np.flatnonzero(gap <= doubt * (np.sqrt(lengths) + np.abs(along))):
        row = np.asarray(noise[sample] if isinstance(noise, np.ndarray) else noise[sample].cpu())
        # Sums without rounding, of products with one rounding each.
        length = math.sqrt(math.fsum(direction * direction))
        along[sample] = math.fsum(row * direction) / length if length else 0.0
        place[sample] = np.searchsorted(edges, along[sample], side="right")
    return place


def round_sum(total: FloatArray) -> FloatArray:
    """Round to steps that add without rounding."""
    rounded: FloatArray = np.rint(total * SUM_STEPS) / SUM_STEPS
    return rounded
