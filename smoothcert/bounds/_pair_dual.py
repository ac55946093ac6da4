"""The linear programme behind the second-order dipole certificate, solved through its dual.

Minimise the probability at distance `r` over all classifiers with given pair probabilities `CS`, `CN` and gradient
norm at most `G`. Every value of the three dual multipliers gives a valid lower bound, so the optimiser below can cost
tightness but never soundness:

    mu CS + nu CN - k G + integral over z > 0 of phi(z) min{0, l(z)+l(-z)-2 mu, l(z)-nu-k z, l(-z)-nu+k z}

with ``l(z) = exp(r z - r^2/2)``. The entries of the minimum say what the worst classifier does with the pair of
points at ``+z`` and ``-z``: leave it out, take both, take the far one (towards the attack), take the near one.

Numerically we use ``mu = 1 + r^2 m``, ``nu = 1 + r^2 n``, ``k = r - r^2 kappa`` and ``l(z) = 1 + r z + r^2 E(z)``.
The bound becomes ``p - r G + r^2 B(m, n, kappa)`` with `B` concave and of order one for small and large `r` alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from .._numerics import (
    NODES,
    SAFETY,
    density,
    exp_tangent_roots,
    expm1_minus,
    integrate,
    interval_mass,
    is_short,
    log1p_minus,
)
from .._validation import FloatArray, IndexArray
from ._second_order import worst_slab

NEITHER, BOTH, FAR, NEAR = range(4)
"""What the worst classifier does with a pair of points. Numbers of the entries of the minimum; those that take one
point come last, so that ``choice >= FAR`` finds them."""

HORIZON = 38.0
"""Beyond this many standard deviations there is no mass in double precision: the tail, 3e-316, is below the smallest
normal number."""

_MAX_STEPS = 400
"""Ends the search for multipliers, which is usually over when steps gain no more than rounding. All multipliers give a
valid bound, so stopping here costs tightness at most."""


class PairProblem(NamedTuple):
    """One linear programme a row; arrays of one length."""

    both: FloatArray
    one_sided: FloatArray
    grad_norm: FloatArray
    r: FloatArray

    def rows(self, index: IndexArray) -> PairProblem:
        return PairProblem(*(a[index] for a in self))


class PairDual(NamedTuple):
    """The dual at given multipliers: value `B`, derivatives, and the classifier that attains the minimum."""

    value: FloatArray
    gradient: FloatArray  # (rows, 3)
    hessian: FloatArray  # (rows, 3, 3)
    slope: FloatArray  # derivative of the whole bound in r, multipliers held
    edges: FloatArray  # (rows, pieces + 1), from 0 to the horizon
    choice: IndexArray  # (rows, pieces)


def pair_bound(problem: PairProblem, dual: PairDual, p: FloatArray) -> FloatArray:
    """Return the lower bound that a dual value stands for; `p` may be shifted, for example by 1/2, to keep digits."""
    return p - problem.r * problem.grad_norm + np.square(problem.r) * dual.value


def maximise_dual(
    problem: PairProblem, multipliers: FloatArray | None = None, max_steps: int = _MAX_STEPS
) -> tuple[FloatArray, PairDual]:
    """Return the best multipliers found, and the dual there, by damped Newton steps.

    A step must gain. Once gains drown in rounding, it must at least shrink the residuals of the constraints, so that
    the worst classifier, too, comes out right.
    """
    theta = _starting_multipliers(problem) if multipliers is None else _keep_tilt_positive(multipliers, problem.r)
    dual = evaluate_dual(problem, theta)
    damping = np.full(len(theta), 1e-9)
    active: IndexArray = np.arange(len(theta))
    for _ in range(max_steps):
        step, gain, scale = _newton_step(dual.gradient[active], dual.hessian[active], damping[active])
        rounding = 1e-14 * (1.0 + np.abs(dual.value[active]))
        going = gain > 1e-10 * rounding
        active, step, gain = active[going], step[going], gain[going]
        scale, rounding = scale[going], rounding[going]
        if active.size == 0:
            break
        part = problem.rows(active)
        trial = _keep_tilt_positive(theta[active] + step, part.r, theta[active])
        trial_dual = evaluate_dual(part, trial)
        rise = trial_dual.value - dual.value[active]
        residual = np.sum(np.square(dual.gradient[active] * scale), axis=1)
        trial_residual = np.sum(np.square(trial_dual.gradient * scale), axis=1)
        better = np.where(np.abs(rise) > rounding, rise > 0.0, trial_residual < 0.5 * residual)
        damping[active] = np.where(
            better, np.maximum(damping[active] / 50.0, 1e-14), np.maximum(damping[active] * 10.0, 0.1)
        )
        winners = active[better]
        theta[winners] = trial[better]
        for old, new in zip(dual, trial_dual, strict=True):
            old[winners] = new[better]
        active = active[better | (gain > rounding) & (damping[active] < 1e12)]
    return theta, dual


def pair_radius(
    both: FloatArray, one_sided: FloatArray, grad_norm: FloatArray, excess: FloatArray, start: FloatArray
) -> FloatArray:
    """Return the radius where the best dual bound meets 1/2, at least `start`, a radius known to be certified.

    `excess` is the probability of the class minus 1/2. Newton in `r`, with the multipliers following.
    """
    r = start.copy()
    problem = PairProblem(both, one_sided, grad_norm, r)
    theta, dual = maximise_dual(problem)
    active = np.arange(len(r))
    for _ in range(15):
        margin = pair_bound(problem, dual, excess)[active]
        move = -margin / dual.slope[active]
        move = np.clip(np.nan_to_num(move), start[active] - r[active], 0.5 * r[active] + 0.1)
        going = np.abs(move) > 1e-13 * r[active]
        active, move = active[going], move[going]
        if active.size == 0:
            break
        r[active] += move
        theta[active], part_dual = maximise_dual(problem.rows(active), theta[active], max_steps=30)
        for old, new in zip(dual, part_dual, strict=True):
            old[active] = new
    # Whatever was found above is only a proposal: the radius must hold at its own multipliers.
    radius = start.copy()
    for shave in (2.0 * SAFETY, 2e-10, 1e-7, 1e-4):
        todo = np.nonzero((radius <= start) & (r * (1.0 - shave) > start))[0]
        if todo.size == 0:
            break
        proposal = PairProblem(both[todo], one_sided[todo], grad_norm[todo], r[todo] * (1.0 - shave))
        _, dual = maximise_dual(proposal, theta[todo], max_steps=8)
        held = pair_bound(proposal, dual, excess[todo]) > 0.0
        radius[todo[held]] = proposal.r[held]
    return radius


# A wild trial step may overflow; its value is then not larger than the old one and the step is not taken.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def evaluate_dual(problem: PairProblem, theta: FloatArray) -> PairDual:
    """Return the closed form of the dual between the break points of the minimum."""
    both, one_sided, grad_norm, r = problem
    m, n, kappa = theta.T
    edges = _break_points(r, m, n, kappa)
    col_r, col_m, col_n, col_kappa = (a[:, None] for a in (r, m, n, kappa))

    middle = 0.5 * (edges[:, 1:] + edges[:, :-1])
    far_value, near_value = _curvature_ratio(middle, col_r), _curvature_ratio(-middle, col_r)
    options = np.stack(
        [
            np.zeros_like(middle),
            far_value + near_value - 2.0 * col_m,
            far_value - col_n + col_kappa * middle,
            near_value - col_n - col_kappa * middle,
        ]
    )
    choice = np.argmin(options, axis=0)
    takes_far = (choice == FAR) | (choice == BOTH)
    takes_near = (choice == NEAR) | (choice == BOTH)

    tail = ndtr(-edges)
    mass = tail[:, :-1] - tail[:, 1:]
    phi = density(edges)
    moment = phi[:, :-1] - phi[:, 1:]
    # Residuals of the three constraints. The one for `both` is taken from the tails, which keep their relative
    # precision.
    rest_both = 2.0 * np.sum(mass * (choice != BOTH), axis=1) - (1.0 - both)
    rest_one = one_sided - np.sum(mass * (choice >= FAR), axis=1)
    rest_grad = grad_norm + np.sum(moment * (choice == FAR), axis=1) - np.sum(moment * (choice == NEAR), axis=1)

    far_integral = _tail_integral(edges, col_r)
    near_integral = _tail_integral(-edges, col_r)
    taken = np.sum((far_integral[:, :-1] - far_integral[:, 1:]) * takes_far, axis=1)
    taken += np.sum((near_integral[:, 1:] - near_integral[:, :-1]) * takes_near, axis=1)
    value = taken + m * rest_both + n * rest_one + kappa * rest_grad

    ahead, behind = density(edges - col_r), density(edges + col_r)
    slope = np.sum((ahead[:, :-1] - ahead[:, 1:]) * takes_far, axis=1)
    slope += np.sum((behind[:, 1:] - behind[:, :-1]) * takes_near, axis=1)

    gradient = np.stack([rest_both, rest_one, rest_grad], axis=1)
    hessian = _hessian(edges[:, 1:-1], choice, phi[:, 1:-1], col_r, col_kappa)
    return PairDual(value, gradient, hessian, slope, edges, choice)


def _starting_multipliers(problem: PairProblem) -> FloatArray:
    """Return the better of two solutions of simpler problems.

    Either the pairs are forgotten: one slab for the whole class, ``mu = nu``. Or the two parts are taken to lie
    apart: a symmetric slab for the pairs with two hits, and a slab of its own, which carries the gradient, for those
    with one.
    """
    p = problem.both + problem.one_sided
    n, kappa = _line_through_slab(p, problem)
    together = np.stack([n, n, kappa], axis=1)
    n, kappa = _line_through_slab(problem.one_sided, problem)
    half_width = -ndtri((1.0 - problem.both) / 2.0)
    m = 0.5 * (_curvature_ratio(half_width, problem.r) + _curvature_ratio(-half_width, problem.r))
    apart = np.stack([m, n, kappa], axis=1)
    together, apart = (_keep_tilt_positive(theta, problem.r) for theta in (together, apart))
    prefer = evaluate_dual(problem, apart).value > evaluate_dual(problem, together).value
    return np.where(prefer[:, None], apart, together)


def _line_through_slab(p: FloatArray, problem: PairProblem) -> tuple[FloatArray, FloatArray]:
    """Return the level and tilt of the line that meets the likelihood ratio at the edges of the worst slab of mass
    `p`."""
    slab = worst_slab(p, 1.0 - p, problem.grad_norm)
    upper = np.clip(slab.upper, -8.0, 9.0)
    lower = np.clip(slab.lower, -9.0, upper - 1e-3)
    at_upper, at_lower = _curvature_ratio(upper, problem.r), _curvature_ratio(lower, problem.r)
    kappa = -(at_upper - at_lower) / (upper - lower)
    return at_lower + kappa * lower, kappa


def _keep_tilt_positive(theta: FloatArray, r: FloatArray, previous: FloatArray | None = None) -> FloatArray:
    """Shorten steps so that the multiplier of the gradient stays positive: at most nine tenths of the way to zero."""
    theta = theta.copy()
    ceiling = (1.0 - 1e-12) / r
    if previous is not None:
        ceiling = np.minimum(ceiling, previous[:, 2] + 0.9 * (1.0 / r - previous[:, 2]))
    theta[:, 2] = np.minimum(theta[:, 2], ceiling)
    return theta


def _newton_step(
    gradient: FloatArray, hessian: FloatArray, damping: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the Marquardt step, its predicted gain, and the scale of the coordinates taken from the diagonal."""
    diagonal = -np.einsum("nii->ni", hessian)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-200))
    scale = np.where(diagonal > 0.0, scale, 1.0)
    scaled = -hessian * scale[:, :, None] * scale[:, None, :]
    scaled += damping[:, None, None] * np.eye(3) + np.einsum("ni,ij->nij", (diagonal <= 0.0) * 1.0, np.eye(3))
    scaled_gradient = gradient * scale
    solution = np.linalg.solve(scaled, scaled_gradient[:, :, None])[:, :, 0]
    return solution * scale, np.sum(scaled_gradient * solution, axis=1), scale


