"""The verb ``certify``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from .. import (
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
    SmoothedClassifier,
    certify,
)
from .._frames import is_frame
from .._pipelines import find_smoothed, replace_certifier
from ..certifiers import BaseCertifier
from ._data import load_data
from ._models import load_model

_KINDS: dict[str, type[BaseCertifier]] = {
    "directional": DirectionalCertifier,
    "first-order": FirstOrderCertifier,
    "second-order": SecondOrderCertifier,
    "dipole": DipoleCertifier,
    "second-order-dipole": SecondOrderDipoleCertifier,
}


def run_certify(arguments: argparse.Namespace) -> int:
    """Certify a data file, write the result and say what came out."""
    folder = Path(arguments.out).resolve().parent
    if not folder.is_dir():  # better now than after hours
        raise FileNotFoundError(
            f"--out must be in a directory that exists, got {arguments.out!r}. Create the directory first."
        )
    model = load_model(arguments.model, arguments.trust_joblib, arguments.trust)
    X, y = load_data(arguments.data, arguments.label)
    estimator = _smoothed(model, X, y, arguments)
    radius = None if arguments.radius is None else sorted(set(arguments.radius))
    certificates = certify(estimator, X, radius=radius, journal=arguments.journal)
    if y is not None:
        certificates = replace(certificates, label=np.asarray(y))
    certificates.save(arguments.out)
    sys.stdout.write(f"{certificates!r}\nwritten to {arguments.out}\n")
    return 0


def _smoothed(model: Any, X: Any, y: Any, arguments: argparse.Namespace) -> Any:
    """Return the model with the settings given, smoothed if it is not."""
    try:
        own = find_smoothed(model)
    except TypeError:
        estimator = _freeze(model, X, y, arguments)
    else:
        # A copy, so that settings can be changed.
        estimator = replace_certifier(model, own.certifier)
    smoothed = find_smoothed(estimator)
    smoothed.certifier = _certifier(smoothed.certifier, arguments)
    given = {"sigma": arguments.sigma, "random_state": arguments.seed, "n_jobs": arguments.n_jobs}
    smoothed.set_params(**{name: value for name, value in given.items() if value is not None})
    smoothed.verbose = int(not arguments.quiet and _has_tqdm())
    return estimator


def _freeze(model: Any, X: Any, y: Any, arguments: argparse.Namespace) -> SmoothedClassifier:
    if not hasattr(model, "predict"):
        raise TypeError(f"MODEL must be a fitted classifier with predict, got {type(model).__name__}.")
    if arguments.sigma is None:
        raise ValueError(
            f"--sigma must be given for a {type(model).__name__}, got none. It is the standard deviation of the noise, "
            "in the units of X; start with the size of the perturbations to defend against."
        )
    if is_frame(X) and not hasattr(model, "feature_names_in_"):
        X = X.to_numpy()
    labels = model.predict(X) if y is None else y
    return SmoothedClassifier(FrozenEstimator(model), sigma=arguments.sigma).fit(X, labels)


def _certifier(own: BaseCertifier | None, arguments: argparse.Namespace) -> BaseCertifier:
    if arguments.certifier is not None:
        certifier = _KINDS[arguments.certifier]()
    else:
        certifier = DirectionalCertifier() if own is None else clone(own)
    given = {"n_samples": arguments.n_samples, "alpha": arguments.alpha}
    certifier.set_params(**{name: value for name, value in given.items() if value is not None})
    return certifier


def _has_tqdm() -> bool:
    from importlib.util import find_spec

    return find_spec("tqdm") is not None
