"""What the displays share: axes to draw on, and certificates of one estimator by several certifiers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._certificates import Certificates
from .._pipelines import certify, find_smoothed, replace_certifier
from ..certifiers import BaseCertifier, FirstOrderCertifier


class Display:
    """Something drawn on axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Any
    figure_: Any
    _own_axes: bool = False

    def _axes(self, ax: Any, title: str | None = None) -> Any:
        """Return the axes given, or new ones; they are remembered."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("Plotting needs matplotlib; install smoothcert[plot].") from error
        self._own_axes = ax is None
        # Room is made for labels and for legends beside the axes.
        self.ax_ = plt.subplots(layout="constrained")[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        if title is not None:
            self.ax_.set_title(title)
        return self.ax_

    def _legend(self, **options: Any) -> None:
        """Add a legend: above the axes if they are new, and else where it covers least."""
        if self._own_axes:
            place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.01), "borderaxespad": 0.0, "frameon": False}
            options = {**place, **options}
        self.ax_.legend(**{"loc": "best", **options})


def describe_setting(several: Iterable[Certificates]) -> str:
    """Return what certificates have in common, for a label: the noise and the error probability."""
    known = list(several)
    parts = []
    for name, symbol in (("sigma", r"$\sigma$"), ("alpha", r"$\alpha$")):
        values = {
            each.provenance.get(name) if not isinstance(each.provenance.get(name), list) else None for each in known
        }
        if len(values) == 1 and (value := values.pop()):
            parts.append(f"{symbol} = {value:g}")
    if known and all(each.provenance.get("certifier") == "exact" for each in known):
        parts.append("exact")
    return ", ".join(parts)


def with_setting(label: str, setting: str) -> str:
    """Return a label with a second line, if there is something to say."""
    return f"{label}\n{setting}" if setting else label


def describe_norm(several: Iterable[Certificates]) -> str:
    """Return the norm in which radii are measured."""
    return "in units of each feature" if any(each.feature_scale is not None for each in several) else "Euclidean norm"


def certify_with(estimator: Any, X: Any, certifier: BaseCertifier) -> Certificates:
    """Certify by another certifier than the estimator's own, and leave the estimator as it is."""
    return certify(replace_certifier(estimator, certifier), X)


def baseline_for(estimator: Any) -> FirstOrderCertifier:
    """Return the first-order certifier with as many samples, and the same error probability, as the estimator's own."""
    own = find_smoothed(estimator).certifier
    shared = {} if own is None else {name: getattr(own, name) for name in ("n_samples", "n_selection", "alpha")}
    return FirstOrderCertifier(**shared)


def named(value: Any, name: str | None, default: str | None) -> dict[str | None, Any]:
    """Return a mapping of names to things as it is; a single thing under the name given."""
    if isinstance(value, Mapping):
        if not value:
            raise ValueError("A mapping must hold at least one item, got none. There is nothing to draw.")
        return dict(value)
    return {default if name is None else name: value}


def certifier_name(certificates: Certificates) -> str | None:
    """Return the class of the certifier, as a short name of a curve."""
    made_by = certificates.provenance.get("certifier")
    return None if made_by is None else str(made_by).partition("(")[0]