def _break_points(r: FloatArray, m: FloatArray, n: FloatArray, kappa: FloatArray) -> FloatArray:
    """Return the sorted points of the positive half-line between which one entry of the minimum stays the smallest."""
    log_tilt = np.log1p(-r * kappa)
    lowest = 0.5 * r + log_tilt / r
    base = -0.5 - log1p_minus(-r * kappa) / np.square(r) + kappa * lowest
    points = []
    # `one point` against nothing (level n), and against the whole pair (level 2 m - n).
    for level in (n, 2.0 * m - n):
        gap = (level - base) * np.square(r) * np.exp(-log_tilt)
        roots = exp_tangent_roots(np.maximum(gap, 0.0))
        for t in roots:
            points.append(np.where(gap > 0.0, np.abs(lowest + t / r), HORIZON))
    # The whole pair against nothing: cosh(r z) = mu exp(r^2/2).
    rise = np.expm1(np.log1p(np.square(r) * m) + 0.5 * np.square(r))
    points.append(np.where(rise > 0.0, 2.0 / r * np.arcsinh(np.sqrt(0.5 * np.abs(rise))), HORIZON))
    # The far point against the near one: sinh(r z) / (r z) = (k / r) exp(r^2/2).
    log_ratio = log_tilt + 0.5 * np.square(r)
    points.append(np.where(log_ratio > 0.0, _sinhc_root(np.maximum(log_ratio, 0.0)) / r, HORIZON))
    inner = np.clip(np.nan_to_num(np.stack(points, axis=1), nan=HORIZON), 0.0, HORIZON)
    inner.sort(axis=1)
    column = np.zeros((len(r), 1))
    return np.concatenate([column, inner, column + HORIZON], axis=1)


