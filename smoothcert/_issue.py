"""From evidence to certificates, back in the units of the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._casting import shorten
from ._certificates import Certificates
from ._validation import FloatArray
from .tallies import IntArray, Tally


def unit_of_radius(sigma: float, dtype: Any) -> float:
    """What to multiply radii with: the noise is scaled in the precision of the data, where sigma may round down."""
    with np.errstate(over="ignore"):
        applied = float(np.dtype(dtype).type(sigma))
    if not np.isfinite(applied):
        raise ValueError(
            f"sigma must be a finite number in the precision of the data, {np.dtype(dtype)}, got {sigma!r}. "
            "Bring the data to units in which the noise is moderate."
        )
    return min(sigma, applied)


def issue(
    certifier: Any,
    candidate: IntArray,
    tally: Tally,
    unit: float,
    classes: NDArray[Any],
    provenance: Mapping[str, Any],
    space: str = "input",
    lost: FloatArray | None = None,
) -> Certificates:
    """Certificates for the candidate class of each row, as far as the evidence goes; radii are multiples of `unit`,
    less what is `lost` by a cast of the inputs."""
    inference = certifier.certify_tally(tally)
    # One rounding in the product, one step back.
    radius = np.where(inference.radius > 0.0, np.nextafter(inference.radius * unit, 0.0), 0.0)
    radius = shorten(radius, lost)
    counts = tally.counts_by_name()
    return Certificates(classes[candidate], radius, radius == 0.0, inference.limits, counts, provenance, space)
