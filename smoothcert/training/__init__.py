"""Training under noise: the base model should see what it will vote on.

The recipes are imported when they are first asked for, because they need torch and ``import smoothcert`` must not load
it. So the file of a recipe imports torch at its top and reads like the paper it comes from, and a program without
torch never meets it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._base import BaseRecipe

if TYPE_CHECKING:
    from ._certified_accuracy import CertifiedAccuracy
    from ._consistency import Consistency
    from ._gaussian_noise import GaussianNoise
    from ._macer import MACER
    from ._smoothadv import SmoothAdv
    from ._smoothmix import SmoothMix
    from ._step import TrainingStep

__all__ = [
    "MACER",
    "BaseRecipe",
    "CertifiedAccuracy",
    "Consistency",
    "GaussianNoise",
    "SmoothAdv",
    "SmoothMix",
    "TrainingStep",
]

_FILES = {
    "CertifiedAccuracy": "_certified_accuracy",
    "Consistency": "_consistency",
    "GaussianNoise": "_gaussian_noise",
    "MACER": "_macer",
    "SmoothAdv": "_smoothadv",
    "SmoothMix": "_smoothmix",
    "TrainingStep": "_step",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f".{_FILES[name]}", __name__)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "skorch"):
            raise
        raise ImportError(f"{name} needs torch and skorch; install smoothcert[torch].") from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