def _sinhc_root(log_ratio: FloatArray) -> FloatArray:
    """Return `y` with ``log(sinh(y) / y) = log_ratio``; to about 1e-9, as errors in break points enter squared."""
    q = 6.0 * np.minimum(log_ratio, 0.5)
    small = np.sqrt(q * (1.0 + q / 30.0 * (1.0 - q / 210.0)))
    y = np.where(log_ratio < 0.5, small, log_ratio + np.log(2.0 * log_ratio + 2.0))
    for _ in range(4):
        safe = np.maximum(y, 0.05)
        value = safe + np.log(-np.expm1(-2.0 * safe) / (2.0 * safe)) - log_ratio
        slope = 1.0 / np.tanh(safe) - 1.0 / safe
        y = np.where(y < 0.05, y, np.maximum(safe - value / slope, 0.05))
    return y


def _curvature_ratio(z: FloatArray, r: FloatArray) -> FloatArray:
    """Return ``E(z) = (exp(r z - r^2/2) - 1 - r z) / r^2``, which tends to ``(z^2 - 1) / 2`` for small `r`."""
    return expm1_minus(r * z - 0.5 * np.square(r)) / np.square(r) - 0.5


def _tail_integral(x: FloatArray, r: FloatArray) -> FloatArray:
    """Return the integral of ``phi(z) E(z)`` from `x` to infinity."""
    x, r = np.broadcast_arrays(x, r)
    value: FloatArray = (interval_mass(x, r) - r * density(x)) / np.square(r)
    short = is_short(x, r)
    if np.any(short):
        end, step = x[short][:, None], r[short][:, None]
        s = step * NODES
        value[short] = integrate(density(end) * np.expm1(end * s - 0.5 * s * s)) / step[:, 0]
    return value


