"""Certificates in files: arrays in a zip archive as numpy writes them, without pickle.

The member ``about`` is text in JSON. It declares every other member with its type and shape, and nothing is read that
differs from that, so a file cannot grow beyond what it declares.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..certifiers._lookup import FUNCTION, certifier_name, find_certifier
from ..tallies._stored import UnknownKind, rows_from_plain, rows_to_plain
from ._evidence import EvidencePart, StoredEvidence

if TYPE_CHECKING:
    from ._result import Certificates

FORMAT = 4
"""Version of the file format; raised when files written before can no longer be read."""

_MOST_TEXT = 2**26
"""Bytes of the member `about` at most: it holds settings, and some words for each array."""

_ROWS = ("radius", "abstained", "prediction", "samples_used", "stopped", "runner_up", "label", "index")
_LABELS = ("prediction", "label", "index", "classes")
"""Arrays that may hold text in objects."""

_KINDS = {
    "radius": "f",
    "abstained": "b",
    "samples_used": "iu",
    "runner_up": "iu",
    "stopped": "U",
    "feature_scale": "f",
}
"""Kinds of numbers that arrays must be of."""


def save(certificates: Certificates, path: str | Path) -> None:
    """Write certificates to a file, see `Certificates.save`."""
    arrays: dict[str, NDArray[Any]] = {"radius": certificates.radius, "abstained": certificates.abstained}
    objects = []
    for name in ("samples_used", "stopped", "runner_up", "feature_scale", *_LABELS):
        value = getattr(certificates, name)
        if value is None:
            continue
        if name in _LABELS:
            value, is_object = plain_index(value) if name == "index" else plain_labels(value)
            objects += [name] if is_object else []
        arrays[name] = value
    for group, values in (("limits", certificates.limits), ("counts", certificates.counts)):
        arrays.update({f"{group}/{name}": value for name, value in values.items()})
    about = {
        "format": FORMAT,
        "space": certificates.space,
        "upper_limits": sorted(certificates.upper_limits),
        "n_features": certificates.n_features,
        "provenance": dict(certificates.provenance),
        "objects": objects,
        "evidence": _evidence_to_plain(certificates.evidence, arrays),
    }
    about["arrays"] = {name: [value.dtype.str, list(value.shape)] for name, value in arrays.items()}
    text = json.dumps(about, default=plain_value)
    write_file(path, lambda file: np.savez_compressed(file, about=np.array(text), **arrays))  # type: ignore[arg-type]


def write_file(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file under another name beside `path`, and put it in its place once it is complete.

    What is at `path` is replaced; if it is a link, the link is, and not what it points to.
    """
    path = Path(path)
    beside = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    # A new file, and no link that somebody put there: O_EXCL refuses both.
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def load(kind: type[Certificates], path: str | Path) -> Certificates:
    """Read certificates from a file, see `Certificates.load`."""
    about, arrays = _read(Path(path))
    for name in about["objects"]:
        arrays[name] = arrays[name].astype(object)
    groups: dict[str, Any] = {"limits": {}, "counts": {}}
    for name, value in arrays.items():
        group, _, key = name.partition("/")
        if group in groups:
            groups[group][key] = value
    known: dict[str, Any] = {name: arrays[name] for name in (*_ROWS, "feature_scale", "classes") if name in arrays}
    try:
        return kind(
            **known,
            **groups,
            provenance=about["provenance"],
            space=about["space"],
            upper_limits=frozenset(about["upper_limits"]),
            n_features=about["n_features"],
            evidence=_evidence_from_plain(about["evidence"], arrays, len(arrays["radius"])),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise damaged(path, str(error)) from error


def damaged(path: str | Path, reason: str) -> ValueError:
    """Return the error that says what is wrong with a file."""
    return ValueError(
        f"path must be a whole file written by Certificates.save, got {str(path)!r}: {reason.rstrip('.')}. Copy it "
        "again from where it was written, or repeat the run; a journal has all that was counted."
    )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the declarations and the arrays of a file, all of them checked."""
    try:
        with zipfile.ZipFile(path) as file:
            members = {info.filename.removesuffix(".npy"): info for info in file.infolist()}
            about = _read_about(file, members, path)
            declared = about["arrays"]
            for name in ("radius", "abstained", "prediction"):
                if name not in declared:
                    raise damaged(path, f"the array {name!r} is missing")
            if missing := sorted(declared.keys() - members.keys()):
                raise damaged(path, f"the array {missing[0]!r} is missing")
            arrays = {name: _read_array(file, members[name], name, declared[name], path) for name in declared}
    except FileNotFoundError:
        raise
    except zipfile.BadZipFile as error:
        reason = "it is cut off or damaged" if _is_zip(path) else "it is not a zip archive, as npz files are"
        raise damaged(path, f"{reason} ({error})") from error
    except (EOFError, OSError, RuntimeError, NotImplementedError, zlib.error) as error:
        raise damaged(path, f"it cannot be read ({error})") from error
    _check_arrays(arrays, path)
    return about, arrays


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def _read_about(file: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], path: Path) -> dict[str, Any]:
    if "about" not in members:
        raise damaged(path, "it is the file of another program: the array 'about' is missing")
    text = _read_array(file, members["about"], "about", None, path)
    try:
        about = json.loads(str(text[()]))
        form = about["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, "the array 'about' is not a description of certificates") from error
    if form != FORMAT:
        provenance = about.get("provenance")
        version = provenance.get("version") if isinstance(provenance, dict) else None
        raise ValueError(
            f"The file must be of format {FORMAT}, got {form} in {str(path)!r}. Read it with the version of smoothcert "
            f"that wrote it, {version}."
        )
    wanted = {
        "arrays": dict, "provenance": dict, "objects": list, "upper_limits": list, "space": str, "evidence": list,
    }  # fmt: skip
    for name, kind in wanted.items():
        if name != "evidence" and not isinstance(about.get(name), kind):
            raise damaged(path, f"its description has no {name!r}")
    if not {"n_features", "evidence"} <= about.keys() or not set(about["objects"]) <= set(_LABELS):
        raise damaged(path, "its description is not complete")
    return dict(about)


def _read_array(file: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, declared: Any, path: Path) -> NDArray[Any]:
    """Return one array, if it is of the type, shape and size that are declared."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise damaged(path, f"the array {name!r} is compressed with a method that numpy does not use")
    with file.open(info) as member:
        try:
            version = np.lib.format.read_magic(member)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read(member)
        except (ValueError, KeyError) as error:
            raise damaged(path, f"the header of the array {name!r} cannot be read") from error
        if dtype.hasobject:
            raise damaged(path, f"the array {name!r} holds pickled objects, which are never loaded")
        size = math.prod(shape) * dtype.itemsize
        if declared is None:
            if dtype.kind != "U" or shape != () or size > _MOST_TEXT:
                raise damaged(path, f"the array {name!r} must be a text of at most {_MOST_TEXT} bytes")
        elif [dtype.str, list(shape)] != declared:
            raise damaged(
                path, f"the array {name!r} is declared as {declared}, and its header says {[dtype.str, list(shape)]}"
            )
        # The archive declares the size of the whole member, of which the header has some hundred bytes.
        if not 0 <= info.file_size - size <= 2**16:
            raise damaged(
                path, f"the array {name!r} should take {size} bytes by its header, and {info.file_size} by the archive"
            )
        content = member.read(size)
        if len(content) != size or member.read(1):
            raise damaged(path, f"the array {name!r} does not have the {size} bytes that its header declares")
    array = np.frombuffer(content, dtype=dtype)
    return array.reshape(shape, order="F" if fortran else "C").copy()


def _check_arrays(arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    n = arrays["radius"].shape[0] if arrays["radius"].ndim == 1 else -1
    for name, value in arrays.items():
        if name in _KINDS and value.dtype.kind not in _KINDS[name]:
            raise damaged(path, f"the array {name!r} is of type {value.dtype}")
        if name in _ROWS and value.shape != (n,):
            shape = arrays["radius"].shape
            raise damaged(path, f"the array {name!r} has shape {value.shape}, but the radii have shape {shape}")
        if name.startswith(("limits/", "counts/")) and (value.ndim == 0 or len(value) != n):
            raise damaged(path, f"the array {name!r} has shape {value.shape}, but there are {n} radii")


def _evidence_to_plain(evidence: StoredEvidence | None, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return a description of evidence, and add its arrays; None where there is none that can be written."""
    if evidence is None:
        return None
    own: dict[str, NDArray[Any]] = {name: getattr(evidence, name) for name in ("sigma", "lost", "shift", "factor")}
    parts = []
    for number, part in enumerate(evidence.parts):
        own[f"{number}/rows"] = part.rows
        try:
            tally = rows_to_plain(part.tally, f"{number}/tally/", own)
        except TypeError:
            return None
        params = json.loads(json.dumps(part.certifier.get_params(), default=_plain_parameter))
        parts.append({"certifier": [certifier_name(type(part.certifier)), params], "tally": tally})
    arrays.update({f"evidence/{name}": value for name, value in own.items()})
    return parts


def _evidence_from_plain(plain: Any, arrays: Mapping[str, NDArray[Any]], n: int) -> StoredEvidence | None:
    if plain is None:
        return None
    own = {name.removeprefix("evidence/"): value for name, value in arrays.items() if name.startswith("evidence/")}
    parts = []
    for number, part in enumerate(plain):
        rows = own[f"{number}/rows"].astype(np.intp)
        try:
            tally = rows_from_plain(part["tally"], f"{number}/tally/", own)
            certifier = find_certifier(*part["certifier"])
        except UnknownKind:  # somebody else's certifier, whose module is not imported: radii can be read all the same
            return None
        if rows.ndim != 1 or np.any((rows < 0) | (rows >= n)) or len(tally) != len(rows):
            raise ValueError("the evidence does not belong to the same rows as the certificates")
        parts.append(EvidencePart(rows, certifier, tally))
    settings = {name: own[name].astype(np.float64) for name in ("sigma", "lost", "shift", "factor")}
    if any(len(value) != n for value in settings.values()):
        raise ValueError("the evidence does not have one entry for each certificate")
    return StoredEvidence(tuple(parts), **settings)


def _plain_parameter(value: Any) -> Any:
    return (
        f"{FUNCTION}{getattr(value, '__qualname__', type(value).__name__)}" if callable(value) else plain_value(value)
    )


def plain_value(value: Any) -> Any:
    """Return what stands in a text file for a value that JSON does not know."""
    if isinstance(value, np.generic):
        return value.item()
    return repr(value)


def plain_labels(labels: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """Return labels that can be stored without pickle, and whether they were objects before."""
    if labels.dtype != object:
        return labels, False
    if not all(isinstance(label, str) for label in labels):
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(
            f"Labels must be of one plain type to be saved, got {kinds}. Use numbers or strings as labels."
        )
    return labels.astype(str), True


def plain_index(index: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """Return an index that can be stored without pickle, anything but numbers and dates as text."""
    return (index, False) if index.dtype != object else (np.array([str(entry) for entry in index], dtype=str), True)
