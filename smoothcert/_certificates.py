"""Certificates: the frozen result of a certification, with its evidence and its provenance."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import ROUND_DOWN, ROUND_UP, Context
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._column_noise import ColumnNoise, Sigma
from ._engine import Evidence
from ._float32_cast import shorten
from ._validation import BoolArray, FloatArray, as_float_array
from .tallies import Tally

if TYPE_CHECKING:
    import pandas

FORMAT = 3
"""Version of the file format; raised when files written before can no longer be read."""


@dataclass(frozen=True, eq=False)
class Certificates:
    """Certified predictions for a number of inputs.

    ``len``, indexing, slicing and masks work as for an array; `Certificates.concatenate` puts several together.

    Attributes
    ----------
    prediction : ndarray of shape (n,)
        Class that the vote points to, as labelled in training. Also given where the certifier abstains.
    radius : ndarray of shape (n,)
        Radius, in the units of the space named by `space`, within which no perturbation changes the vote; rounded
        down. 0 where abstained. With a `feature_scale` it is in units of that: the promise is about perturbations
        `delta` with ``sum((delta / feature_scale) ** 2) < radius ** 2`` that are 0 where the scale is 0.
    abstained : ndarray of bool, shape (n,)
        Where nothing could be proved.
    limits : mapping of str to ndarray
        Confidence limits behind each radius, in units of sigma; NaN where there are none, because the input was decided
        before the estimation or by another test.
    counts : mapping of str to ndarray
        Votes behind the limits; zeros where there are none.
    provenance : mapping
        How the certificates were made: sigma, alpha, number of samples, certifier with its parameters, seed, version.
    space : str
        Where the radius lives: ``"input"``, or the step of a pipeline whose output was smoothed.
    upper_limits : frozenset of str
        Names of the limits that bound from above; they are rounded up where they are shown, all others down.
    samples_used : ndarray of int, shape (n,), or None
        Samples of each input, those that chose the candidate class included.
    stopped : ndarray of str, shape (n,), or None
        Why the sampling of each input ended. Where radii were asked for: ``"certified"``, all of them are;
        ``"hopeless"``, none of those that are not certified is within reach; ``"wrong candidate"``, the votes point to
        another class than the label given; ``"out of samples"``. Where labels were given without a radius: ``"wrong
        candidate"`` or ``"complete"``.
    feature_scale : ndarray in the shape of one input, or None
        What one unit of `radius` is in each feature, in its own units: sigma, if features have one each, or the unit
        of `ColumnSigma`. 0 where a feature must stay as it is, inf where it does not matter. None if the promise is
        about a ball in the units of the inputs; also behind scalers, `certify` returns the radius of a ball, and a
        scale of 1 or more shows how much further each feature may move.
    """

    prediction: NDArray[Any]
    radius: FloatArray
    abstained: BoolArray
    limits: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    counts: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    space: str = "input"
    upper_limits: frozenset[str] = frozenset()
    samples_used: NDArray[np.int64] | None = None
    stopped: NDArray[np.str_] | None = None
    feature_scale: FloatArray | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "upper_limits", frozenset(self.upper_limits))
        put(self, "prediction", _frozen(np.atleast_1d(self.prediction)))
        put(self, "radius", _frozen(np.atleast_1d(as_float_array("radius", self.radius))))
        put(self, "abstained", _frozen(np.atleast_1d(np.asarray(self.abstained, dtype=bool))))
        for name in ("limits", "counts"):
            frozen = {key: _frozen(np.asarray(value)) for key, value in getattr(self, name).items()}
            put(self, name, MappingProxyType(frozen))
        put(self, "provenance", MappingProxyType(dict(self.provenance)))
        for name, kind in (("samples_used", np.int64), ("stopped", np.str_)):
            if getattr(self, name) is not None:
                put(self, name, _frozen(np.atleast_1d(np.asarray(getattr(self, name), dtype=kind))))
        if self.feature_scale is not None:
            put(self, "feature_scale", _frozen(as_float_array("feature_scale", self.feature_scale)))
            if not np.all(self.feature_scale >= 0.0):
                raise ValueError(
                    f"feature_scale must be at least 0, got {float(np.min(self.feature_scale))}. Use 0 for features "
                    "that must stay as they are."
                )
        n = len(self.prediction)
        for name, value in (
            ("radius", self.radius),
            ("abstained", self.abstained),
            *self.limits.items(),
            *self.counts.items(),
            *self._per_input().items(),
        ):
            if len(value) != n:
                raise ValueError(f"{name} must have one entry for each of the {n} predictions, got {len(value)}.")
        if np.isnan(self.radius).any() or (self.radius < 0).any():
            raise ValueError(
                f"radius must be at least 0, got {self.radius[~(self.radius >= 0)][0]}. Nothing certified is 0."
            )

    @property
    def asked_radii(self) -> tuple[float, ...] | None:
        """Radii that were asked for; None if the radii are what a fixed number of samples proves.

        Where radii were asked for, sampling ended as soon as they were decided. The certificates say whether an input
        is certified at these radii; their own radii are valid, but smaller than they could be.
        """
        asked = self.provenance.get("asked_radii")
        return None if asked is None else tuple(float(radius) for radius in asked)

    def _per_input(self) -> dict[str, NDArray[Any]]:
        """Return what is known of the sampling of each input."""
        known = {"samples_used": self.samples_used, "stopped": self.stopped}
        return {name: value for name, value in known.items() if value is not None}

    def __reduce__(self) -> tuple[Any, ...]:
        # Mapping proxies do not pickle.
        parts = (
            self.prediction,
            self.radius,
            self.abstained,
            dict(self.limits),
            dict(self.counts),
            dict(self.provenance),
        )
        more = self.samples_used, self.stopped, self.feature_scale
        return type(self), (*parts, self.space, self.upper_limits, *more)

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> Certificates:
        index = np.atleast_1d(np.arange(len(self))[rows])
        of_inputs: dict[str, Any] = {name: value[index] for name, value in self._per_input().items()}
        return replace(
            self,
            prediction=self.prediction[index],
            radius=self.radius[index],
            abstained=self.abstained[index],
            limits={name: value[index] for name, value in self.limits.items()},
            counts={name: value[index] for name, value in self.counts.items()},
            **of_inputs,
        )

    @property
    def radius_per_feature(self) -> FloatArray:
        """How far each feature alone may move, in its own units, rounded down; shape (n, ...) like the inputs.

        0 in features without noise, about which nothing is promised. Several features that move together share the
        radius: ``sum((delta / feature_scale) ** 2)`` must stay below its square. Where all features have one unit,
        there is one column for all.
        """
        if self.feature_scale is None:
            return self.radius[:, None]
        radius = self.radius.reshape(-1, *[1] * self.feature_scale.ndim)
        with np.errstate(invalid="ignore"):
            product = np.nextafter(radius * self.feature_scale, 0.0)
        # A feature that does not matter may move as far as it likes; nothing is promised where nothing is certified.
        product = np.where(np.isinf(radius) | np.isinf(self.feature_scale), np.inf, product)
        return np.where((radius == 0.0) | (self.feature_scale == 0.0), 0.0, product)

    @classmethod
    def concatenate(cls, certificates: Sequence[Certificates]) -> Certificates:
        """Return certificates of several runs with the same settings, one after the other.

        The seed is kept if all share it, and is otherwise a list.
        """
        if not certificates:
            raise ValueError("certificates must hold at least one item, got none.")
        first = certificates[0]
        for other in certificates[1:]:
            mine, theirs = (_settings(c) for c in (first, other))
            for name in mine.keys() | theirs.keys():
                if mine.get(name) != theirs.get(name):
                    raise ValueError(
                        f"Certificates to concatenate must share their settings, got {name}={mine.get(name)!r} and "
                        f"{theirs.get(name)!r}. Keep runs with different settings apart."
                    )
        seeds = list(dict.fromkeys(c.provenance.get("seed") for c in certificates))
        seconds = sum(c.provenance.get("seconds", 0.0) for c in certificates)
        provenance = {**first.provenance, "seed": seeds[0] if len(seeds) == 1 else seeds, "seconds": seconds}
        of_inputs: dict[str, Any] = {
            name: np.concatenate([c._per_input()[name] for c in certificates]) for name in first._per_input()
        }
        return replace(
            first,
            prediction=np.concatenate([c.prediction for c in certificates]),
            radius=np.concatenate([c.radius for c in certificates]),
            abstained=np.concatenate([c.abstained for c in certificates]),
            limits=_joined([c.limits for c in certificates], [len(c) for c in certificates]),
            counts=_joined([c.counts for c in certificates], [len(c) for c in certificates]),
            provenance=provenance,
            upper_limits=frozenset().union(*(c.upper_limits for c in certificates)),
            **of_inputs,
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return all of it as a table, one row for each input. Needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas; install smoothcert[plot].") from error
        return pandas.DataFrame(self._columns())

    def to_tsv(self, path: str | Path | None = None, y: ArrayLike | None = None) -> str:
        """Return the table in the column layout of the published certification logs.

        Radii and lower limits are rounded down and upper limits up, where the published ones are rounded to nearest.
        As there, ``-1`` stands for an abstention in the column ``predict``, so a class that is itself labelled ``-1``
        cannot be told from it. The time is that of the whole run divided by the number of inputs.

        Parameters
        ----------
        path : path-like, optional
            File to write.
        y : array-like of shape (n,), optional
            True labels, for the columns ``label`` and ``correct``; without them both are empty.

        Returns
        -------
        str
            The text of the table.
        """
        truth = [""] * len(self) if y is None else list(np.asarray(y).tolist())
        if len(truth) != len(self):
            raise ValueError(f"y must have one label for each of the {len(self)} certificates, got {len(truth)}.")
        evidence = self._log_columns()
        each = timedelta(seconds=self.provenance.get("seconds", 0.0) / max(len(self), 1))
        lines = ["\t".join(["idx", "label", "predict", "radius", *evidence, "correct", "time"])]
        for i in range(len(self)):
            predicted = "-1" if self.abstained[i] else str(self.prediction[i])
            correct = "" if y is None else str(int(not self.abstained[i] and truth[i] == self.prediction[i]))
            shown = [column[i] for column in evidence.values()]
            lines.append(
                "\t".join(
                    [str(i), str(truth[i]), predicted, round_digits(self.radius[i], 3), *shown, correct, str(each)]
                )
            )
        text = "\n".join(lines) + "\n"
        if path is not None:
            Path(path).write_text(text)
        return text

    def _log_columns(self) -> dict[str, list[str]]:
        counts, limits = self.counts, self.limits
        sigma = self.provenance.get("sigma", 1.0) if self.feature_scale is None else 1.0
        columns: dict[str, list[str]] = {}
        if "both" in counts:
            columns["raw_count_symmetric"] = [str(v) for v in counts["both"]]
            columns["raw_count_asymmetric"] = [str(v) for v in counts["one_plus"]]
            columns["p_A_symmetric_bar"] = [round_digits(v, 6) for v in limits["both"]]
            columns["p_A_asymmetric_bar"] = [round_digits(v, 6) for v in limits["one_sided"]]
        elif "hits" in counts:
            columns["raw_count"] = [str(v) for v in counts["hits"]]
            if "p" in limits:  # some certificates are about more than one share
                columns["p_A_bar"] = [round_digits(v, 6) for v in limits["p"]]
        if "norm_sq" in counts and "grad_norm" in limits:
            raw = counts["norm_sq"]
            columns["raw_grad_norm"] = [f"{np.sign(v) * np.sqrt(abs(v)) / sigma:.6g}" for v in raw]
            bound = np.nextafter(limits["grad_norm"] / sigma, np.inf)
            columns["grad_norm_bound"] = [round_digits(v, 6, up=True) for v in bound]
        return columns

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {"prediction": self.prediction, "radius": self.radius, "abstained": self.abstained}
        columns |= self._per_input()
        for group in (self.limits, self.counts):
            for name, value in group.items():
                label = name if name not in columns else f"{name}_count"
                columns[label] = value if value.ndim == 1 else list(value)
        return columns

    def save(self, path: str | Path) -> None:
        """Write to one compressed file, without pickle. Labels must be numbers, booleans or strings."""
        arrays: dict[str, NDArray[Any]] = {"radius": self.radius, "abstained": self.abstained}
        arrays["prediction"], is_object = plain_labels(self.prediction)
        arrays |= self._per_input()
        if self.feature_scale is not None:
            arrays["feature_scale"] = self.feature_scale
        for group, values in (("limits", self.limits), ("counts", self.counts)):
            arrays.update({f"{group}/{name}": value for name, value in values.items()})
        about = {
            "format": FORMAT,
            "space": self.space,
            "upper_limits": sorted(self.upper_limits),
            "provenance": dict(self.provenance),
            "object": is_object,
        }
        with Path(path).open("wb") as file:
            np.savez_compressed(file, about=np.array(json.dumps(about, default=plain_value)), **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | Path) -> Certificates:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                about = json.loads(str(file["about"][()]))
                arrays = {name: file[name] for name in file.files if name != "about"}
        except (ValueError, KeyError, OSError, EOFError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            reason = "no arrays in it" if "pickle" in str(error) else error  # numpy would advise to load it unsafely
            raise ValueError(
                f"path must be a file written by Certificates.save, got {str(path)!r} ({reason})."
            ) from error
        if about.get("format") != FORMAT:
            raise ValueError(
                f"The file must be of format {FORMAT}, got {about.get('format')}. Read it with the "
                "version of smoothcert that wrote it, "
                f"{about.get('provenance', {}).get('version')}."
            )
        groups: dict[str, dict[str, Any]] = {"limits": {}, "counts": {}}
        for name, value in arrays.items():
            group, _, key = name.partition("/")
            if key:
                groups[group][key] = value
        prediction = arrays["prediction"].astype(object) if about["object"] else arrays["prediction"]
        parts = prediction, arrays["radius"], arrays["abstained"], groups["limits"], groups["counts"]
        known = {name: arrays[name] for name in ("samples_used", "stopped", "feature_scale") if name in arrays}
        return cls(*parts, about["provenance"], about["space"], frozenset(about["upper_limits"]), **known)

    def _headline(self) -> str:
        where = "" if self.space == "input" else f", radius in {self.space}"
        certifier = self.provenance.get("certifier", "unknown certifier")
        return f"{len(self)} inputs, {self._outcome()}, {certifier}{where}"

    def _outcome(self) -> str:
        unit = " times feature_scale" if isinstance(self.provenance.get("sigma"), list) else ""
        if self.asked_radii is not None:
            # The median of radii that were not sampled further says nothing.
            shares = ", ".join(f"{self._percent(self.radius >= radius)}% at {radius:g}" for radius in self.asked_radii)
            samples = f", {np.mean(self.samples_used):.0f} samples an input" if self.samples_used is not None else ""
            return f"certified {shares}{unit}{samples if len(self) else ''}"
        certified = ~self.abstained
        median = float(np.median(self.radius[certified])) if certified.any() else 0.0
        return f"{self._percent(certified)}% certified, median radius {round_digits(median, 3)}{unit}"

    def _percent(self, which: BoolArray) -> int:
        """Return the share of inputs that are certified, rounded down, like everything that promises."""
        return 100 * int(np.sum(which & ~self.abstained)) // max(len(self), 1)

    def __repr__(self) -> str:
        lines = [f"Certificates({self._headline()})"]
        for i in range(min(len(self), 5)):
            radius = "abstained" if self.abstained[i] else f"radius {round_digits(self.radius[i], 3)}"
            why = "" if self.stopped is None else f"  {self.stopped[i]}"
            lines.append(f"  {i}: {self.prediction[i]!s}  {radius}{why}")
        if len(self) > 5:
            lines.append(f"  ... {len(self) - 5} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        limits = [name for name, value in self.limits.items() if value.ndim == 1]
        of_inputs = {} if self.stopped is None else self._per_input()
        names = ["prediction", "radius", "abstained", *of_inputs, *limits]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["", *names])
        body = []
        for i in range(min(len(self), 10)):
            cells = [
                str(i),
                str(self.prediction[i]),
                round_digits(self.radius[i], 4),
                "yes" if self.abstained[i] else "",
            ]
            cells += [str(value[i]) for value in of_inputs.values()]
            cells += [round_digits(self.limits[name][i], 4, up=name in self.upper_limits) for name in limits]
            body.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        more = f"<p>... {len(self) - 10} more</p>" if len(self) > 10 else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        return f"<p>{html.escape(self._headline())}</p>{table}{more}"


def round_digits(value: float, digits: int, up: bool = False) -> str:
    """Return a non-negative number with `digits` significant digits, rounded towards zero, or away from it if `up`."""
    value = float(value)
    if value == 0.0 or not np.isfinite(value):
        return f"{value:.1f}" if value == 0.0 else str(value)
    rounded = Context(prec=digits, rounding=ROUND_UP if up else ROUND_DOWN).create_decimal(repr(value))
    return f"{float(rounded):.{digits}g}"


def _settings(certificates: Certificates) -> dict[str, Any]:
    settings = {k: v for k, v in certificates.provenance.items() if k not in ("seed", "seconds")}
    settings |= {"space": certificates.space, "known of each input": sorted(certificates._per_input())}
    settings |= {"feature_scale": _plain_scale(certificates)}
    # Where sampling may end early, a batch has only the limits and counts of the tests that it came to.
    if certificates.stopped is None:
        settings |= {"limits": sorted(certificates.limits)}
    return settings


def _joined(parts: Sequence[Mapping[str, NDArray[Any]]], lengths: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Return arrays by name, those of all parts one after the other; see `_put` for what is missing."""
    ends = np.cumsum([0, *lengths])
    places = [np.arange(ends[i], ends[i + 1]) for i in range(len(lengths))]
    return _put(list(zip(places, parts, strict=True)), int(ends[-1]))


