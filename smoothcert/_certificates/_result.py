"""The frozen result of a certification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import BoolArray, FloatArray, as_float_array, check_choice
from ..certifiers import BaseCertifier
from ..tallies import Tally
from ._evidence import StoredEvidence
from ._rows import put_together
from ._tables import as_frame, as_html, as_log, as_text
from ._verification import Verification, verify

if TYPE_CHECKING:
    import pandas


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
    n_features : int or None
        Number of features that may be perturbed, for `radius_in`.
    classes : ndarray of shape (n_classes,) or None
        Labels, in the order in which votes are counted.
    runner_up : ndarray of int, shape (n,), or None
        Place in `classes` of the class with the most votes after the predicted one; -1 where there is no such vote.
        Nothing is proved about it.
    label : ndarray of shape (n,) or None
        True labels, where they are known.
    index : ndarray of shape (n,) or None
        Index of the data frame that was certified, for `to_frame`.
    evidence : StoredEvidence or None
        What `verify` computes radii from again.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from smoothcert import Certificates, FirstOrderCertifier, SmoothedClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> certifier = FirstOrderCertifier(n_samples=10_000)
    >>> clf = SmoothedClassifier(GaussianNB(), sigma=0.5, certifier=certifier, random_state=0).fit(X, y)
    >>> certificates = clf.certify(X[::30])
    >>> certificates
    Certificates(5 inputs, 100% certified, median radius 1.13, FirstOrderCertifier(n_samples=10000))
      0: 0  radius 1.43
      1: 0  radius 1.24
      2: 1  radius 0.844
      3: 1  radius 0.912
      4: 2  radius 1.13
    >>> certificates[certificates.radius > 1.0].prediction
    array([0, 0, 2])
    >>> certificates.verify()
    Verification(The evidence proves all 5 certificates.)
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
    n_features: int | None = None
    classes: NDArray[Any] | None = None
    runner_up: NDArray[np.int64] | None = None
    label: NDArray[Any] | None = None
    index: NDArray[Any] | None = None
    evidence: StoredEvidence | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "upper_limits", frozenset(self.upper_limits))
        try:
            prediction = np.atleast_1d(self.prediction)
        except ValueError as error:
            raise ValueError(f"prediction must be one label for each input, got {self.prediction!r}.") from error
        put(self, "prediction", _frozen(prediction))
        put(self, "radius", _frozen(np.atleast_1d(as_float_array("radius", self.radius))))
        try:
            abstained = np.atleast_1d(np.asarray(self.abstained, dtype=bool))
        except ValueError as error:
            raise ValueError(f"abstained must be true or false for each input, got {self.abstained!r}.") from error
        put(self, "abstained", _frozen(abstained))
        for name in ("limits", "counts"):
            frozen = {key: _frozen(np.asarray(value)) for key, value in getattr(self, name).items()}
            put(self, name, MappingProxyType(frozen))
        put(self, "provenance", MappingProxyType(dict(self.provenance)))
        kinds: dict[str, Any] = {"samples_used": np.int64, "stopped": np.str_, "runner_up": np.int64}
        for name in ("samples_used", "stopped", "runner_up", "label", "index", "classes"):
            if getattr(self, name) is not None:
                put(self, name, _frozen(np.atleast_1d(np.asarray(getattr(self, name), dtype=kinds.get(name)))))
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
                f"radius must be at least 0, got {self.radius[~(self.radius >= 0)][0]}. "
                "Use 0 where nothing is certified."
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
        known = {name: getattr(self, name) for name in PER_INPUT}
        return {name: value for name, value in known.items() if value is not None}

    def __reduce__(self) -> tuple[Any, ...]:
        values = [getattr(self, each.name) for each in fields(self)]
        # Mapping proxies do not pickle.
        return type(self), tuple(dict(value) if isinstance(value, MappingProxyType) else value for value in values)

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
            evidence=None if self.evidence is None else self.evidence[index],
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

    def radius_in(self, norm: str) -> FloatArray:
        """Return the radii within which perturbations measured by another norm change nothing, rounded down.

        A perturbation `delta` of `d` features with ``|delta|_1 < r`` has a Euclidean norm below `r`, and so has one
        with ``|delta|_inf < r / sqrt(d)``. No Euclidean certificate proves more than that about these norms.

        Features without noise must stay as they are and do not count in `d`. If the certificates have a
        `feature_scale`, each component of `delta` is divided by that of its feature, here as in `radius`.

        Parameters
        ----------
        norm : {"l1", "l2", "linf"}
            ``"l1"``, the sum of all changes; ``"l2"``, the Euclidean norm; ``"linf"``, the largest change.

        Returns
        -------
        ndarray of shape (n,)

        Examples
        --------
        >>> from smoothcert import Certificates
        >>> certificates = Certificates([0, 1], [0.5, 0.25], [False, False], n_features=4)
        >>> certificates.radius_in("linf").round(3)
        array([0.25 , 0.125])
        """
        check_choice("norm", norm, ("l1", "l2", "linf"))
        if norm != "linf":
            return self.radius
        n_features = self.n_features
        if self.feature_scale is not None:
            n_features = int(np.sum((self.feature_scale > 0.0) & np.isfinite(self.feature_scale)))
        if n_features is None:
            raise ValueError(
                "n_features must be known for norm='linf', got None. Certificates returned by certify have it. For "
                "other certificates set it, for example with dataclasses.replace(certificates, n_features=784)."
            )
        if n_features <= 1:
            return self.radius
        # One rounding in the root and one in the quotient, one step back after each.
        largest: FloatArray = np.nextafter(self.radius / np.nextafter(np.sqrt(n_features), np.inf), 0.0)
        return largest

    def verify(self) -> Verification:
        """Compute every radius again from the evidence, and say where it is not the one stored.

        Counts, limits, predicted classes and the error probability are compared as well. A file that was changed by
        mistake or by someone who did not change the evidence with it is noticed. Evidence that was made up is not: for
        that, repeat the run with its seed.

        Returns
        -------
        Verification
            True if all certificates could be computed again and none differs; `differs` says which ones do, `message`
            why. Exact certificates, ``voting="soft"``, have no evidence: no samples were drawn.

        Examples
        --------
        >>> from dataclasses import replace
        >>> from smoothcert import Certificates, FirstOrderCertifier
        >>> from smoothcert.tallies import VoteTally
        >>> tally = VoteTally([[9900, 90, 10], [60, 9900, 40]], 10_000, candidate=[0, 1])
        >>> certificates = Certificates.from_tally(tally, FirstOrderCertifier(10_000), sigma=0.25)
        >>> bool(certificates.verify())
        True
        >>> replace(certificates, radius=certificates.radius * [1, 2]).verify().differs
        array([False,  True])
        """
        return verify(self)

    @classmethod
    def from_tally(
        cls,
        tally: Tally,
        certifier: BaseCertifier,
        *,
        sigma: float,
        prediction: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        n_features: int | None = None,
    ) -> Certificates:
        """Certify evidence that was counted elsewhere.

        Parameters
        ----------
        tally : Tally
            Of the kind that the certifier wants, see `smoothcert.tallies`. The samples must not be those by which the
            candidate classes were chosen.
        certifier : certifier
        sigma : float
            Standard deviation of the noise, the same in all features.
        prediction : array-like of shape (n,), optional
            Label of the class that was counted for each input; by default the tally's candidates.
        classes : array-like of shape (n_classes,), optional
            Labels of the columns of the tally; by default their numbers.
        n_features : int, optional
            Number of features, for `radius_in`; by default that of the tally, if it has sums of noise.

        Returns
        -------
        Certificates

        Examples
        --------
        >>> from smoothcert import Certificates, FirstOrderCertifier
        >>> from smoothcert.tallies import VoteTally
        >>> tally = VoteTally([[9900, 90, 10], [60, 9900, 40]], 10_000, candidate=[0, 1])
        >>> Certificates.from_tally(tally, FirstOrderCertifier(10_000), sigma=0.25, classes=["cat", "dog", "owl"])
        Certificates(2 inputs, 100% certified, median radius 0.563, FirstOrderCertifier(n_samples=10000))
          0: cat  radius 0.555
          1: dog  radius 0.571
        """
        from ._building import certificates_from_tally

        return certificates_from_tally(
            tally, certifier, sigma=sigma, prediction=prediction, classes=classes, n_features=n_features
        )

    @classmethod
    def from_tsv(
        cls,
        path: str | Path,
        *,
        sigma: float,
        certifier: BaseCertifier | None = None,
        n_features: int | None = None,
    ) -> Certificates:
        """Read a table in the column layout of the published certification logs, as `to_tsv` writes it.

        Parameters
        ----------
        path : path-like
            File of columns separated by tabs, with a header; ``idx``, ``predict`` and ``radius`` must be there.
        sigma : float
            Standard deviation of the noise.
        certifier : certifier, optional
            Computes radii from the counts in the table, with its `n_samples` and `alpha`: `FirstOrderCertifier`, or,
            as published, ``DipoleCertifier(inference="paper")`` and ``SecondOrderCertifier(gradient_bound="paper")``,
            which needs `n_features`. What the table abstains from stays an abstention, because it does not name the
            class. By default radii are those of the table; published ones are rounded to nearest, so the last digit
            may promise too much.
        n_features : int, optional
            Number of features.

        Returns
        -------
        Certificates
            With the column ``label`` as `label` and ``idx`` as `index`.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from smoothcert import Certificates, FirstOrderCertifier
        >>> from smoothcert.tallies import VoteTally
        >>> votes = VoteTally([83_679, 79_838], 100_000)
        >>> made = Certificates.from_tally(votes, FirstOrderCertifier(), sigma=0.5, prediction=[3, 7])
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = Path(directory) / "log.tsv"
        ...     text = made.to_tsv(path)
        ...     read = Certificates.from_tsv(path, sigma=0.5, certifier=FirstOrderCertifier())
        >>> read.radius.round(4)
        array([0.4833, 0.411 ])
        """
        from ._logs import certificates_from_log

        return certificates_from_log(path, sigma=sigma, certifier=certifier, n_features=n_features)

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
            name: _joined_arrays([getattr(c, name) for c in certificates]) for name in first._per_input()
        }
        evidence = [c.evidence for c in certificates if c.evidence is not None]
        return replace(
            first,
            prediction=np.concatenate([c.prediction for c in certificates]),
            radius=np.concatenate([c.radius for c in certificates]),
            abstained=np.concatenate([c.abstained for c in certificates]),
            limits=_joined([c.limits for c in certificates], [len(c) for c in certificates]),
            counts=_joined([c.counts for c in certificates], [len(c) for c in certificates]),
            provenance=provenance,
            upper_limits=frozenset().union(*(c.upper_limits for c in certificates)),
            evidence=StoredEvidence.concatenate(evidence) if len(evidence) == len(certificates) else None,
            **of_inputs,
        )

    def to_frame(self, y: ArrayLike | None = None, *, evidence: bool = False) -> pandas.DataFrame:
        """Return a table with one row for each input. Needs pandas.

        Parameters
        ----------
        y : array-like of shape (n,), optional
            True labels; by default `label`, if the certificates have it.
        evidence : bool, default=False
            Add the limits and counts behind each radius, some of which have an array in each cell.

        Returns
        -------
        DataFrame
            With the index of the data frame that was certified, if there was one, and the columns

            - ``prediction``, the class that the vote points to;
            - ``label`` and ``correct``, if true labels are known;
            - ``radius``, rounded down in the last digit as everywhere;
            - ``abstained``, whether nothing was proved;
            - ``probability_lower``, a lower confidence bound of the probability of the class under noise, from the
              votes alone, at the level of the certificate (Clopper and Pearson); NaN where votes were not counted.
              It holds on its own, and not together with the radius;
            - ``runner_up``, the class with the most votes after it, if they are known;
            - ``samples_used``, how many samples were drawn;
            - ``stopped``, why sampling ended, where it could end early.

        Examples
        --------
        >>> from smoothcert import Certificates, FirstOrderCertifier
        >>> from smoothcert.tallies import VoteTally
        >>> tally = VoteTally([[9900, 90, 10], [60, 9900, 40]], 10_000, candidate=[0, 1])
        >>> certificates = Certificates.from_tally(tally, FirstOrderCertifier(10_000), sigma=0.25)
        >>> certificates.to_frame([0, 2])[["prediction", "label", "correct", "radius"]].round(3)
           prediction  label  correct  radius
        0           0      0     True   0.556
        1           1      2    False   0.572
        """
        return as_frame(self, y, evidence)

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
        text = as_log(self, y)
        if path is not None:
            from ._files import write_file

            write_file(path, lambda file: file.write(text.encode()))
        return text

    def save(self, path: str | Path, *, evidence: bool = True) -> None:
        """Write to one compressed file, without pickle.

        The file is complete or not there: it is written under another name and renamed. A link at `path` is replaced,
        and what it points to stays as it is. Labels must be numbers, booleans or strings; an `index` of anything else
        is kept as text.

        Parameters
        ----------
        path : path-like
            File to write, usually ``*.npz``.
        evidence : bool, default=True
            Keep what `verify` computes radii from. Of the directional certificate that is about 20 kB for each input
            and rival that was measured, of others less than 1 kB for each input.
        """
        from ._files import save

        save(self if evidence else replace(self, evidence=None), path)

    @classmethod
    def load(cls, path: str | Path) -> Certificates:
        """Read what `save` wrote.

        Nothing in the file is executed, and it may not grow beyond the sizes that it declares. What is damaged or not
        such a file is refused; `verify` tells whether radii are what the evidence in it proves.

        Parameters
        ----------
        path : path-like

        Returns
        -------
        Certificates
        """
        from ._files import load

        return load(cls, path)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


PER_INPUT = ("samples_used", "stopped", "runner_up", "label", "index")
"""What is known of single inputs, and may be missing."""


def _settings(certificates: Certificates) -> dict[str, Any]:
    settings = {k: v for k, v in certificates.provenance.items() if k not in ("seed", "seconds")}
    known = [name for name in ("samples_used", "stopped") if getattr(certificates, name) is not None]
    settings |= {"space": certificates.space, "known of each input": known, "n_features": certificates.n_features}
    for name in ("feature_scale", "classes"):
        value = getattr(certificates, name)
        settings[name] = None if value is None else value.tolist()
    # Where sampling may end early, a batch has only the limits and counts of the tests that it came to.
    if certificates.stopped is None:
        settings |= {"limits": sorted(certificates.limits)}
    return settings


def _joined(parts: Sequence[Mapping[str, NDArray[Any]]], lengths: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Return arrays by name, those of all parts one after the other; see `put_together` for what is missing."""
    ends = np.cumsum([0, *lengths])
    places = [np.arange(ends[i], ends[i + 1]) for i in range(len(lengths))]
    return put_together(list(zip(places, parts, strict=True)), int(ends[-1]))


def _joined_arrays(arrays: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    """Return all arrays one after the other; None if one is missing."""
    known = [array for array in arrays if array is not None]
    return np.concatenate(known) if len(known) == len(arrays) else None


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
