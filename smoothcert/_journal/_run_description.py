"""What a journal must know of a run: what makes it the same run, and what it takes to read the evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._certificates import plain_value
from .._engine import Question
from .._noise import Grid
from .._validation import FloatArray
from ..certifiers import BaseCertifier
from ..certifiers._lookup import FUNCTION, certifier_name
from ._fingerprints import fingerprint


@dataclass(frozen=True, kw_only=True)
class RunDescription:
    """All that the certificates of a run depend on.

    Attributes
    ----------
    model : object
        All of the model that votes depend on.
    classes : ndarray
        Labels.
    certifier : BaseCertifier
    gradients : bool
        Whether the model has input gradients.
    sigma : float or ndarray
        Standard deviation of the noise, one for all features or one for each.
    grid : Grid or None
        Grid of exact noise.
    n_noisy : int
        Number of features with noise.
    feature_scale : ndarray or None
        What one unit of a radius is in each feature.
    effective_sigma : float
        What radii are multiplied with.
    X : ndarray
        Rows.
    keys : sequence of int
        Numbers that stand for the content of the rows.
    lost : ndarray or None
        What the radius of each row loses by a cast of its input.
    seed : int
        Seed of a new run; a run without `random_state` continues with the one in the journal.
    seeded : bool
        Whether the user gave the seed.
    space : str
        Where the radii live.
    question : Question
        What is asked. Another one may be asked of the same evidence, unless one is about radii and the other is not.
    provenance : mapping
    """

    model: Any
    classes: NDArray[Any]
    certifier: BaseCertifier
    gradients: bool
    sigma: float | FloatArray
    grid: Grid | None
    n_noisy: int
    feature_scale: FloatArray | None
    effective_sigma: float
    X: FloatArray
    keys: Sequence[int]
    lost: FloatArray | None
    seed: int
    seeded: bool
    space: str
    question: Question
    provenance: Mapping[str, Any]

    def identity(self) -> dict[str, str]:
        """Return what must be the same for the run to be continued, in words or as fingerprints."""
        rows = f"{len(self.X)} rows of shape {self.X.shape[1:]} in {self.X.dtype}"
        # The same evidence proves other radii for inputs that were cast.
        how = " cast from float64" if self.grid is None else " rounded to the grid"
        cast, content = ("", self.keys) if self.lost is None else (how, (self.keys, self.lost))
        return {
            "model": f"fingerprint {fingerprint(self.model)[:32]}",
            "classes": f"{len(self.classes)} labels, fingerprint {fingerprint(self.classes)[:32]}",
            "sigma": self._sigma(),
            "noise": "gaussian" if self.grid is None else f"exact, quantum={_short(self.grid.describe())}",
            "certifier": f"{certifier_name(type(self.certifier))} with {self._parameters()}",
            "random_state": str(self.seed) if self.seeded else "None",
            "X": f"{rows}{cast}, fingerprint {fingerprint(content)[:32]}",
            "space": self.space,
            "radii": self._units(),
            # Pilots, screens and their sizes depend on it.
            "input gradients": "available" if self.gradients else "not available",
            # All of alpha at one look, or a part of it at each of several: both on one file would promise it twice.
            "sampling": "of all samples (radius=None)" if self.question.asked is None else "until radii are decided",
        }

    def facts(self) -> dict[str, Any]:
        """Return what it takes to read the evidence without the model."""
        return {
            "certifier": [certifier_name(type(self.certifier)), json.loads(self._parameters())],
            "gradients": self.gradients,
            "designs": self.grid is None,  # exact noise is never designed
            "n_rows": len(self.X),
            "n_features": self.n_noisy,
            "n_classes": len(self.classes),
            "effective_sigma": self.effective_sigma,
            "lost": None if self.lost is None else self.lost.tolist(),
            "space": self.space,
            "feature_scale": None if self.feature_scale is None else self.feature_scale.tolist(),
            "provenance": dict(self.provenance),
        }

    def _sigma(self) -> str:
        if not isinstance(self.sigma, np.ndarray):
            return repr(self.sigma)
        if self.sigma.size <= 16:
            return repr(self.sigma.tolist())
        return (
            f"{self.sigma.size} numbers from {self.sigma.min():g} to {self.sigma.max():g}, fingerprint "
            + (fingerprint(self.sigma)[:32])
        )

    def _units(self) -> str:
        """Return the units in which radii are issued, which the same sigma may be given in."""
        if self.feature_scale is None:
            return "in units of X"
        return f"in units of each feature, fingerprint {fingerprint((self.effective_sigma, self.feature_scale))[:32]}"

    def _parameters(self) -> str:
        return json.dumps(self.certifier.get_params(), default=_plain_parameter, sort_keys=True)


def _short(step: Any) -> str:
    many = isinstance(step, list) and len(step) > 16
    return f"{len(step)} numbers, fingerprint {fingerprint(step)[:32]}" if many else repr(step)


def _plain_parameter(value: Any) -> Any:
    return f"{FUNCTION}{fingerprint(value)[:32]}" if callable(value) else plain_value(value)


def find_differences(stored: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Return what two runs do not have in common, in words."""
    names = dict.fromkeys([*stored, *current])
    return [
        f"{name} is {stored.get(name)} in the journal, {current.get(name)} now"
        for name in names
        if stored.get(name) != current.get(name)
    ]