def _put(
    parts: Sequence[tuple[Any, Mapping[str, NDArray[Any]]]], n: int, fill: Mapping[str, float] = MappingProxyType({})
) -> dict[str, NDArray[Any]]:
    """Return arrays of `n` rows by name, put together of parts with places for their rows.

    Parts may lack a name or have shorter rows: in place of what is missing, real numbers are NaN and others zero, or
    what `fill` says.
    """
    if len(parts) == 1 and np.array_equal(parts[0][0], np.arange(n)):
        return dict(parts[0][1])
    joined: dict[str, NDArray[Any]] = {}
    for name in dict.fromkeys(name for _, arrays in parts for name in arrays):
        having = [(places, np.asarray(arrays[name])) for places, arrays in parts if name in arrays]
        kind = np.result_type(*(values.dtype for _, values in having))
        shape = np.max([values.shape[1:] for _, values in having], axis=0).astype(int)
        empty = fill.get(name, np.nan if kind.kind == "f" else 0)
        joined[name] = np.full((n, *shape), empty, dtype=kind)
        for places, values in having:
            joined[name][(places, *(slice(0, length) for length in values.shape[1:]))] = values
    return joined


def _plain_scale(certificates: Certificates) -> Any:
    return None if certificates.feature_scale is None else certificates.feature_scale.tolist()


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


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


