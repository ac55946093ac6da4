"""What a certifier is.

It says how many samples it wants and how they are paired, makes the tally they are counted in, turns a tally into
confidence limits, and limits into radii. It never sees inputs, models or sigma. A certifier is one file: subclass
`BaseCertifier`, write `new_tally`, `infer` and `radius`, and export it.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator

from .._parameters import Rule, check_parameters, integer
from .._validation import FloatArray, check_level
from ..tallies import IntArray, Tally

AGAINST = ("rivals", "half")
"""What a class can be compared with: every other class, or one half of the votes."""


@dataclass(frozen=True)
class Inference:
    """Radii, and the confidence limits they follow from.

    Attributes
    ----------
    radius : ndarray of shape (n_rows,)
        Certified radius in units of sigma; 0 where nothing is certified.
    limits : mapping of str to ndarray
        The confidence limits it was computed from.
    """

    radius: FloatArray
    limits: Mapping[str, FloatArray]


@dataclass(frozen=True)
class Pilot:
    """Samples with separate noise, from which a plan is made before the estimation.

    Attributes
    ----------
    n_samples : int
        How many of the certifier's samples it takes.
    new_tally : callable
        Makes an empty tally, called like `BaseCertifier.new_tally` with the plan of the pilot before.
    plan : callable
        Turns the tally into plans: something with one entry for each row, that can be indexed by row.
    observes : {"votes", "gradients"} or callable
        What the tally is updated with: noise and votes; input gradients and votes; or, when it is a callable of the
        inputs and candidate labels, the one direction it gives for each row, as a unit vector, with a vote for no
        class.
    needed : callable, optional
        Whether a row with a given plan needs this pilot; its samples go to the estimation if not.
    """

    n_samples: int
    new_tally: Callable[..., Tally]
    plan: Callable[[Any], Any]
    observes: Literal["votes", "gradients"] | Callable[..., Any] = "votes"
    needed: Callable[[Any], bool] | None = None


@dataclass(frozen=True)
class Screen:
    """A cheaper certifier that is tried first if radii are asked for, with separate noise.

    Attributes
    ----------
    certifier : BaseCertifier
        Its looks are at up to its `n_samples`, without selection and without pilots.
    part : float
        Part of `alpha` that its looks share equally; the rest is left for the certifier itself.
    """

    certifier: BaseCertifier
    part: float = 0.1


class BaseCertifier(BaseEstimator, ABC):
    """Base class of all certifiers.

    Parameters
    ----------
    n_samples : int, default=100_000
        Noisy copies of each input in the estimation.
    n_selection : int, default=100
        Noisy copies that choose the candidate class, drawn on their own.
    alpha : float, default=0.001
        Probability that the certificate of an input is wrong.
    """

    pairing: ClassVar[Literal["antithetic"] | None] = None
    """``"antithetic"``: each draw of noise is used on both sides of the input, so `n_samples` must be even."""

    tally_type: ClassVar[type[Tally]]
    """The kind of evidence it certifies."""

    against: str = "half"
    """What the radius speaks about: ``"half"``, the class keeps more than half of the votes; ``"rivals"``, it keeps
    more votes than any other class."""

    upper_limits: ClassVar[frozenset[str]] = frozenset()
    """Names of the limits that bound from above; all others bound from below. They are rounded accordingly where they
    are shown."""

    reach: ClassVar[float] = 1.3
    """How many times the first-order radius it may be hoped to certify. An input whose votes promise less than an asked
    radius by more than this factor is given up early; it does not enter any proof."""

    @property
    def n_edges(self) -> int:
        """Edges of bins into which its tallies put projections of the noise. Exact noise allows for numbers that are
        too close to one of them to be told apart."""
        return 0

    def __init__(self, n_samples: int = 100_000, n_selection: int = 100, alpha: float = 0.001) -> None:
        self.n_samples = n_samples
        self.n_selection = n_selection
        self.alpha = alpha

    def pilots(self, gradients: bool) -> Sequence[Pilot]:
        """Return the pilots, run one after the other on samples taken from `n_samples`; none by default.

        Parameters
        ----------
        gradients : bool
            Whether the base can be asked for input gradients.
        """
        return ()

    def for_looks(self, gradients: bool) -> BaseCertifier:
        """Return the certifier to use where radii are asked for and most inputs are decided by few samples; by default
        this one.

        Parameters
        ----------
        gradients : bool
            Whether the base can be asked for input gradients.
        """
        return self

    def without_designs(self) -> BaseCertifier:
        """Return the certifier to use where noise cannot be designed, as exact noise; by default this one."""
        return self

    def screen(self) -> Screen | None:
        """Return a cheaper certificate to try first where radii are asked for; none by default."""
        return None

    def at_level(self, alpha: float) -> Self:
        """Return a copy with another error probability; the certifier itself stays as it is."""
        other = copy(self)
        other.alpha = alpha
        return other

    @abstractmethod
    def new_tally(self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None) -> Tally:
        """Return an empty tally for inputs with `n_features` numbers each and the given candidate classes."""

    @abstractmethod
    def infer(self, tally: Any) -> dict[str, FloatArray]:
        """Return the confidence limits that the radius is computed from.

        All of them hold together with probability at least ``1 - alpha``. Where there is one limit for each rival, it
        is enough that those of the class and of any single rival do: only the rival that overtakes first matters.
        """

    @abstractmethod
    def radius(self, limits: Mapping[str, FloatArray]) -> FloatArray:
        """Return the radius in units of sigma that the limits prove."""

    def certify_tally(self, tally: Tally) -> Inference:
        """Return radii and confidence limits for a tally, wherever it was counted.

        Parameters
        ----------
        tally : Tally
            Of the kind in `tally_type`.

        Returns
        -------
        Inference
        """
        self.check_params()
        if not isinstance(tally, self.tally_type):
            raise TypeError(
                f"tally must be a {self.tally_type.__name__} for {type(self).__name__}, got {type(tally).__name__}. "
                f"Build one with {self.tally_type.__name__}(...) from smoothcert.tallies."
            )
        limits = self.infer(tally)
        return Inference(np.atleast_1d(self.radius(limits)), MappingProxyType(limits))

    _rules: ClassVar[Mapping[str, Rule]] = {
        "n_samples": integer(2, "Certificates want about 100_000."),
        "n_selection": integer(1, "100 are usually enough to find the class."),
    }

    def check_params(self) -> None:
        """Refuse parameters that make no sense, whenever they were set."""
        check_parameters(self, self._rules)
        if not isinstance(self.alpha, numbers.Real) or isinstance(self.alpha, bool):
            raise ValueError(f"alpha must be a number in (0, 1), got {self.alpha!r}. 0.001 is typical.")
        check_level("alpha", float(self.alpha))
        if self.pairing == "antithetic" and self.n_samples % 2:
            raise ValueError(
                f"n_samples must be even for {type(self).__name__}, which samples in pairs, got {self.n_samples}. "
                f"Use {self.n_samples + 1}."
            )
