"""Certifiers: from evidence to certified radii."""

from __future__ import annotations

from ._base import BaseCertifier, Inference, Pilot, Screen
from ._dipole import DipoleCertifier
from ._directional._certifier import DirectionalCertifier
from ._first_order import FirstOrderCertifier
from ._second_order import SecondOrderCertifier
from ._second_order_dipole import SecondOrderDipoleCertifier

__all__ = [
    "BaseCertifier",
    "DipoleCertifier",
    "DirectionalCertifier",
    "FirstOrderCertifier",
    "Inference",
    "Pilot",
    "Screen",
    "SecondOrderCertifier",
    "SecondOrderDipoleCertifier",
]