def _hessian(z: FloatArray, choice: IndexArray, phi: FloatArray, r: FloatArray, kappa: FloatArray) -> FloatArray:
    """Return second derivatives: each edge moves with the multipliers of the two options it separates."""
    far = np.expm1(r * z - 0.5 * np.square(r)) / r
    near = np.expm1(-r * z - 0.5 * np.square(r)) / r
    zero = np.zeros_like(z)
    slopes = np.stack([zero, far - near, far + kappa, -near - kappa])
    derivatives = np.stack(
        [
            np.stack([zero, zero, zero]),
            np.stack([zero - 2.0, zero, zero]),
            np.stack([zero, zero - 1.0, z]),
            np.stack([zero, zero - 1.0, -z]),
        ]
    )
    rows, columns = np.indices(z.shape)
    left, right = choice[:, :-1], choice[:, 1:]
    turn = np.abs(slopes[left, rows, columns] - slopes[right, rows, columns])
    jump = derivatives[left, :, rows, columns] - derivatives[right, :, rows, columns]
    counts = (left != right) & (z > 0.0) & (z < HORIZON) & np.isfinite(turn)
    weight = np.where(counts, phi / np.maximum(np.where(counts, turn, 1.0), 1e-9), 0.0)
    hessian: FloatArray = -np.einsum("ne,nei,nej->nij", weight, jump, jump)
    return hessian
