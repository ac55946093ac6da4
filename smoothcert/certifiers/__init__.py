"""Certifiers: from evidence to certified radii."""

from __future__ import annotations

from ._base import BaseCertifier, Inference
from ._dipole import DipoleCertifier
from ._first_order import FirstOrderCertifier
from ._second_order import SecondOrderCertifier
from ._second_order_dipole import SecondOrderDipoleCertifier

__all__ = [
    "BaseCertifier",
    "DipoleCertifier",
    "FirstOrderCertifier",
    "Inference",
    "SecondOrderCertifier",
    "SecondOrderDipoleCertifier",
]
