"""A short text that stands for the content of a model or of data.

Equal content gives equal text in every process and on every day; this is what lets a journal tell whether it belongs to
the run at hand. joblib's hasher does most of it. What is made canonical here: arrays count by their numbers (not by
their place in memory, nor by the padding between fields), search trees without the counters of their use, frozen sets
by their sorted members, functions without an importable name by their code, torch modules by their layers and numbers.
"""

from __future__ import annotations

import hashlib
import sys
import types
from typing import Any

import numpy as np
from joblib.hashing import NumpyHasher


def fingerprint(content: Any) -> str:
    """Text that depends on the content of an object alone."""
    try:
        return _ContentHasher(hash_name="sha256").hash(content)
    except Exception as error:  # whatever an object's own pickling raises
        raise TypeError(
            f"The estimator must be picklable to be recognised by a journal, got an error: {error}. "
            "Define its functions and classes in a module, or certify without a journal."
        ) from error


class _ContentHasher(NumpyHasher):
    def save(self, obj: Any) -> None:
        super().save(_canonical(obj))


def _canonical(obj: Any) -> Any:
    """What is hashed in place of an object; most objects stand for themselves."""
    if isinstance(obj, np.ndarray) and not obj.dtype.hasobject:
        if obj.dtype.names:
            return ("fields", obj.shape, [(name, np.asarray(obj[name])) for name in obj.dtype.names])
        numbers = np.ascontiguousarray(obj).reshape(-1).view(np.uint8)
        return ("array", obj.dtype.str, obj.shape, hashlib.sha256(numbers.data).hexdigest())
    if type(obj).__name__.startswith(("KDTree", "BallTree")) and hasattr(obj, "get_arrays"):
        return (type(obj).__name__, obj.get_arrays())  # the rest of its state are counters of its use
    if isinstance(obj, frozenset):
        return ("frozenset", set(obj))
    if isinstance(obj, types.FunctionType) and not _is_importable(obj):
        cells = [cell.cell_contents for cell in obj.__closure__ or ()]
        return ("function", _code(obj.__code__), obj.__defaults__, obj.__kwdefaults__, cells)
    torch = sys.modules.get("torch")
    if torch is not None:
        if isinstance(obj, torch.nn.Module):
            return _module(obj)
        if isinstance(obj, torch.Tensor):
            flat = obj.detach().cpu().contiguous().reshape(-1)
            return ("tensor", str(obj.dtype), tuple(obj.shape), flat.view(torch.uint8).numpy())
        if isinstance(obj, torch.device | torch.dtype):
            return ("torch", str(obj))
    return obj


def _is_importable(function: types.FunctionType) -> bool:
    if function.__module__ == "__main__":
        return False  # a script may be edited between two runs
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _code(code: types.CodeType) -> tuple[Any, ...]:
    constants = [_code(c) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    return code.co_code, constants, code.co_names, code.co_varnames


def _module(module: Any) -> list[Any]:
    """Class, settings and numbers of every layer. Whether it is in training mode does not count: votes are cast in
    evaluation mode."""
    layers = []
    for name, layer in module.named_modules():
        settings = {
            key: value if _is_plain(value) else type(value).__qualname__
            for key, value in vars(layer).items()
            if key != "training" and not key.startswith("_")
        }
        numbers = {**layer._parameters, **layer._buffers}
        kind = f"{type(layer).__module__}.{type(layer).__qualname__}"
        layers.append((name, kind, settings, numbers))
    return layers


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(_is_plain(item) for pair in value.items() for item in pair)
    torch = sys.modules["torch"]
    kinds = (
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        type(None),
        np.ndarray,
        np.generic,
        types.FunctionType,
        torch.Tensor,
    )
    return isinstance(value, kinds)
