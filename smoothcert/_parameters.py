"""Parameter constraints, declared once and checked at use.

An estimator lists its parameters with a rule each; `check_parameters` refuses the first value that breaks its rule,
with the name, the rule, the value and a cure. Parameters may be set after `fit`, so rules are checked whenever values
are used.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rule:
    """What a parameter must be.

    Attributes
    ----------
    text : str
        Completes the sentence "`name` must be ...".
    holds : callable
        Whether a value keeps the rule.
    cure : str
        What to do about a value that does not.
    """

    text: str
    holds: Callable[[Any], bool]
    cure: str


def integer(least: int, cure: str) -> Rule:
    """Return a rule that accepts integers of at least `least`."""
    return Rule(f"an integer of at least {least}", lambda value: _is_integer(value) and value >= least, cure)


def any_integer(cure: str) -> Rule:
    """Return a rule that accepts integers, booleans included."""
    return Rule("an integer", lambda value: isinstance(value, numbers.Integral), cure)


def positive(cure: str) -> Rule:
    """Return a rule that accepts positive finite numbers."""
    return Rule("a positive finite number", lambda value: _is_real(value) and 0 < float(value) < np.inf, cure)


def not_negative(cure: str) -> Rule:
    """Return the rule of a finite number of at least 0."""
    return Rule("a finite number of at least 0", lambda value: _is_real(value) and 0 <= float(value) < np.inf, cure)


def fraction(cure: str) -> Rule:
    """Return a rule that accepts numbers strictly between 0 and 1."""
    return Rule("a number in (0, 1)", lambda value: _is_real(value) and 0.0 < float(value) < 1.0, cure)


def one_of(*choices: Any) -> Rule:
    """Return a rule that accepts one of a few values."""

    def holds(value: Any) -> bool:
        return any(value is choice or (isinstance(value, str) and value == choice) for choice in choices)

    return Rule(f"one of {choices}", holds, "Choose from these.")


def optional(rule: Rule) -> Rule:
    """Return a rule that None keeps too."""
    return Rule(f"None or {rule.text}", lambda value: value is None or rule.holds(value), rule.cure)


def check_parameters(owner: Any, rules: Mapping[str, Rule]) -> None:
    """Refuse the first parameter of an estimator that breaks its rule."""
    for name, rule in rules.items():
        value = getattr(owner, name)
        if not rule.holds(value):
            cure = rule.cure
            if isinstance(value, float) and value.is_integer() and "integer" in rule.text:
                cure = f"Write {int(value)}. {cure}"
            raise ValueError(f"{name} must be {rule.text}, got {value!r}. {cure}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
