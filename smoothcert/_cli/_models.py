"""Models from files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any


def load_model(path: str, trust_joblib: bool, trusted: list[str]) -> Any:
    """Return the model in a file of skops or, if that is trusted, of joblib.

    Parameters
    ----------
    path : str
    trust_joblib : bool
        Whether a file that runs code may be loaded.
    trusted : list of str
        Types in a file of skops that are trusted beyond the usual ones.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"MODEL must be a file, got {path!r}, which does not exist.")
    if _is_skops(file):
        return _load_skops(file, trusted)
    if not trust_joblib:
        raise ValueError(
            f"MODEL must be a skops file, got {path!r}. Save the model with skops.io.dump(model, 'model.skops'). "
            "Loading a joblib or pickle file can run any code; if you trust the author of this file, add "
            "--trust-joblib."
        )
    import joblib

    try:
        return joblib.load(file)
    except Exception as error:
        raise ValueError(
            f"MODEL could not be loaded by joblib from {path!r}: {type(error).__name__}: {error}"
        ) from error


def _is_skops(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return "schema.json" in file.namelist()


def _load_skops(path: Path, trusted: list[str]) -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            f"MODEL {str(path)!r} is a skops file, and skops is not installed: pip install skops."
        ) from error
    # What this package defines is as trusted as the package that is running.
    known = [*trusted, *_own_types()]
    others = sorted(set(skops.io.get_untrusted_types(file=path)) - set(known))
    if others:
        raise ValueError(
            f"MODEL {str(path)!r} contains types that are not trusted: {', '.join(others)}. If you trust them, add "
            f"--trust {' '.join(others)}."
        )
    return skops.io.load(path, trusted=known)


def _own_types() -> list[str]:
    import smoothcert
    from smoothcert import training

    own = [getattr(smoothcert, name) for name in smoothcert.__all__]
    kinds = [f"smoothcert.{kind.__qualname__}" for kind in own if isinstance(kind, type)]
    return [*kinds, *(f"smoothcert.training.{name}" for name in training.__all__)]
