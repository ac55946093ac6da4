"""Second order against rivals: probabilities, the norms of both gradients, and the norm of their difference.

For given gradients along the line of attack the worst case for the class is a slab, and so is the worst case for
everything but the rival. A limit of the norm of the difference bounds the sum of what the two lose at first; the worst
way to divide it makes the chords of both slabs parallel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from .._numerics import LARGEST_GRADIENT, SAFETY, density, last_safe_point, round_down
from .._validation import BoolArray, FloatArray, IndexArray, broadcast, check_grad_norm, check_probability, check_radius
from ._first_order import first_order_radius
from ._second_order import Slab, second_order_radius, slab_edges, slab_loss, worst_slab

_RTOL = 1e-6
"""How exactly the gradient is divided among the two slabs. Every division gives a valid bound, and near the best one
radii differ by the square of this."""

_LARGEST_SHIFT = 2.0 * LARGEST_GRADIENT
"""No mean of ``z f`` can be moved by more."""

_LARGEST_PLACE = 37.0
"""In units of the normal quantile; masses below about 1e-300 are none."""

_LEAST_PROBABILITY, _LARGEST_BY_VOTES = 1e-12, 6.0
"""Below and beyond these only first order is used."""

_SPEED_ERROR = 1e-14
"""Bound of the rounding error in the speed at which two slabs lose mass, which are computed to about 1e-15."""


def second_order_multiclass_radius(
    p: ArrayLike,
    grad_norm: ArrayLike,
    p_rivals: ArrayLike,
    grad_norm_rivals: ArrayLike,
    grad_norm_leads: ArrayLike = np.inf,
    first_order: ArrayLike = 0.0,
) -> FloatArray:
    """Return the distance within which the class stays ahead of every rival, in units of sigma.

    With gradients it is not enough to look at the runner-up: a weaker rival with a steeper gradient may catch up first.

    Parameters
    ----------
    p, grad_norm : array-like of shape (...)
        Probability and gradient norm of the class: a lower limit of the one, an upper limit of the other.
    p_rivals, grad_norm_rivals : array-like of shape (..., n_rivals)
        Upper limits of both, for every other class.
    grad_norm_leads : array-like of shape (..., n_rivals), default=inf
        Upper limits of the norm of the gradient of the lead over each rival, the difference of the two probabilities.
        It is at most the sum of the two norms, and smaller where the gradients are not opposite.
    first_order : array-like of shape (..., n_rivals), default=0
        Lower limits of the first-order radii against the rivals, where more is known of the two probabilities together
        than their limits say, as by `smoothcert.confidence.rival_limits`.

    Returns
    -------
    ndarray of shape (...)
        Largest distance at which all that is known proves a lead over every rival; never below `second_order_radius`,
        because a class with more than half of the vote has no rival. Rounded down.

    Examples
    --------
    >>> from smoothcert.bounds import second_order_multiclass_radius
    >>> float(second_order_multiclass_radius(0.45, 0.1, [0.3, 0.2], [0.1, 0.25]).round(4))
    0.4196
    >>> float(second_order_multiclass_radius(0.45, 0.1, [0.3, 0.2], [0.1, 0.25], [0.12, 0.2]).round(4))
    0.483
    """
    p, grad_norm = broadcast(p=check_probability("p", p), grad_norm=check_grad_norm("grad_norm", grad_norm))
    p_rivals, grad_norm_rivals, grad_norm_leads, first_order, p_column, grad_column = broadcast(
        p_rivals=np.atleast_1d(check_probability("p_rivals", p_rivals)),
        grad_norm_rivals=np.atleast_1d(check_grad_norm("grad_norm_rivals", grad_norm_rivals)),
        grad_norm_leads=np.atleast_1d(check_grad_norm("grad_norm_leads", grad_norm_leads)),
        first_order=np.atleast_1d(check_radius("first_order", first_order)),
        p=p[..., None],
        grad_norm=grad_norm[..., None],
    )
    if p_rivals.shape[-1] == 0:
        return np.where(np.broadcast_to(p, p_rivals.shape[:-1]) > 0, np.inf, 0.0)[()]
    alone = np.asarray(second_order_radius(p_column[..., 0], grad_column[..., 0]))
    possible: FloatArray = np.minimum(p_rivals, 1.0 - p_column)
    by_votes = np.maximum(first_order, first_order_radius(p_column, possible))
    by_votes[possible == 0.0] = np.inf  # A class without any mass stays without at every distance.
    meeting = by_votes.copy()
    known = Known(grad_column, grad_norm_rivals, grad_norm_leads)

    def compute(which: BoolArray) -> None:
        if np.any(which):
            found = _against_rival(p_column[which], possible[which], known.take(which), by_votes[which])
            meeting[which] = np.maximum(meeting[which], found)

    # First the rival that is nearest by the votes: others are in the way only if their votes do not keep them off.
    todo = (by_votes > 0.0) & (by_votes < _LARGEST_BY_VOTES) & (p_column > _LEAST_PROBABILITY)
    nearest = np.argmin(by_votes, axis=-1)[..., None]
    first = np.arange(by_votes.shape[-1]) == nearest
    compute(todo & first)
    compute(todo & ~first & (by_votes < np.take_along_axis(meeting, nearest, axis=-1)))
    radius: FloatArray = np.maximum(alone, meeting.min(axis=-1))[()]
    return radius


class Known(NamedTuple):
    """Limits of the gradient norms of the class, of the rival, and of the lead."""

    own: FloatArray
    rival: FloatArray
    lead: FloatArray

    def take(self, which: BoolArray | IndexArray) -> Known:
        return Known(*(limits[which] for limits in self))


def _against_rival(p: FloatArray, rival: FloatArray, known: Known, by_votes: FloatArray) -> FloatArray:
    """Return the least radius of all pairs of probabilities, at least `p` and at most `rival`, with a first-order
    radius of at least `by_votes`."""
    corner = first_order_radius(p, rival) >= by_votes
    radius = np.array(by_votes)
    radius[corner] = _meeting(p[corner], rival[corner], known.take(corner)).radius
    arc = np.flatnonzero(~corner)
    if arc.size:
        of_arc = _on_arc(p[arc], rival[arc], known.take(arc), by_votes[arc])
        open_ = np.isnan(of_arc)
        # Rarely the plane at neither end shows that the middle is no worse: then the corner outside of the arc is.
        some = arc[open_]
        of_arc[open_] = _meeting(p[some], np.minimum(rival[some], p[some]), known.take(some)).radius
        radius[arc] = np.maximum(of_arc, by_votes[arc])
    return radius


def _on_arc(p: FloatArray, rival: FloatArray, known: Known, by_votes: FloatArray) -> FloatArray:
    """Return the least radius of the pairs with the first-order radius `by_votes`, within the limits; nan if it is not
    found.

    At a given distance what is proved is at least a linear function of the pair, which touches it at one end. On the
    arc a linear function is nowhere less than at both ends.
    """
    rival = np.minimum(rival, ndtr(-by_votes))
    low = np.maximum(ndtr(ndtri(p) - 2.0 * by_votes) * (1.0 + SAFETY), _LEAST_PROBABILITY)
    high = ndtr(ndtri(rival) + 2.0 * by_votes) * (1.0 - SAFETY)
    one, other = _meeting(p, np.minimum(low, 1.0 - p), known), _meeting(high, np.minimum(rival, 1.0 - high), known)
    rise, rise_of_rival = np.maximum(high - p, 0.0), np.maximum(rival - low, 0.0)
    of_one = np.where(one.weight * rise >= one.rival_weight * rise_of_rival, one.radius, np.nan)
    of_other = np.where(other.weight * rise <= other.rival_weight * rise_of_rival, other.radius, np.nan)
    return np.fmax(of_one, of_other)


class Meeting(NamedTuple):
    """Where a rival may catch up, and the derivatives of what is proved there in both probabilities."""

    radius: FloatArray
    weight: FloatArray
    rival_weight: FloatArray


def _meeting(p: FloatArray, rival: FloatArray, known: Known) -> Meeting:
    """Return the radius against one rival for given probabilities, ``p >= rival``."""
    steepest, steepest_rival = density(ndtri(p)), density(ndtri(rival))
    own, other = np.minimum(known.own, steepest), np.minimum(known.rival, steepest_rival)
    # At twice the symmetric slabs' first-order radii the class is below its rival whatever the gradients.
    far = np.abs(ndtri((1.0 - p) / 2.0)) + np.abs(ndtri(rival / 2.0)) + 1.0
    loss, rival_loss, up, down = own.copy(), other.copy(), np.zeros_like(p), np.zeros_like(p)
    free = np.zeros(p.shape, bool)
    divided = np.flatnonzero(known.lead < own + other)
    if divided.size:
        both, of = known.lead[divided], known.take(divided)
        most = np.minimum(own[divided], both + steepest_rival[divided])
        least = np.minimum(np.maximum(both - other[divided], -steepest[divided]), most)
        part = last_safe_point(_chords_apart, least, most, p[divided], rival[divided], both, far[divided], rtol=_RTOL)
        loss[divided], rival_loss[divided] = part, both - part
        # Where it stops at a limit of one norm, the other can only be too large.
        up[divided] = np.where(part >= of.own, 0.0, _LARGEST_SHIFT)
        down[divided] = np.where(part <= both - of.rival, 0.0, _LARGEST_SHIFT)
        free[divided] = (up[divided] > 0.0) & (down[divided] > 0.0)
    slabs = _slabs(p, rival, loss, rival_loss)
    radius = last_safe_point(_certain_lead, np.zeros_like(p), far, p - rival, up, down, *slabs[0], *slabs[1])
    weight, rival_weight = (_height_of_chord(slab, radius) for slab in slabs)
    if np.any(free):
        # The chord of a slab that is nearly a half-space is not determined by its speed in double precision.
        own_is_nearer = np.abs(loss) * steepest_rival > np.abs(rival_loss) * steepest
        for which, n, of_other in (
            (free & own_is_nearer, 1, (p, 1.0 - p)),
            (free & ~own_is_nearer, 0, (1.0 - rival, rival)),
        ):
            if np.any(which):
                sloped = Slab(*(edge[which] for edge in slabs[n]))
                fixed = (p[which] - rival[which], known.lead[which], *(mass[which] for mass in of_other), *sloped)
                found = last_safe_point(_parallel_lead, np.zeros(len(fixed[0])), far[which], *fixed)
                other_slab = _parallel(sloped, fixed[2], fixed[3], found)
                radius[which] = found
                weight[which] = _height_of_chord(other_slab if n else sloped, found)
                rival_weight[which] = _height_of_chord(sloped if n else other_slab, found)
    # More votes for the class are no help if its chord is below zero in the middle; two norms always are.
    lost = weight < 0.0
    if np.any(lost):
        alone = known.take(lost)._replace(lead=np.full(np.count_nonzero(lost), np.inf))
        for values, by_norms in zip((radius, weight, rival_weight), _meeting(p[lost], rival[lost], alone), strict=True):
            values[lost] = by_norms
    return Meeting(round_down(radius), weight, rival_weight)


def _chords_apart(loss: FloatArray, p: FloatArray, rival: FloatArray, both: FloatArray, far: FloatArray) -> FloatArray:
    """Return the difference of the slopes of the chords of both slabs, at the distance where the rival catches up, if
    the class loses a given part of what both lose at first. The radius is smallest where it vanishes."""
    slabs = _slabs(p, rival, loss, both - loss)
    r = last_safe_point(_lead, np.zeros_like(p), far, p - rival, *slabs[0], *slabs[1], rtol=_RTOL)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(_chord_slope(slabs[0], r) - _chord_slope(slabs[1], r), nan=0.0)


def _slabs(p: FloatArray, rival: FloatArray, loss: FloatArray, rival_loss: FloatArray) -> tuple[Slab, Slab]:
    """Return the worst cases of the class and of all but the rival, that lose mass at given speeds at first."""
    return _slab(p, 1.0 - p, loss), _slab(1.0 - rival, rival, rival_loss)


def _slab(p: FloatArray, outside: FloatArray, loss: FloatArray) -> Slab:
    lower, upper, width, speed = worst_slab(p, outside, np.abs(loss))
    gains = loss < 0.0
    return Slab(
        np.where(gains, -upper, lower), np.where(gains, -lower, upper), width, np.where(gains, -speed, speed)
    )  # fmt: skip


def _lead(r: FloatArray, lead: FloatArray, *slabs: FloatArray) -> FloatArray:
    return lead - slab_loss(Slab(*slabs[:4]), r) - slab_loss(Slab(*slabs[4:]), r)


def _certain_lead(r: FloatArray, lead: FloatArray, up: FloatArray, down: FloatArray, *slabs: FloatArray) -> FloatArray:
    """Return the lead that is left, less what another division of the gradient and rounding may take."""
    with np.errstate(invalid="ignore"):
        apart = _chord_slope(Slab(*slabs[:4]), r) - _chord_slope(Slab(*slabs[4:]), r)
        open_ = np.maximum(np.where(up > 0.0, apart * up, 0.0), np.where(down > 0.0, -apart * down, 0.0))
    left: FloatArray = _lead(r, lead, *slabs) - np.nan_to_num(open_, nan=np.inf) - _SPEED_ERROR * r
    return left


def _parallel_lead(
    r: FloatArray, lead: FloatArray, both: FloatArray, p: FloatArray, outside: FloatArray, *slab: FloatArray
) -> FloatArray:
    """Return the lead that is left if the chord of the other slab, of mass `p`, has the slope of that of the given one.

    Both together may lose less than `both` at first, or more; that counts with the slope of the chords.
    """
    one = Slab(*slab)
    other = _parallel(one, p, outside, r)
    slope = _chord_slope(one, r)
    apart = np.abs(slope - _chord_slope(other, r)) * _LARGEST_SHIFT
    kept = lead - slab_loss(one, r) - slab_loss(other, r)
    left: FloatArray = kept - slope * (both - one.grad_norm - other.grad_norm) - apart - _SPEED_ERROR * r
    return left


def _parallel(slab: Slab, p: FloatArray, outside: FloatArray, r: FloatArray) -> Slab:
    """Return the slab of mass `p` whose chord at distance `r` has the slope of that of the given one."""

    def steeper(place: FloatArray, slope: FloatArray, p: FloatArray, outside: FloatArray, r: FloatArray) -> FloatArray:
        return slope - _chord_slope(_slab_at(place, p, outside), r)

    end = np.full(p.shape, _LARGEST_PLACE)
    place = last_safe_point(steeper, -end, end, _chord_slope(slab, r), p, outside, r)
    return _slab_at(place, p, outside)


def _slab_at(place: FloatArray, p: FloatArray, outside: FloatArray) -> Slab:
    """Return the slab with the part ``Phi(place)`` of the outside mass below it."""
    lower, upper, width = slab_edges(p, outside, ndtr(-np.abs(place)))
    mirrored = place > 0.0
    lower, upper = np.where(mirrored, -upper, lower), np.where(mirrored, -lower, upper)
    return Slab(lower, upper, width, density(upper) - density(lower))


def _chord_slope(slab: Slab, r: FloatArray) -> FloatArray:
    """Return the slope of the chord of ``exp(r z - r^2/2)`` between the edges of a slab."""
    with np.errstate(invalid="ignore", over="ignore"):
        slope = np.exp(r * slab.lower - 0.5 * r * r) * np.expm1(r * slab.width) / slab.width
    return np.where(slab.lower == -np.inf, 0.0, np.where(slab.upper == np.inf, np.inf, slope))


def _height_of_chord(slab: Slab, r: FloatArray) -> FloatArray:
    """Return where that chord is at zero."""
    with np.errstate(invalid="ignore", over="ignore"):
        height = np.exp(r * slab.lower - 0.5 * r * r) - _chord_slope(slab, r) * slab.lower
    return np.where(slab.lower == -np.inf, np.exp(r * slab.upper - 0.5 * r * r), height)
