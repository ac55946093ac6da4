"""Certifiers by name, as files keep them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tallies._stored import UnknownKind
from ._base import BaseCertifier

FUNCTION = "function "
"""Marks a parameter that was a function: it cannot be called from a file."""


def certifier_name(certifier: type) -> str:
    """Return the name by which a certifier is found again."""
    return f"{certifier.__module__}.{certifier.__qualname__}"


def find_certifier(name: str, params: Mapping[str, Any]) -> BaseCertifier:
    """Return the certifier of a run, found by name among those that are loaded."""
    kinds: list[Any] = [BaseCertifier]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
        if certifier_name(kind) == name:
            # What a function gave is stored; it is not called again.
            known: dict[str, Any] = {k: _not_called if str(v).startswith(FUNCTION) else v for k, v in params.items()}
            certifier: BaseCertifier = kind(**known)
            return certifier
    raise UnknownKind(f"The file needs the certifier {name}, which is not imported. Import its module first.")


def _not_called(*arguments: Any) -> Any:
    raise RuntimeError("A function given to the certifier is not part of the file.")
