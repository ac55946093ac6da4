"""A short text that stands for the content of a model or of data.

Equal content gives equal text in every process and on every day; this is what lets a journal tell whether it belongs to
its run. joblib's hasher does most of it. What is made canonical here: arrays count by their numbers (not by
their place in memory, nor by the padding between fields), search trees without the counters of their use, frozen sets
by their sorted members, functions and classes without an importable name by their code and what it uses, torch modules
by all that their output depends on: layers, numbers, hooks and every other attribute, whatever its name. What has no
content that can be read is refused: an address or the name of a type says nothing about what votes.
"""

from __future__ import annotations

import builtins
import dis
import hashlib
import sys
import types
import weakref
from typing import Any

import numpy as np
from joblib.hashing import NumpyHasher


def fingerprint(content: Any) -> str:
    """Return a text that depends on the content of an object alone."""
    try:
        text: str = _ContentHasher(hash_name="sha256").hash(content)
        return text
    except Exception as error:  # whatever an object's own pickling raises
        raise TypeError(
            f"The estimator must be picklable to be recognised by a journal, got an error: {error}. "
            "Define its functions and classes in a module, remove objects that cannot be pickled from its attributes "
            "and hooks, or certify without a journal."
        ) from error


class _ContentHasher(NumpyHasher):
    def __init__(self, hash_name: str) -> None:
        super().__init__(hash_name=hash_name)
        self._numbers: dict[int, int] = {}

    def save(self, obj: Any) -> None:
        if _is_module(obj) or _has_own_code(obj):
            # Their content may lead back to them: a hook may be a method of the layer it hooks.
            if id(obj) in self._numbers:
                super().save(("seen before", self._numbers[id(obj)]))
                return
            self._numbers[id(obj)] = len(self._numbers)
        super().save(_canonical(obj))


def _canonical(obj: Any) -> Any:
    """Return what is hashed in place of an object; most objects stand for themselves."""
    if isinstance(obj, np.ndarray) and not obj.dtype.hasobject:
        if obj.dtype.names:
            return ("fields", obj.shape, [(name, np.asarray(obj[name])) for name in obj.dtype.names])
        numbers = np.ascontiguousarray(obj).reshape(-1).view(np.uint8)
        return ("array", obj.dtype.str, obj.shape, hashlib.sha256(numbers.data).hexdigest())
    if type(obj).__name__.startswith(("KDTree", "BallTree")) and hasattr(obj, "get_arrays"):
        return (type(obj).__name__, obj.get_arrays())  # the rest of its state are counters of its use
    if isinstance(obj, frozenset):
        return ("frozenset", set(obj))
    if isinstance(obj, type) and obj.__module__ == "builtins" and not hasattr(builtins, obj.__name__):
        return ("type", obj.__name__)  # that of None for example, which no module names
    if isinstance(obj, types.ModuleType):
        return ("import", obj.__name__)
    if isinstance(obj, weakref.ref):
        raise TypeError(f"it contains a weak reference to {type(obj()).__qualname__}, which has no content")
    if _has_own_code(obj):
        return _class(obj) if isinstance(obj, type) else _function(obj)
    torch = sys.modules.get("torch")
    if torch is not None:
        if isinstance(obj, torch.nn.Module):
            return _module(obj)
        if isinstance(obj, torch.Tensor):
            flat = obj.detach().cpu().contiguous().reshape(-1)
            return ("tensor", str(obj.dtype), tuple(obj.shape), flat.view(torch.uint8).numpy())
        if isinstance(obj, torch.device | torch.dtype):
            return ("torch", str(obj))
    skorch = sys.modules.get("skorch")
    if skorch is not None and isinstance(obj, skorch.NeuralNet):
        return net_content(obj)
    return obj


def net_content(net: Any) -> tuple[Any, ...]:
    """Return all that the answers of an initialised skorch net depend on; neither history nor optimiser do."""
    modules = [(name, getattr(net, f"{name}_", None)) for name in net._modules]
    settings = {name: getattr(net, name, None) for name in ("threshold", "predict_nonlinearity", "classes")}
    criterion = type(getattr(net, "criterion_", None))  # by which probabilities are made of outputs
    return ("net", type(net), settings, getattr(net, "classes_inferred_", None), criterion, modules)


