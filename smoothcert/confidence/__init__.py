"""Confidence limits of probabilities and gradients, computed from counts and sums.

Pure functions, vectorised over rows, in units of sigma. Lower limits are rounded down, upper limits up.
"""

from __future__ import annotations

from ._adaptive_gradient import adaptive_gradient_scale, adaptive_gradient_upper
from ._binomial import binomial_lower, binomial_upper
from ._crossfit import crossfit_gradient_upper, crossfit_log_capital, crossfit_scale
from ._gradient import gradient_norm_upper
from ._local_proxy import share_limits, variance_proxy
from ._pairs import joint_pair_limits
from ._rival import rival_limits
from ._stratified import StratifiedLimit, stratified_lower
from ._stratified_gradient import stratified_gradient_upper
from ._stratified_rival import StratifiedRivalLimit, stratified_rival_lower
from ._stratified_share import stratified_share_upper

__all__ = [
    "StratifiedLimit",
    "StratifiedRivalLimit",
    "adaptive_gradient_scale",
    "adaptive_gradient_upper",
    "binomial_lower",
    "binomial_upper",
    "crossfit_gradient_upper",
    "crossfit_log_capital",
    "crossfit_scale",
    "gradient_norm_upper",
    "joint_pair_limits",
    "rival_limits",
    "share_limits",
    "stratified_gradient_upper",
    "stratified_lower",
    "stratified_rival_lower",
    "stratified_share_upper",
    "variance_proxy",
]
