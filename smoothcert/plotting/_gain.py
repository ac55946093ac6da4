"""How much further a certificate reaches than a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._certificates import Certificates
from .._pipelines import certify
from .._validation import FloatArray, check_choice
from ..certifiers import BaseCertifier
from ..metrics import PAPER_EDGES, certificate_gain, gain_histogram
from ..metrics._scores import _certified_right
from ._common import Display, baseline_for, certifier_name, certify_with, describe_setting, with_setting

LESS, SAME, MORE = "#c0392b", "#555555", "#2471a3"


def gain_labels(edges: Sequence[float] = PAPER_EDGES) -> list[str]:
    """Return what each bin of `smoothcert.metrics.gain_histogram` holds, in words."""
    percent = [f"{100 * edge:+.3g}" for edge in edges]
    inner = [f"{low} to {high}%" for low, high in pairwise(percent)]
    return ["baseline only", f"below {percent[0]}%", *inner, f"above {percent[-1]}%", "new only"]


class CertificateGainDisplay(Display):
    """Relative change of certified radii against a baseline.

    Made by `from_estimator` or `from_certificates`. Inputs that neither certifies, or both misclassify, are left out.

    Parameters
    ----------
    gain : ndarray
        Relative change of the radius of each input, as from `smoothcert.metrics.certificate_gain`.
    baseline_radius, radius : ndarray
        The radii themselves, 0 where wrong or not certified.
    edges : sequence of float
        Limits of the bins.
    name : str or None
        What the new certificate is called.
    setting : str, default=""
        What both have in common, shown below the axis.

    Attributes
    ----------
    counts : ndarray of int
        Inputs in each bin, see `smoothcert.metrics.gain_histogram`.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer or None
        The histogram.
    points_ : matplotlib PathCollection or None
        The scatter plot.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from smoothcert import Certificates
    >>> from smoothcert.plotting import CertificateGainDisplay
    >>> baseline = Certificates([0, 1, 1, 0], [0.4, 0.2, 0.0, 0.0], [False, False, True, True])
    >>> better = Certificates([0, 1, 1, 0], [0.5, 0.2, 0.1, 0.0], [False, False, False, True])
    >>> display = CertificateGainDisplay.from_certificates([0, 1, 1, 0], baseline, better)
    >>> display.counts
    array([0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1])
    """

    def __init__(
        self,
        gain: FloatArray,
        baseline_radius: FloatArray,
        radius: FloatArray,
        edges: Sequence[float] = PAPER_EDGES,
        name: str | None = None,
        setting: str = "",
    ) -> None:
        self.gain = gain
        self.baseline_radius = baseline_radius
        self.radius = radius
        self.edges = edges
        self.name = name
        self.setting = setting
        self.counts = gain_histogram(gain, edges)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        baseline: BaseCertifier | None = None,
        edges: Sequence[float] = PAPER_EDGES,
        kind: str = "histogram",
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> CertificateGainDisplay:
        """Certify twice and compare.

        Both times noise is drawn, so changes contain the chance of the votes, several percent at a few thousand
        samples: a certificate compared with itself under another seed shows how much.

        Parameters
        ----------
        estimator : fitted estimator
            Whatever `smoothcert.certify` takes.
        X, y : array-like
            Inputs and true labels.
        baseline : certifier, optional
            By default the first-order certifier with as many samples as the estimator's own.
        edges : sequence of float, default=PAPER_EDGES
            Limits of the bins.
        kind : {"histogram", "scatter"}, default="histogram"
            What to draw.
        name : str, optional
            What the new certificate is called; by default after its certifier.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        CertificateGainDisplay
        """
        old = certify_with(estimator, X, baseline_for(estimator) if baseline is None else baseline)
        options = {"edges": edges, "kind": kind, "name": name, "ax": ax}
        return cls.from_certificates(y, old, certify(estimator, X), **options, **kwargs)

    @classmethod
    def from_certificates(
        cls,
        y_true: ArrayLike,
        baseline: Certificates,
        certificates: Certificates,
        *,
        edges: Sequence[float] = PAPER_EDGES,
        kind: str = "histogram",
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> CertificateGainDisplay:
        """Compare certificates that were made before.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels.
        baseline, certificates : Certificates
            Of the same inputs, in the same order.
        edges, kind, name, ax, **kwargs
            As in `from_estimator`.

        Returns
        -------
        CertificateGainDisplay
        """
        gain = certificate_gain(y_true, baseline, certificates)
        old, new = (np.where(_certified_right(y_true, c), c.radius, 0.0) for c in (baseline, certificates))
        name = certifier_name(certificates) if name is None else name
        setting = describe_setting([baseline, certificates])
        return cls(gain, old, new, edges, name, setting).plot(ax=ax, kind=kind, **kwargs)

    def plot(
        self, ax: Any = None, *, kind: str = "histogram", name: str | None = None, **kwargs: Any
    ) -> CertificateGainDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        kind : {"histogram", "scatter"}, default="histogram"
            The number of inputs in each bin, or one radius against the other.
        name : str, optional
            What the new certificate is called, in place of the stored name.
        **kwargs : dict
            For matplotlib's ``bar`` or ``scatter``.

        Returns
        -------
        CertificateGainDisplay
        """
        check_choice("kind", kind, ("histogram", "scatter"))
        ax = self._axes(ax)
        name = name or self.name or "new"
        self.bars_, self.points_ = None, None
        if kind == "histogram":
            places = np.arange(len(self.counts))
            middle = ["below", *[_sign(*pair) for pair in pairwise(self.edges)], "above"]
            shades = {"below": LESS, "same": SAME, "above": MORE}
            colours = [LESS, *[shades[side] for side in middle], MORE]
            self.bars_ = ax.bar(places, self.counts, **{"color": colours, "width": 0.85, **kwargs})
            ax.bar_label(self.bars_, fontsize="small", padding=1)
            ax.set_xticks(places, gain_labels(self.edges), rotation=45, ha="right", rotation_mode="anchor")
            ax.set(xlabel=with_setting("change of the certified radius", self.setting), ylabel="inputs")
            ax.margins(y=0.12)
        else:
            counted = ~np.isnan(self.gain) & np.isfinite(self.baseline_radius) & np.isfinite(self.radius)
            old, new = self.baseline_radius[counted], self.radius[counted]
            top = 1.05 * max(old.max(initial=0.0), new.max(initial=0.0), 1e-9)
            ax.axline((0.0, 0.0), slope=1.0, color=SAME, lw=1, zorder=1)
            self.points_ = ax.scatter(old, new, **{"s": 12, "alpha": 0.6, "color": MORE, "linewidths": 0, **kwargs})
            ax.set(xlim=(0.0, top), ylim=(0.0, top), ylabel=f"radius, {name}")
            ax.set_xlabel(with_setting("radius, baseline", self.setting))
            ax.set_aspect("equal")
        ax.set_title(f"{name}, {int(self.counts.sum())} inputs compared")
        return self


def _sign(low: float, high: float) -> str:
    return "below" if high <= 0.0 else "above" if low >= 0.0 else "same"
