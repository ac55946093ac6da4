"""Bounds and certified radii of a smoothed classifier when its statistics are known exactly.

Everything is in units of sigma: the noise is standard normal, a radius ``r`` means ``r * sigma`` in the input space,
and a gradient norm is sigma times the norm of the gradient of the smoothed probability. Arguments broadcast, results
are float64. Lower bounds and radii are rounded down, upper bounds up, so that no number promises more than is true.
"""

from __future__ import annotations

from ._dipole import dipole_lower_bound, dipole_radius, dipole_upper_bound
from ._directional._bound import directional_lower_bound, directional_radius, directional_rival_radius
from ._first_order import first_order_lower_bound, first_order_radius, first_order_upper_bound
from ._second_order import second_order_lower_bound, second_order_radius, second_order_upper_bound
from ._second_order_dipole import (
    second_order_dipole_lower_bound,
    second_order_dipole_radius,
    second_order_dipole_upper_bound,
)
from ._second_order_rivals import second_order_multiclass_radius
from ._separable import separable_radius

__all__ = [
    "dipole_lower_bound",
    "dipole_radius",
    "dipole_upper_bound",
    "directional_lower_bound",
    "directional_radius",
    "directional_rival_radius",
    "first_order_lower_bound",
    "first_order_radius",
    "first_order_upper_bound",
    "second_order_dipole_lower_bound",
    "second_order_dipole_radius",
    "second_order_dipole_upper_bound",
    "second_order_lower_bound",
    "second_order_multiclass_radius",
    "second_order_radius",
    "second_order_upper_bound",
    "separable_radius",
]
