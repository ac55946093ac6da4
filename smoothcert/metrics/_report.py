"""A report of certificates by class, as text, as numbers and for notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from .._certificates import Certificates, round_digits
from .._validation import BoolArray, FloatArray, check_interval
from ._asked import warn_if_not_asked
from ._scores import _certified_right, _checked, as_labels

_MOST_STEPS = 4
"""Radii above 0 in a report, at most, where none are given."""


@dataclass(frozen=True)
class ReportRow:
    """What a report says about the inputs of one class, or about all of them.

    Attributes
    ----------
    name : str
        Label of the class, or ``"overall"``.
    support : int
        Number of inputs.
    right : int or None
        Inputs whose predicted class is the true one, certified or not; None if true labels are not known.
    certified : tuple of int
        Inputs that are right and certified, for each radius.
    median_radius : float or None
        Median of the radii, counted as 0 where the prediction is wrong or nothing is certified; None if radii were
        asked for, as sampling then ends before radii are as large as they could be.
    abstained : int
        Inputs about which nothing was proved.
    """

    name: str
    support: int
    right: int | None
    certified: tuple[int, ...]
    median_radius: float | None
    abstained: int

    def to_dict(self, radii: Sequence[float]) -> dict[str, Any]:
        """Return the numbers as shares."""
        shares = [count / self.support for count in self.certified]
        accuracy = {} if self.right is None else {"accuracy": self.right / self.support}
        numbers = {
            "support": self.support,
            **accuracy,
            "certified_accuracy": dict(zip(radii, shares, strict=True)),
            "abstained": self.abstained / self.support,
        }
        return numbers if self.median_radius is None else {**numbers, "median_radius": self.median_radius}

    def cells(self) -> list[str]:
        """Return the numbers as text that promises no more than they do."""
        counts = self.certified if self.right is None else (self.right, *self.certified)
        shares = [_share(count, self.support) for count in counts]
        median = [] if self.median_radius is None else [round_digits(self.median_radius, 3)]
        return [self.name, str(self.support), *shares, *median, _share(self.abstained, self.support, up=True)]


@dataclass(frozen=True)
class CertifiedReport:
    """Certificates by class and overall, as `certified_report` makes it; ``print`` shows it as a table.

    Attributes
    ----------
    radii : tuple of float
        Radii of the columns of certified accuracy.
    labels : tuple
        Labels of the classes.
    classes : tuple of ReportRow
        One for each of them.
    overall : ReportRow
    """

    radii: tuple[float, ...]
    labels: tuple[Any, ...]
    classes: tuple[ReportRow, ...]
    overall: ReportRow

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"classes": {label: numbers}, "overall": numbers}``, with shares as numbers from 0 to 1."""
        by_class = zip(self.labels, self.classes, strict=True)
        return {
            "classes": {label: row.to_dict(self.radii) for label, row in by_class},
            "overall": self.overall.to_dict(self.radii),
        }

    def header(self) -> list[str]:
        """Return the names of the columns."""
        radii = ["certified" if radius == 0.0 else f"at {radius:g}" for radius in self.radii]
        median = [] if self.overall.median_radius is None else ["median radius"]
        accuracy = [] if self.overall.right is None else ["accuracy"]
        return ["", "support", *accuracy, *radii, *median, "abstained"]

    def __str__(self) -> str:
        table = [self.header(), *(row.cells() for row in self.classes), self.overall.cells()]
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        return "\n".join([lines[0], "", *lines[1:-1], "", lines[-1]])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """Return the table in HTML."""
        head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in self.header())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{self._body()}</tbody></table>"

    def _body(self) -> str:
        lines = []
        for row in (*self.classes, self.overall):
            name, *cells = row.cells()
            numbers = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
            last = ' class="overall"' if row is self.overall else ""
            lines.append(f'<tr{last}><th scope="row">{html.escape(name)}</th>{numbers}</tr>')
        return "".join(lines)


@overload
def certified_report(
    y_true: ArrayLike | None,
    certificates: Certificates,
    *,
    radii: ArrayLike | None = ...,
    output_dict: Literal[False] = ...,
) -> CertifiedReport: ...


@overload
def certified_report(
    y_true: ArrayLike | None, certificates: Certificates, *, radii: ArrayLike | None = ..., output_dict: Literal[True]
) -> dict[str, Any]: ...


