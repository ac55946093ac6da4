"""How sure the vote is, over all inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._certificates import Certificates
from .._pipelines import certify
from .._validation import FloatArray, check_choice
from ..metrics import class_probability
from ._common import Display, certifier_name, describe_setting, named, with_setting


class ClassProbabilityDisplay(Display):
    """Distribution of the class probability under noise, for one or several models.

    Use it together with certified accuracy: the average radius of a model may be larger because it is more confident on
    easy inputs, while it fails on others. Made by `from_estimator` or `from_certificates`.

    Parameters
    ----------
    values : sequence of ndarray
        Class probability of each input, one array for each model, as from `smoothcert.metrics.class_probability`.
    names : sequence of str or None
        Names of the models.
    setting : str, default=""
        What the models have in common, shown below the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
        The curves; empty in a histogram.
    patches_ : list of matplotlib StepPatch
        The histograms; empty if curves are drawn.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from smoothcert import Certificates
    >>> from smoothcert.plotting import ClassProbabilityDisplay
    >>> counts = {"hits": [90, 70, 55], "n": [100, 100, 100]}
    >>> certificates = Certificates([0, 1, 1], [0.4, 0.1, 0.0], [False, False, True], counts=counts)
    >>> display = ClassProbabilityDisplay.from_certificates([0, 1, 1], {"noise": certificates})
    >>> display.values
    [array([0.9 , 0.7 , 0.55])]
    """

    def __init__(self, values: Sequence[FloatArray], names: Sequence[str | None], setting: str = "") -> None:
        self.values = values
        self.names = names
        self.setting = setting

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> ClassProbabilityDisplay:
        """Certify and draw.

        Parameters
        ----------
        estimator : fitted estimator, or mapping of str to fitted estimators
            Whatever `smoothcert.certify` takes.
        X, y : array-like
            Inputs and true labels.
        name : str, optional
            Name of a single curve; by default that of the certifier.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        ClassProbabilityDisplay
        """
        several = isinstance(estimator, Mapping)
        certificates = {key: certify(each, X) for key, each in estimator.items()} if several else certify(estimator, X)
        return cls.from_certificates(y, certificates, name=name, ax=ax, **kwargs)

    @classmethod
    def from_certificates(
        cls,
        y_true: ArrayLike,
        certificates: Certificates | Mapping[str, Certificates],
        *,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ClassProbabilityDisplay:
        """Draw certificates that were made before.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels.
        certificates : Certificates, or mapping of str to Certificates
            A curve for each.
        name : str, optional
            Name of a single curve; by default that of the certifier.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        ClassProbabilityDisplay
        """
        default = certifier_name(certificates) if isinstance(certificates, Certificates) else None
        curves = named(certificates, name, default)
        values = [class_probability(y_true, each) for each in curves.values()]
        return cls(values, list(curves), describe_setting(curves.values())).plot(ax=ax, **kwargs)

    def plot(
        self, ax: Any = None, *, name: str | Sequence[str] | None = None, kind: str = "curve", **kwargs: Any
    ) -> ClassProbabilityDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        name : str or sequence of str, optional
            Names of the models, in place of the stored ones.
        kind : {"curve", "histogram"}, default="curve"
            The share of inputs with at least a probability, or with a probability in each twentieth.
        **kwargs : dict
            For matplotlib's ``step`` or ``stairs``, all models alike.

        Returns
        -------
        ClassProbabilityDisplay
        """
        check_choice("kind", kind, ("curve", "histogram"))
        ax = self._axes(ax)
        names = self.names if name is None else [name] if isinstance(name, str) else list(name)
        if len(names) != len(self.values):
            raise ValueError(f"name must give one name for each of the {len(self.values)} models, got {names!r}.")
        self.lines_: list[Any] = []
        self.patches_: list[Any] = []
        for values, label in zip(self.values, names, strict=True):
            style = {"label": label, **kwargs} if label else dict(kwargs)
            if kind == "curve":
                # Left of a value all inputs that reach it count, right of it they do not.
                places = np.concatenate([[0.0], np.sort(values), [1.0]])
                share = 1.0 - np.concatenate([[0.0], np.arange(len(values)) / len(values), [1.0]])
                self.lines_.extend(ax.step(places, share, where="pre", **style))
            else:
                counts, edges = np.histogram(values, bins=20, range=(0.0, 1.0))
                self.patches_.append(ax.stairs(counts / len(values), edges, **style))
        label = "share of inputs with at least that" if kind == "curve" else "share of inputs"
        ax.set(xlabel=with_setting("probability of the class under noise", self.setting), ylabel=label, xlim=(0.0, 1.0))
        ax.set_ylim(bottom=0.0, top=1.0 if kind == "curve" else None)
        if any(names):
            self._legend()
        return self
