"""Certified robustness for any classifier, with the manners of scikit-learn."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
