"""What the displays share: axes to draw on, and certificates of one estimator by several certifiers."""

from __future__ import annotations

from collections.abc import Mapping
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

    def _axes(self, ax: Any, title: str | None = None) -> Any:
        """Return the axes given, or new ones; they are remembered."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("Plotting needs matplotlib; install smoothcert[plot].") from error
        self.ax_ = plt.subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        if title is not None:
            self.ax_.set_title(title)
        return self.ax_


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