def certified_report(
    y_true: ArrayLike | None, certificates: Certificates, *, radii: ArrayLike | None = None, output_dict: bool = False
) -> CertifiedReport | dict[str, Any]:
    """Report accuracy and certified accuracy by class, like scikit-learn's `classification_report`.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        True labels, of any kind. None takes those that the certificates have. If they have none, inputs are grouped by
        their predicted class, accuracy is left out, and certified is what is certified, right or not.
    certificates : Certificates
    radii : array-like, optional
        Radii at which certified accuracy is reported, in the units of the certificates. By default those that were
        asked for; otherwise 0 and the multiples of a round step (1, 2, 2.5 or 5 times a power of ten) up to the largest
        radius of a right prediction, at most four of them.
    output_dict : bool, default=False
        Return a dictionary.

    Returns
    -------
    CertifiedReport or dict
        For each class, and overall: ``support``, the number of inputs; ``accuracy``, the share whose predicted class is
        right, certified or not; the share that is right and certified at each radius, at 0 any; the median radius,
        counted as 0 where nothing is certified or the prediction is wrong; the share of abstentions. Without
        `output_dict` it is an object that prints as a table, shares rounded down and abstentions up, and is shown as
        HTML in notebooks; its method `to_dict` has the numbers.

    Examples
    --------
    >>> from smoothcert import Certificates
    >>> from smoothcert.metrics import certified_report
    >>> certificates = Certificates(["cat", "cat", "dog", "dog"], [0.4, 0.1, 0.0, 0.25], [False, False, True, False])
    >>> certified_report(["cat", "dog", "dog", "dog"], certificates, radii=[0, 0.25])
             support  accuracy  certified  at 0.25  median radius  abstained
    <BLANKLINE>
        cat        1     1.000      1.000    1.000            0.4      0.000
        dog        3     0.666      0.333    0.333            0.0      0.334
    <BLANKLINE>
    overall        4     0.750      0.500    0.500          0.125      0.250
    """
    truth = _checked(certificates).label if y_true is None else y_true
    labels = certificates.prediction if truth is None else as_labels(truth)
    certified = _certified_right(labels, certificates)
    points = _default_radii(certificates, certified) if radii is None else _checked_radii(radii)
    asked = certificates.asked_radii
    warn_if_not_asked("Certified accuracy in a report", [certificates], points.tolist())
    right = np.asarray(certificates.prediction == labels)
    names = np.unique(labels)

    def row(name: str, which: BoolArray) -> ReportRow:
        counted = np.where(certified, certificates.radius, 0.0)[which]
        return ReportRow(
            name=name,
            support=int(which.sum()),
            right=None if truth is None else int(right[which].sum()),
            certified=tuple(int(np.sum(certified[which] & (counted >= radius))) for radius in points),
            median_radius=None if asked is not None else float(np.median(counted)),
            abstained=int(certificates.abstained[which].sum()),
        )

    report = CertifiedReport(
        radii=tuple(points.tolist()),
        labels=tuple(names.tolist()),
        classes=tuple(row(str(name), np.asarray(labels == name)) for name in names),
        overall=row("overall", np.ones(len(labels), dtype=bool)),
    )
    return report.to_dict() if output_dict else report


def _checked_radii(radii: ArrayLike) -> FloatArray:
    points = np.atleast_1d(check_interval("radii", radii, lower=0.0, cure="Give distances."))
    if points.ndim != 1 or len(points) == 0:
        raise ValueError(f"radii must be a sequence of numbers, got {radii!r}. Give distances, for example [0, 0.25].")
    return np.unique(points)


def _default_radii(certificates: Certificates, certified: BoolArray) -> FloatArray:
    if certificates.asked_radii is not None:
        return np.array(certificates.asked_radii)
    reached = certificates.radius[certified & np.isfinite(certificates.radius)]
    most = float(reached.max(initial=0.0))
    if most == 0.0:
        return np.zeros(1)
    power = 10.0 ** np.floor(np.log10(most / _MOST_STEPS))
    step = next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if most < (_MOST_STEPS + 1) * factor * power)
    return np.array([float(f"{k * step:.6g}") for k in range(int(most / step) + 1)])


def _share(count: int, of: int, up: bool = False) -> str:
    """Return a share with three decimals, rounded down, or up; computed with integers, so that 0.58 stays 0.58."""
    thousandths = -(-1000 * count // of) if up else 1000 * count // of
    return f"{thousandths // 1000}.{thousandths % 1000:03d}"
