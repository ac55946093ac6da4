"""Pictures of certificates, after scikit-learn's displays. matplotlib is loaded when something is drawn."""

from __future__ import annotations

from ._accuracy import CertifiedAccuracyDisplay
from ._bound import BoundDisplay
from ._gain import CertificateGainDisplay
from ._probability import ClassProbabilityDisplay
from ._region import CertifiedRegionDisplay

__all__ = [
    "BoundDisplay",
    "CertificateGainDisplay",
    "CertifiedAccuracyDisplay",
    "CertifiedRegionDisplay",
    "ClassProbabilityDisplay",
]
