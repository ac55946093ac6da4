"""From evidence to certificates, back in the units of the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._certificates import Certificates
from .tallies import IntArray, Tally


def effective_sigma(sigma: float, dtype: Any) -> float:
    """What to multiply radii with: the noise is scaled in the precision of the data, where sigma may round down."""
    with np.errstate(over="ignore"):
        applied = float(np.dtype(dtype).type(sigma))
    if not np.isfinite(applied):
        raise ValueError(
            f"sigma must be a finite number in the precision of the data, {np.dtype(dtype)}, got {sigma!r}. "
            "Bring the data to units in which the noise is moderate."
        )
    return min(sigma, applied)


def build_certificates(
    certifier: Any,
    candidate: IntArray,
    tally: Tally,
    unit: float,
    classes: NDArray[Any],
    provenance: Mapping[str, Any],
    space: str = "input",
) -> Certificates:
    """Certificates for the candidate class of each row, as far as the evidence goes; radii are multiples of `unit`."""
    inference = certifier.certify_tally(tally)
    # One rounding in the product, one step back.
    radius = np.where(inference.radius > 0.0, np.nextafter(inference.radius * unit, 0.0), 0.0)
    counts = tally.summary()
    return Certificates(
        prediction=classes[candidate],
        radius=radius,
        abstained=radius == 0.0,
        limits=inference.limits,
        counts=counts,
        provenance=provenance,
        space=space,
        upper_limits=certifier.upper_limits & inference.limits.keys(),
    )
