"""skorch nets. Imported only where there is a net."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validation import FloatArray
from ..training._fit import fit_net
from ..training._skorch import classes_of_frozen
from ._base import BaseModel, TrainingSettings, refuse_order
from ._nets import cast_for_nets, unfrozen
from ._neural_voter import NeuralVoter


class SkorchModel(BaseModel):
    """A net that is trained with fresh noise in every batch."""

    def prepare(self, X: FloatArray) -> FloatArray:
        return cast_for_nets(X)

    def classes(self, X: FloatArray, y: NDArray[Any], given: Any = None) -> NDArray[Any]:
        refuse_order(given)
        return np.unique(y)

    def train(self, estimator: Any, X: FloatArray, y: NDArray[Any], settings: TrainingSettings) -> None:
        fit_net(
            estimator,
            X,
            np.searchsorted(np.unique(y), y),
            sigma=settings.sigma,
            recipe=settings.recipe,
            seed=settings.entropy % 2**63,
            seeded=settings.seeded,
            fit_params=settings.fit_params,
        )

    def voter(self, classes: NDArray[Any]) -> NeuralVoter:
        return NeuralVoter(unfrozen(self.estimator), len(classes))


class FrozenSkorchModel(SkorchModel):
    """A net that was trained elsewhere and is used as it is."""

    def classes(self, X: FloatArray, y: NDArray[Any], given: Any = None) -> NDArray[Any]:
        return classes_of_frozen(unfrozen(self.estimator), X, y, given)

    def train(self, estimator: Any, X: FloatArray, y: NDArray[Any], settings: TrainingSettings) -> None:
        pass
