"""Radii and bounds to 50 digits, from the definitions in the theory and independent of the package."""

import itertools

from mpmath import mp, mpf

mp.dps = 50


def cdf(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def pdf(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def quantile(p):
    if p <= 0:
        return -mp.inf
    if p >= 1:
        return mp.inf
    return mp.sqrt(2) * mp.erfinv(2 * p - 1)


def root(function, low, high):
    """Zero of a monotone function between two points of opposite sign."""
    low, high = mpf(low), mpf(high)
    positive = function(low) > 0
    for _ in range(25):  # Bisect first: secants alone stall on the flat tails of these functions.
        middle = (low + high) / 2
        low, high = (middle, high) if (function(middle) > 0) == positive else (low, middle)
    return mp.findroot(function, (low, high), solver="anderson", tol=mpf(10) ** -95, maxsteps=400, verify=False)


def slab_edges(p, grad_norm):
    """Edges of the slab of Theorem 1, from its own two equations."""
    p, grad_norm = mpf(p), mpf(grad_norm)
    if grad_norm >= pdf(quantile(p)):
        return -mp.inf, quantile(p)
    if grad_norm == 0:
        edge = quantile((1 + p) / 2)
        return -edge, edge

    def mismatch(lower):
        return pdf(quantile(cdf(lower) + p)) - pdf(lower) - grad_norm

    lower = root(mismatch, mpf(-60), quantile((1 - p) / 2))
    return lower, quantile(cdf(lower) + p)


def second_order_bound(p, grad_norm, r):
    lower, upper = slab_edges(p, grad_norm)
    return cdf(upper - mpf(r)) - cdf(lower - mpf(r))


def first_order_radius(p):
    return max(quantile(mpf(p)), mpf(0))


def second_order_radius(p, grad_norm):
    p = mpf(p)
    lower, upper = slab_edges(p, grad_norm)
    if lower == -mp.inf:
        return upper
    high = quantile((1 + p) / 2) * mpf("1.01")
    return root(lambda r: cdf(upper - r) - cdf(lower - r) - mpf(1) / 2, quantile(p) * mpf("0.99"), high)


def dipole_bound(both, one_sided, r):
    both, one_sided, r = mpf(both), mpf(one_sided), mpf(r)
    half_width = quantile((1 + both) / 2)
    return cdf(quantile(one_sided) - r) + cdf(half_width - r) - cdf(-half_width - r)


def dipole_radius(both, one_sided):
    high = quantile((1 + mpf(both)) / 2) + 2
    return root(lambda r: dipole_bound(both, one_sided, r) - mpf(1) / 2, mpf(0), high)


def pair_dual_bound(both, one_sided, grad_norm, r, mu, nu, k):
    """The dual of the pair programme at given multipliers, its integral by quadrature between sign changes."""
    both, one_sided, grad_norm, r, mu, nu, k = map(mpf, (both, one_sided, grad_norm, r, mu, nu, k))

    def ratio(z):
        return mp.exp(r * z - r * r / 2)

    def options(z):
        return (
            mpf(0),
            ratio(z) + ratio(-z) - 2 * mu,
            ratio(z) - nu - k * z,
            ratio(-z) - nu + k * z,
        )

    def smallest(z):
        values = options(z)
        return values.index(min(values))

    grid = [mpf(i) / 40 for i in range(0, 40 * 12 + 1)]
    breaks = [grid[0]]
    for left, right in itertools.pairwise(grid):
        while smallest(left) != smallest(right):
            # Bisect to the first change; there may be several in one cell.
            low, high, first = left, right, smallest(left)
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (middle, high) if smallest(middle) == first else (low, middle)
            breaks.append(high)
            left = high
    breaks.append(grid[-1])
    total = mpf(0)
    for left, right in itertools.pairwise(breaks):
        which = smallest((left + right) / 2)
        if which and right > left:
            total += mp.quad(lambda z: pdf(z) * options(z)[which], mp.linspace(left, right, 4))  # noqa: B023
    return mu * both + nu * one_sided - k * grad_norm + total
