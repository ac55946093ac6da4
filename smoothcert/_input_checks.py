"""Checks of inputs and settings that do not fit together, before anything is computed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ._inputs import Inputs
from ._validation import FloatArray
from ._warnings import UnreachableRadiusWarning, warn_user
from .certifiers import BaseCertifier
from .certifiers._prospect import unanimous_radius


def refuse_directions_of_frames(certifier: BaseCertifier, gradients: bool, inputs: Inputs) -> None:
    """Refuse directions given by a function: in place of columns without noise it would see numbers of rows."""
    hidden = inputs.frame_rows is not None and isinstance(inputs.sigma, np.ndarray) and not np.all(inputs.sigma > 0.0)
    if hidden and any(callable(pilot.observes) for pilot in certifier.pilots(gradients)):
        raise ValueError(
            "direction must not be a function if X is a DataFrame with columns without noise, got "
            f"{certifier!r}. Use direction='auto', or give X as an array."
        )


def as_plain_array(X: Any) -> Any:
    """Return a tensor as an array: scikit-learn would take it, but in float64 whatever its type."""
    return np.asarray(X) if hasattr(X, "__torch_function__") else X


def refuse_datasets(X: Any) -> None:
    """Refuse torch's ways to hold data, and say how to make an array of them."""
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(X, data.Dataset | data.DataLoader):
        return
    if isinstance(X, data.DataLoader):
        cure = "X = torch.cat([batch[0] for batch in loader]).numpy(), and y in the same way from batch[1]; the loader "
        cure += "must not shuffle"
    else:
        cure = "X = np.stack([np.asarray(row) for row, _ in dataset]), y = np.array([label for _, label in dataset])"
    raise TypeError(f"X must be one array, got a {type(X).__name__}. Convert it: {cure}.")


def refuse_mappings(X: Any) -> None:
    """Refuse several arrays in one, and images of whole numbers."""
    refuse_datasets(X)
    if isinstance(X, Mapping) and not issparse(X):  # one kind of sparse matrix is a mapping too
        raise TypeError(
            "X must be one array, got a mapping of several. Noise is added to one array only: give the part of the "
            "input that may be perturbed as X, and keep the rest inside the model."
        )
    if getattr(X, "ndim", 0) > 2 and (dtype := np.asarray(X).dtype).kind in "iub":
        raise ValueError(
            f"X must hold floating point images, got {dtype}. Convert them to the units of sigma, for example with "
            "X.astype('float32') / 255."
        )


def warn_of_pixels(X: FloatArray, of_bytes: bool, sigma: float) -> None:
    """Warn of pixels from 0 to 255 under noise of a standard deviation below 2, which is meant for a range of 1.

    Bytes are nearly always pixels. Floating point numbers are taken for pixels if they lie between 0 and 255, some
    above 128, and either are images (three axes or more), or rows of at least 16 whole numbers.
    """
    if sigma >= 2.0:
        return
    largest = float(np.max(X))
    what = "bytes"
    if not of_bytes:
        if not (128.0 < largest <= 255.0 and float(np.min(X)) >= 0.0):
            return
        rows = X[:1000]
        if X.ndim == 2 and (X.shape[1] < 16 or not np.array_equal(rows, np.floor(rows))):
            return
        what = "numbers like those of pixels,"
    elif largest <= 16:
        return
    warn_user(
        f"X contains {what} up to {largest:g}, and sigma={sigma:g} is in the same units, so the noise has almost no "
        "effect. Rescale X, for example with X.astype('float32') / 255, or use a larger sigma."
    )


def warn_of_few_samples(certifier: BaseCertifier) -> None:
    """Warn if the class cannot be shown to have half of the votes even if all agree."""
    least = int(np.ceil(-np.log2(certifier.alpha)))
    if certifier.n_samples < least:
        warn_user(
            f"n_samples={certifier.n_samples} can prove nothing at alpha={certifier.alpha:g}, even if all votes agree. "
            f"At least {least} samples are needed; 100,000 is typical."
        )


def warn_of_unreachable_radii(
    asked: tuple[float, ...],
    thresholds: FloatArray,
    certifier: BaseCertifier,
    max_samples: int | None,
    issued: Callable[[FloatArray], FloatArray],
) -> None:
    """Warn of radii that no votes could prove for any input."""
    n_samples = max(certifier.n_samples, max_samples or 0)
    most = unanimous_radius(n_samples, float(certifier.alpha))
    beyond = np.flatnonzero(np.all(thresholds > most, axis=0))
    if len(beyond):
        reached = float(np.max(issued(np.full(len(thresholds), most))))
        warn_user(
            f"No input can be certified at radius {asked[beyond[0]]:g}: with n_samples={n_samples:,} and "
            f"alpha={certifier.alpha:g} the largest possible radius is about {reached:.3g}, even if all votes agree. "
            "Use a larger sigma, more samples or a smaller radius. In a pipeline with a scaler, use "
            'certify(..., space="smoothed") to give the radius in the units of the scaler\'s output.',
            UnreachableRadiusWarning,
        )