def _is_module(obj: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.nn.Module)


def _has_own_code(obj: Any) -> bool:
    """Return whether an object is a function or class that is not found, unchanged, under its name in a module."""
    if not isinstance(obj, types.FunctionType | type):
        return False
    if obj.__module__ == "__main__":
        return True  # a script may be edited between two runs
    found: Any = sys.modules.get(obj.__module__)
    for part in obj.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is not obj and obj.__module__ != "builtins"


def _function(function: types.FunctionType) -> tuple[Any, ...]:
    code, known = function.__code__, function.__globals__
    outside = [(name, known[name]) for name in sorted(_global_names(code)) if name in known]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return ("function", _code(code), function.__defaults__, function.__kwdefaults__, cells, outside)


def _global_names(code: types.CodeType) -> set[str]:
    """Return the names that code and what is defined in it look up in the module around it."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    return names.union(*(_global_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))


def _code(code: types.CodeType) -> tuple[Any, ...]:
    constants = [_code(c) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    return code.co_code, constants, code.co_names, code.co_varnames


_UNRELATED = {
    "__module__",
    "__doc__",
    "__dict__",
    "__weakref__",
    "__annotations__",
    "__annotate__",
    "__annotate_func__",
    "__annotations_cache__",
    "__static_attributes__",
    "__firstlineno__",
    "__abstractmethods__",
    "_abc_impl",
    "__slotnames__",
}
"""What is in a class and does not say what its objects do."""


def _class(kind: type) -> tuple[Any, ...]:
    """Return what a class defines, and its bases."""
    members = [(name, _member(value)) for name, value in sorted(vars(kind).items()) if name not in _UNRELATED]
    return ("class", kind.__qualname__, members, list(kind.__bases__))


def _member(value: Any) -> Any:
    if isinstance(value, staticmethod | classmethod):
        return (type(value).__name__, value.__func__)
    if isinstance(value, property):
        return ("property", value.fget, value.fset, value.fdel)
    if isinstance(value, types.MemberDescriptorType):  # a slot
        return ("slot", value.__name__)
    return value


_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_HOOK_OPTIONS = ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
_APART = {"training", "_parameters", "_buffers", "_modules", *_HOOKS, *_HOOK_OPTIONS}
_WITHOUT_EFFECT = {
    # How a module is saved and loaded.
    "_non_persistent_buffers_set",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    # Bookkeeping of torch: a kind of hook, compiled code for what is there anyway, references to parameters.
    "_is_full_backward_hook",
    "_compiled_call_impl",
    "_flat_weights",
    "_flat_weight_refs",
}


def _module(module: Any) -> tuple[Any, ...]:
    """Return class, numbers, hooks, attributes and inner layers of a layer, in their order. Whether it is in training
    mode does not count: votes are cast in evaluation mode."""
    torch = sys.modules["torch"]
    if isinstance(module, torch.jit.ScriptModule):
        raise TypeError("a module compiled by torch.jit does not show its content; give the module it was made from")
    kind = type(module)
    if kind.__module__.startswith("torch._dynamo") and "_orig_mod" in module._modules:
        return ("compiled", module._orig_mod)  # the same function; the compiled code is made again in each process
    if torch.nn.utils.parametrize.is_parametrized(module):
        kind = torch.nn.utils.parametrize.type_before_parametrizations(module)  # the parametrizations are inner layers
    state = vars(module)
    numbers = [list(state[name].items()) for name in ("_parameters", "_buffers")]
    hooks = [
        (name, hook, [key in state.get(option, ()) for option in _HOOK_OPTIONS])
        for name in _HOOKS
        for key, hook in state.get(name, {}).items()
    ]
    attributes = {name: value for name, value in state.items() if name not in _APART | _WITHOUT_EFFECT}
    return ("module", kind, numbers, hooks, attributes, list(state["_modules"].items()))
