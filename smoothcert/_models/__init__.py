"""What a base model must offer: one adapter for each kind of base."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_clusterer, is_regressor
from sklearn.frozen import FrozenEstimator

from ._base import BaseModel, TrainingSettings, Voter
from ._label_voter import FrameVoter
from ._nets import find_nets, is_net, unfrozen
from ._sklearn import FrozenSklearnModel, ModelOfNets, SklearnModel

__all__ = ["BaseModel", "FrameVoter", "TrainingSettings", "Voter", "adapt", "check_base", "check_trainable", "unfrozen"]


def adapt(estimator: Any) -> BaseModel:
    """Return the adapter for an estimator."""
    frozen = isinstance(estimator, FrozenEstimator)
    if is_net(estimator):
        from ._skorch import FrozenSkorchModel, SkorchModel

        return FrozenSkorchModel(estimator) if frozen else SkorchModel(estimator)
    if frozen:
        return FrozenSklearnModel(estimator)
    return ModelOfNets(estimator) if find_nets(estimator) else SklearnModel(estimator)


def check_base(estimator: Any) -> None:
    """Refuse what is no classifier."""
    if isinstance(estimator, type):
        cure = (
            "Wrap it: skorch.NeuralNetClassifier(module, criterion=torch.nn.CrossEntropyLoss)."
            if hasattr(estimator, "forward")
            else "Add parentheses."
        )
        raise TypeError(f"estimator must be an instance, got the class {estimator.__name__}. {cure}")
    base = unfrozen(estimator)
    if hasattr(base, "fit") and hasattr(base, "predict") and not is_regressor(base) and not is_clusterer(base):
        return
    if callable(getattr(base, "forward", None)):
        raise TypeError(
            f"estimator must be a classifier with fit and predict, got the module {type(base).__name__}. Wrap it, with "
            "the criterion it was or will be trained with: "
            "skorch.NeuralNetClassifier(module, criterion=torch.nn.CrossEntropyLoss)."
        )
    raise TypeError(
        f"estimator must be a classifier with fit and predict, got {estimator!r}. "
        "Give one, for example LogisticRegression()."
    )


def check_trainable(estimator: Any, recipe: Any) -> None:
    """Refuse a training recipe for what is not a net to be trained."""
    frozen = isinstance(estimator, FrozenEstimator)
    if frozen or not is_net(estimator):
        kind = "frozen, so it is not trained" if frozen else "not a skorch net"
        raise TypeError(
            f"training must be None for an estimator that is {kind}, got {recipe!r}. Leave it out, or give "
            "a net to be trained: skorch.NeuralNetClassifier(module, criterion=torch.nn.CrossEntropyLoss)."
        )
