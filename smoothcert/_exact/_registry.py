"""Which models have a closed form: one file a family, found by the type of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.validation import check_is_fitted

from . import _adaboost, _decision_tree, _forest, _gaussian_nb, _gradient_boosting, _hist_gradient_boosting, _linear
from ._contract import ClosedForm, is_sklearn
from ._steps import known_steps

_FAMILIES = (_linear, _gaussian_nb, _hist_gradient_boosting, _gradient_boosting, _adaboost, _forest, _decision_tree)

_READERS: dict[str, Callable[[Any], ClosedForm]] = {
    name: reader for family in _FAMILIES for name, reader in family.MODELS.items()
}


def read_model(model: Any) -> ClosedForm:
    """Return the closed form of a fitted classifier.

    The type must be scikit-learn's own: a subclass may compute something else.
    """
    name = type(model).__name__
    reader = _READERS.get(name)
    if reader is None or not is_sklearn(model, name):
        parents = [parent.__name__ for parent in type(model).__mro__[1:] if parent.__name__ in _READERS]
        what = f"{name}, a subclass of {parents[0]} that may compute something else" if parents else name
        raise TypeError(f"model must have a closed form under Gaussian noise, got {what}. {known_models()}")
    check_is_fitted(model)
    return reader(model)


def known_models() -> str:
    """Return which models can be certified without sampling, and what to do with others, for messages."""
    return (
        f"Closed forms are known for {', '.join(_READERS)} (boosting and forests with one feature in each tree), "
        f"also in a Pipeline after {known_steps()} (the last three for linear models only, scalers without clip). "
        'Use one of these, or voting="hard", which works by sampling with any classifier.'
    )