def effective_sigma(sigma: Sigma, dtype: Any) -> float:
    """Return what radii are multiplied with: noise is scaled in the precision of the data, where sigma may round
    down.

    Where each feature has its own, radii stay in units of sigma, and the factor is at most 1: if noise is applied with
    ``s_j`` in place of ``sigma_j``, then ``|delta / s| <= |delta / sigma| / min_j (s_j / sigma_j)``.
    """
    if isinstance(sigma, ColumnNoise):
        return _effective_unit(sigma, np.dtype(dtype))
    with np.errstate(over="ignore"):
        applied = float(np.dtype(dtype).type(sigma))
    if not np.isfinite(applied):
        raise ValueError(
            f"sigma must be a finite number in the precision of the data, {np.dtype(dtype)}, got {sigma!r}. "
            "Bring the data to units in which the noise is moderate."
        )
    return min(sigma, applied)


def _effective_unit(sigma: ColumnNoise, dtype: np.dtype[Any]) -> float:
    with np.errstate(over="ignore", under="ignore"):
        applied = sigma.sigma.astype(dtype).astype(np.float64)
    wrong = ~(np.isfinite(applied) & (applied > 0.0))
    if np.any(wrong):
        raise ValueError(
            f"sigma must be a positive finite number in the precision of the data, {dtype}, for each feature with "
            f"noise, got {float(sigma.sigma[wrong][0])!r}. Bring the data to units in which the noise is moderate."
        )
    if np.all(applied >= sigma.sigma):
        return 1.0
    return float(np.nextafter(np.min(applied / sigma.sigma), 0.0))


