"""Certified accuracy against the radius."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._certificates import Certificates
from .._pipelines import certify
from .._validation import FloatArray
from ..certifiers import BaseCertifier
from ..metrics._asked import warn_if_not_asked
from ..metrics._scores import accuracy_curve
from ._common import Display, certifier_name, certify_with, describe_norm, describe_setting, named, with_setting


class CertifiedAccuracyDisplay(Display):
    """Certified accuracy against the radius, as one or several curves.

    Made by `from_estimator` or `from_certificates`.

    Parameters
    ----------
    radii : sequence of ndarray
        Radii of each curve.
    accuracy : sequence of ndarray
        Certified accuracy at those radii.
    abstention : sequence of float
        Share of inputs about which nothing was proved, one number for each curve.
    names : sequence of str or None
        Names of the curves.
    space : str, default="input"
        Where the radii live.
    norm : str, default="Euclidean norm"
        How they are measured.
    setting : str, default=""
        What the curves have in common, shown below the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
        The curves.
    abstention_lines_ : list of matplotlib Line2D
        Marks on the left edge at one minus the share of abstentions: no classifier that abstains as often can be
        above. Empty if they are not shown.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from smoothcert import Certificates
    >>> from smoothcert.plotting import CertifiedAccuracyDisplay
    >>> first = Certificates([0, 1, 1], [0.4, 0.1, 0.0], [False, False, True])
    >>> second = Certificates([0, 1, 1], [0.5, 0.1, 0.0], [False, False, True])
    >>> display = CertifiedAccuracyDisplay.from_certificates([0, 1, 1], {"first": first, "second": second})
    >>> display.abstention
    [0.3333333333333333, 0.3333333333333333]
    >>> display.lines_[1].get_xdata()
    array([0. , 0.1, 0.5, 0.5])
    """

    def __init__(
        self,
        radii: Sequence[FloatArray],
        accuracy: Sequence[FloatArray],
        abstention: Sequence[float],
        names: Sequence[str | None],
        space: str = "input",
        norm: str = "Euclidean norm",
        setting: str = "",
    ) -> None:
        self.radii = radii
        self.accuracy = accuracy
        self.abstention = abstention
        self.names = names
        self.space = space
        self.norm = norm
        self.setting = setting

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        certifiers: Mapping[str, BaseCertifier] | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> CertifiedAccuracyDisplay:
        """Certify and draw.

        Parameters
        ----------
        estimator : fitted estimator, or mapping of str to fitted estimators
            Whatever `smoothcert.certify` takes. Several, for example with different `sigma`, give one curve each.
        X, y : array-like
            Inputs and true labels.
        certifiers : mapping of str to certifiers, optional
            To be tried in turn on a single estimator in place of its own.
        name : str, optional
            Name of a single curve; by default that of the certifier.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        CertifiedAccuracyDisplay
        """
        certificates: Certificates | dict[str, Certificates]
        if certifiers is None and isinstance(estimator, Mapping):
            certificates = {key: certify(each, X) for key, each in estimator.items()}
        elif certifiers is None:
            certificates = certify(estimator, X)
        elif isinstance(estimator, Mapping):
            raise ValueError(
                "estimator must be a single one when certifiers are given, got several. Draw one at a time."
            )
        else:
            certificates = {key: certify_with(estimator, X, each) for key, each in certifiers.items()}
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
    ) -> CertifiedAccuracyDisplay:
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
        CertifiedAccuracyDisplay
        """
        default = certifier_name(certificates) if isinstance(certificates, Certificates) else None
        curves = named(certificates, name, default)
        points = [accuracy_curve(y_true, each) for each in curves.values()]
        warn_if_not_asked("A curve of certified accuracy", curves.values())
        spaces = {each.space for each in curves.values()}
        if len(spaces) > 1:
            raise ValueError(
                f"Certificates on one axis must have radii in the same space, got {sorted(spaces)}. Draw them on "
                "separate axes."
            )
        display = cls(
            [radii for radii, _ in points],
            [accuracy for _, accuracy in points],
            [float(np.mean(each.abstained)) for each in curves.values()],
            list(curves),
            spaces.pop(),
            describe_norm(curves.values()),
            describe_setting(curves.values()),
        )
        return display.plot(ax=ax, **kwargs)

    def plot(
        self, ax: Any = None, *, name: str | Sequence[str] | None = None, abstention: bool = True, **kwargs: Any
    ) -> CertifiedAccuracyDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        name : str or sequence of str, optional
            Names of the curves, in place of the stored ones.
        abstention : bool, default=True
            Mark the share of inputs that were not abstained from, and name the share of abstentions in the legend.
        **kwargs : dict
            For matplotlib's ``step``, all curves alike.

        Returns
        -------
        CertifiedAccuracyDisplay
        """
        ax = self._axes(ax)
        names = self.names if name is None else [name] if isinstance(name, str) else list(name)
        if len(names) != len(self.radii):
            raise ValueError(f"name must give one name for each of the {len(self.radii)} curves, got {names!r}.")
        self.lines_: list[Any] = []
        self.abstention_lines_: list[Any] = []
        for radii, accuracy, abstained, label in zip(self.radii, self.accuracy, self.abstention, names, strict=True):
            parts = [label] if label else []
            if abstention:
                parts.append(f"{100 * abstained:.3g}% abstained")
            style = {"label": ", ".join(parts), **kwargs} if parts else dict(kwargs)
            # Beyond the last radius nothing is certified: the curve ends on the axis.
            line = ax.step(np.append(radii, radii[-1]), np.append(accuracy, 0.0), where="pre", **style)[0]
            self.lines_.append(line)
            if abstention:
                mark = ax.plot([0.0], [1.0 - abstained], marker=5, ms=8, c=line.get_color(), clip_on=False, zorder=3)
                self.abstention_lines_.append(mark[0])
        where = self.norm if self.space == "input" else f"{self.norm}, in {self.space}"
        label = with_setting(f"radius of the perturbation ({where})", self.setting)
        ax.set(xlabel=label, ylabel="share of inputs, right and certified", ylim=(0.0, 1.0))
        ax.set_xlim(left=0.0)
        if any(names) or abstention:
            title = "marks on the left: not abstained" if abstention else None
            self._legend(title=title, title_fontsize="small", alignment="left")
        return self