def issue_radius(radius: FloatArray, sigma: float, lost: FloatArray | None) -> FloatArray:
    """Return radii in the units of the inputs for radii in units of sigma, rounded down.

    Parameters
    ----------
    radius : ndarray of shape (n_rows,)
    sigma : float
        What radii are multiplied with, see `effective_sigma`.
    lost : ndarray of shape (n_rows,) or None
        What the radius of each row loses by a cast of its input.
    """
    # One rounding in the product, one step back.
    return shorten(np.where(radius > 0.0, np.nextafter(radius * sigma, 0.0), 0.0), lost)


def build_certificates(
    evidence: Evidence,
    classes: NDArray[Any],
    *,
    sigma: float,
    provenance: Mapping[str, Any],
    space: str = "input",
    lost: FloatArray | None = None,
    feature_scale: FloatArray | None = None,
) -> Certificates:
    """Return the certificates that the evidence proves, in the units of the inputs.

    Parameters
    ----------
    evidence : Evidence
        With at least one row.
    classes : ndarray
        Labels.
    sigma : float
        What radii are multiplied with, see `effective_sigma`.
    provenance : mapping
    space : str
    lost : ndarray, optional
        What the radius of each row loses by a cast of its input.
    feature_scale : ndarray, optional
        What one unit of a radius is in each feature.
    """
    n, place = len(evidence.rows), {row: i for i, row in enumerate(evidence.rows)}
    proved = np.zeros(n)
    limits: list[tuple[list[int], Mapping[str, NDArray[Any]]]] = []
    upper_limits: set[str] = set()
    of_kind: dict[type[Tally], tuple[list[int], list[Tally]]] = {}
    for part in evidence.parts:
        places = [place[row] for row in part.rows]
        inference = part.certifier.certify_tally(part.tally) if part.inference is None else part.inference
        proved[places] = inference.radius
        limits.append((places, inference.limits))
        upper_limits |= part.certifier.upper_limits & inference.limits.keys()
        rows, tallies = of_kind.setdefault(type(part.tally), ([], []))
        rows.extend(places)
        tallies.append(part.tally)
    counts = [(rows, kind.concatenate(tallies).summary()) for kind, (rows, tallies) in of_kind.items()]
    fill = {name: value for kind in of_kind for name, value in kind.fill.items()}
    radius = issue_radius(proved, sigma, lost)
    return Certificates(
        prediction=classes[evidence.candidate],
        radius=radius,
        abstained=radius == 0.0,
        limits=_put(limits, n),
        counts=_put(counts, n, fill),
        provenance=provenance,
        space=space,
        upper_limits=frozenset(upper_limits),
        samples_used=evidence.samples,
        stopped=evidence.stopped,
        feature_scale=feature_scale,
    )
