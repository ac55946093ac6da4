"""SmoothedClassifier: parameters, the order of steps, and nothing else."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import check_X_y
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ._asked import as_class_indices, check_asked_radii, check_max_samples
from ._certificates import Certificates, build_certificates, effective_sigma, issue_radius, with_rows_of
from ._column_noise import ColumnNoise
from ._engine import (
    EvidenceStore,
    Progress,
    Question,
    Run,
    Sampler,
    collect_evidence,
    count_votes,
    find_thresholds,
    show_progress,
    stages_for,
)
from ._exact import exact_certificates, exact_probabilities, exact_scores
from ._float32_cast import length_lost
from ._frames import as_frame, is_frame, plain_columns
from ._input_checks import (
    as_plain_array,
    refuse_directions_of_frames,
    refuse_mappings,
    warn_of_few_samples,
    warn_of_pixels,
    warn_of_unreachable_radii,
)
from ._inputs import Inputs
from ._journal import Journal, RunDescription
from ._models import TrainingSettings, Voter, adapt, check_base, check_trainable, unfrozen
from ._noise import Grid, check_error_share, lower_level, make_grid, seed_from
from ._parallel import Executor, broadcast
from ._parameters import Rule, any_integer, check_parameters, integer, one_of, optional
from ._sigma import QUANTUM_RULE, SIGMA_RULE, ColumnSigma, is_single, one_for_each, radius_unit, resolve_sigma
from ._sklearn_compat import routing_enabled
from ._validation import FloatArray
from ._version import __version__
from .certifiers import BaseCertifier, DirectionalCertifier
from .tallies import IntArray
from .training import BaseRecipe

_ACCEPTED: dict[str, Any] = {"dtype": [np.float64, np.float32], "allow_nd": True}

_SHORTER = {
    "certify": "To shorten it, ask for the radius that matters, certify(X, radius=...), lower n_samples of the "
    "certifier, certify fewer rows, or use more processes, n_jobs=-1.",
    "ask": "To shorten it, ask for fewer radii, lower n_samples of the certifier, certify fewer rows, or use more "
    "processes, n_jobs=-1.",
    "predict": "To shorten it, lower n_votes, predict fewer rows, or use more processes, n_jobs=-1.",
}
"""How a run can be made shorter."""


def _is_label(value: Any) -> bool:
    return bool(np.isscalar(value)) and value == value


def _are_labels(value: Any) -> bool:
    try:
        labels = np.asarray(value)
        return labels.ndim == 1 and len(np.unique(labels)) == len(labels) >= 2
    except (TypeError, ValueError):  # lists of different lengths, or what cannot be compared
        return False


class SmoothedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier that votes over Gaussian copies of its input, and proves how far its answers hold.

    Parameters
    ----------
    estimator : classifier
        The base. It is cloned and trained on noisy copies of the data; a `sklearn.frozen.FrozenEstimator` is used as
        it is. Where `X` is a pandas DataFrame it is given DataFrames too, so steps inside it may choose columns by
        name; nets, and frozen classifiers that were trained on arrays, are given arrays.
    sigma : float, array-like, mapping or ColumnSigma, default=0.25
        Standard deviation of the noise, in the units of `X`. Larger noise certifies further and classifies worse.
        An array in the shape of one input has one for each feature, a mapping one for each column that it names, and
        `ColumnSigma` a multiple of the spread, or of another unit, of each column. 0, and a column that is not named,
        means that this feature is not perturbed: the certificate is about the others, and the column may hold anything
        that the base can handle. It may be changed after `fit`: votes then have the new noise, and the base stays
        trained for the old one.
    noise : {"gaussian", "exact"}, default="gaussian"
        How noise is drawn for votes. ``"gaussian"``: in floating point, rounded like everything there. ``"exact"``:
        inputs are rounded to a fine grid, and noise is drawn as whole numbers of steps of it, from random bits, with
        exactly the probabilities that the proofs assume. Training is the same for both, and with ``voting="soft"``
        nothing is drawn.
    quantum : float, array-like or mapping, default=None
        Step of the grid of exact noise, in the units of `X`; an array or a mapping has one for each feature. Inputs on
        the grid lose nothing, and their certificates are about inputs on the grid: for 8-bit images in [0, 1] give
        ``1 / 255``. All others lose up to the length of a vector of steps. None takes sigma times a power of two, which
        loses less than 0.002 sigma.
    certifier : certifier, default=None
        What proves the radii, for example `DipoleCertifier()`. None means `DirectionalCertifier()`.
    voting : {"hard", "soft"}, default="hard"
        ``"hard"``: the smoothed classifier answers with the class that the base votes for most often under noise, which
        is estimated from samples. ``"soft"``: it answers with the class of the largest expected score. For linear
        models, GaussianNB, ensembles of trees with one feature each and a single decision tree that is a formula: no
        samples are drawn, and certificates hold without an error probability. These are two different classifiers.
    n_augment : int, default=10
        Noisy copies of the training data. 0 trains on the data as they are.
    augmentation : {"replicate", "passes"}, default="replicate"
        ``"replicate"`` fits once on all copies together; ``"passes"`` calls ``partial_fit`` on one copy after the
        other, which needs memory for one only.
    training : recipe, default=None
        How a skorch net is trained, for example `smoothcert.training.Consistency()`. None trains it on one noisy copy
        of each input in every epoch. Other bases are trained as `n_augment` and `augmentation` say.
    n_votes : int, default=1000
        Noisy copies of each input in `predict` and `predict_proba`.
    abstain_label : label, default=None
        What `predict` answers when the two strongest classes are too close to call at the certifier's `alpha`. None
        always answers with the strongest.
    classes : array-like of shape (n_classes,), default=None
        Labels of the outputs of a frozen net, in the order of the outputs; only for a frozen net. None takes those the
        net knows (``net.classes_``), or whole numbers from 0, or else the labels in `y`, sorted. They are compared with
        what the net says about the `X` of `fit`: an order that is evidently wrong is refused.
    batch_size : int, default=None
        Noisy rows in one call of the base. Bounds memory, does not change the noise. With another batch size a network
        may round differently, and a few votes may change. None chooses by the size of a row.
    n_jobs : int, default=None
        Processes or threads, through joblib; `joblib.parallel_config` chooses the backend. Does not change the noise.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all noise. None draws fresh noise at every call. A certificate is a promise about noise the adversary
        does not know: publish the seed after the fact, or use None, where inputs may be chosen by someone who could
        search with it.
    verbose : int, default=0
        1 shows progress in samples, with the time left; if radii are asked for, in inputs that are decided, with a
        rough estimate of the time left. Samples that a journal already has count as done, and not in the rate. 0 shows
        nothing; a call that is expected to take more than a minute then warns once, with a `LongRunWarning`.

    Attributes
    ----------
    estimator_ : estimator
        The fitted base.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in `fit`, if `X` had names.
    sigma_ : float or ndarray in the shape of one input
        Standard deviation of the noise in `fit`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from smoothcert import DipoleCertifier, SmoothedClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SmoothedClassifier(
    ...     LogisticRegression(max_iter=1000), sigma=0.5, certifier=DipoleCertifier(n_samples=10_000), random_state=0
    ... ).fit(X, y)
    >>> clf.certify(X[::50])
    Certificates(3 inputs, 100% certified, median radius 1.24, DipoleCertifier(n_samples=10000))
      0: 0  radius 1.41
      1: 1  radius 0.287
      2: 2  radius 1.24
    """

    _rules: ClassVar[Mapping[str, Rule]] = {
        "sigma": SIGMA_RULE,
        "noise": one_of("gaussian", "exact"),
        "quantum": QUANTUM_RULE,
        "voting": one_of("hard", "soft"),
        "n_augment": integer(0, "0 trains without noise."),
        "augmentation": one_of("replicate", "passes"),
        "n_votes": integer(1, "1000 are good."),
        "batch_size": optional(integer(1, "None chooses by the size of a row.")),
        "n_jobs": Rule(
            "None or a non-zero integer",
            lambda value: value is None or (any_integer("").holds(value) and value != 0),
            "-1 uses all cores.",
        ),
        "verbose": any_integer("1 shows progress, 0 does not."),
        "classes": optional(
            Rule("a sequence of different labels", _are_labels, "Give one label for each output of the net.")
        ),
        "abstain_label": optional(Rule("a single label", _is_label, "Use a number or a text.")),
    }

    def __init__(
        self,
        estimator: Any,
        *,
        sigma: Any = 0.25,
        noise: str = "gaussian",
        quantum: Any = None,
        certifier: BaseCertifier | None = None,
        voting: str = "hard",
        n_augment: int = 10,
        augmentation: str = "replicate",
        training: BaseRecipe | None = None,
        n_votes: int = 1000,
        abstain_label: Any = None,
        classes: Any = None,
        batch_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.sigma = sigma
        self.noise = noise
        self.quantum = quantum
        self.certifier = certifier
        self.voting = voting
        self.n_augment = n_augment
        self.augmentation = augmentation
        self.training = training
        self.n_votes = n_votes
        self.abstain_label = abstain_label
        self.classes = classes
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def set_params(self, **params: Any) -> SmoothedClassifier:
        """Set parameters, those of the base and of the certifier included (``estimator__C``, ``certifier__alpha``)."""
        recipe = [name for name in params if name.startswith("training__")]
        if recipe and params.get("training", self.training) is None:
            raise ValueError(
                f"training must be set before {recipe[0]}, got None, the default. "
                "Give a recipe first, for example training=Consistency()."
            )
        nested = [name for name in params if name.startswith("certifier__")]
        if nested and params.get("certifier", self.certifier) is None:
            raise ValueError(
                f"certifier must be set before {nested[0]}, got None, the default. "
                "Give one first, for example certifier=DipoleCertifier()."
            )
        super().set_params(**params)
        return self

    def fit(self, X: Any, y: Any, **fit_params: Any) -> SmoothedClassifier:
        """Train the base on noisy copies of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Training data, rows or images.
        y : array-like of shape (n_samples,)
            Labels.
        **fit_params : dict
            Passed to the base's ``fit``, through metadata routing if that is enabled; what has one entry for each row
            is repeated with the rows.

        Returns
        -------
        self
        """
        self._check_params()
        refuse_mappings(X)
        bytes_given = isinstance(X, np.ndarray) and X.dtype == np.uint8
        model = adapt(self.estimator)
        if is_frame(X) and model.takes_frames:
            validate_data(self, X, skip_check_array=True)
            _, y = check_X_y(np.zeros(X.shape), y)
            self._frame_columns = X.columns
        else:
            X, y = validate_data(self, as_plain_array(X), y, **_ACCEPTED)
            self._frame_columns = None
        if is_single(self.sigma) and not is_frame(X):
            warn_of_pixels(X, bytes_given, float(self.sigma))
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        self._input_shape = X.shape[1:]
        self._units = self._find_units(X)
        inputs = self._inputs(X)
        self.sigma_ = inputs.sigma
        X = model.prepare(inputs.rows)
        self.classes_ = model.classes(X, y, self.classes)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least 2 classes, got 1 class: {self.classes_[0]!r}. A classifier "
                "needs at least two classes."
            )
        settings = TrainingSettings(
            sigma=inputs.noise,
            n_augment=self.n_augment,
            augmentation=self.augmentation,
            recipe=self.training,
            entropy=seed_from(self.random_state),
            seeded=self.random_state is not None,
            fit_params=self._routed(fit_params),
            as_base_input=inputs.as_base_input,
        )
        self.estimator_ = clone(self.estimator)  # kept also when training fails, with the epochs it got through
        model.train(self.estimator_, X, y, settings)
        if self._is_soft:
            exact_scores(unfrozen(self.estimator_), inputs.given[:1], inputs.sigma)  # what has none is refused here
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the majority of `n_votes` votes on noisy copies of each row; or the largest mean score.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels; `abstain_label`, if one is set, where the test of Cohen et al. (2019) cannot tell the two strongest
            classes apart.
        """
        if self._is_soft:
            inputs = self._ready(X)
            largest = np.argmax(exact_scores(unfrozen(self.estimator_), inputs.given, inputs.sigma), axis=1)
            answers: NDArray[Any] = self.classes_[largest]
            return answers
        counts = self._votes(X)
        labels: NDArray[Any] = self.classes_[np.argmax(counts, axis=1)]
        if self.abstain_label is None:
            return labels
        ordered = np.sort(counts, axis=1)
        alpha = float(self._certifier().alpha)
        alpha = lower_level(alpha) if self.noise == "exact" else alpha
        unsure = np.array([_too_close(first, second, alpha) for second, first in ordered[:, -2:]])
        answer = np.array([self.abstain_label])
        if labels.dtype.kind != answer.dtype.kind:
            labels = labels.astype(object)
        joined = np.concatenate([labels, answer])  # so that the dtype holds both
        joined[:-1][unsure] = self.abstain_label
        return joined[:-1]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the share of the votes for each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        if self._is_soft:
            inputs = self._ready(X)
            return exact_probabilities(unfrozen(self.estimator_), inputs.given, inputs.sigma)
        counts = self._votes(X)
        shares: FloatArray = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return shares

    def certify(
        self,
        X: Any,
        y: Any = None,
        *,
        radius: Any = None,
        journal: Any = None,
        max_samples: int | None = None,
    ) -> Certificates:
        """Predict, and prove how far each prediction holds.

        With `radius`, sampling of an input ends as soon as it is decided whether it can be certified at the radii asked
        for. That takes some thousand samples instead of the certifier's `n_samples`, and is as certain: all looks on
        the way share its `alpha`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Inputs. A single one must be given as one row.
        y : array-like of shape (n_samples,), default=None
            True labels, where an input is of no interest if its votes point to another class. Sampling of such an input
            ends after the selection, and nothing is certified for it.
        radius : float or increasing sequence of float, default=None
            Radii in the units of `X` that are to be decided. At 0 it is decided whether there is any radius. None
            takes all of the certifier's samples and certifies as far as they prove.
        journal : path-like, default=None
            File in which progress is kept. A call that was stopped, by an interrupt, a kill or a loss of power, is
            continued by the same call, with the same certificates to the last bit as if it had not been stopped;
            other processes, backends and batch sizes are welcome (with another batch size a network may round
            differently), another model, certifier or `X` is refused. With ``random_state=None`` the seed is drawn once
            and kept in the file. `smoothcert.read_journal` shows how far it is. If radii are asked for, a later call
            may ask for others, give other labels or more samples, and goes on with what is in the file. A file of a run
            without `radius` is refused then, and the other way round.
        max_samples : int, default=None
            Samples of an input at most, in place of the certifier's `n_samples`, for inputs that are not decided by
            then; only with `radius`. They are looked at again at 2, 4, 8, ... times `n_samples`, as far as that goes:
            a limit between two of these acts like the smaller one, and one below twice `n_samples` adds no look.

        Returns
        -------
        Certificates
        """
        certificates = self._certify(X, y, radius=radius, journal=journal, max_samples=max_samples)
        return with_rows_of(certificates, X, y)

    def _certify(
        self,
        X: Any,
        y: Any = None,
        *,
        radius: Any = None,
        journal: Any = None,
        max_samples: int | None = None,
        space: str = "input",
        converter: Callable[[FloatArray | None], Callable[[FloatArray], FloatArray]] | None = None,
        warn_of_reach: bool = True,
    ) -> Certificates:
        """Certify rows.

        `space`, of which a journal takes note, may be the output of a pipeline's steps, and `converter` tells what
        becomes of radii, given the scale of features, on the way back to its input.
        """
        inputs = self._ready(X)
        asked, labels = check_asked_radii(radius), self._label_indices(y, len(inputs.rows))
        if self._is_soft:
            return self._certify_exactly(inputs, journal, max_samples)
        certifier = self._certifier()
        check_max_samples(max_samples, asked, certifier.n_samples)
        warn_of_few_samples(certifier)
        started = time.perf_counter()
        model = adapt(self.estimator_)
        X, noise, grid = model.prepare(inputs.rows), inputs.noise, self._grid(inputs)
        used = certifier
        if grid is None:
            unit = inputs.unit * effective_sigma(noise, X.dtype)
            lost = inputs.in_radius_units(length_lost(inputs.rows, X, noise))
        else:
            most = certifier.n_selection + max(certifier.n_samples, max_samples or 0)
            check_error_share(grid, float(certifier.alpha), most, inputs.n_noisy, certifier.n_edges)
            used = certifier.at_level(lower_level(float(certifier.alpha))).without_designs()
            unit = inputs.unit * (noise if isinstance(noise, float) else 1.0)
            X = _to_grid(grid, inputs, X.dtype, model)
            # Behind the steps of a pipeline an adversary's input is on no grid.
            lost = grid.length_lost(inputs.rows, keep_points=space == "input")
            lost = inputs.in_radius_units(lost)
        keys = inputs.keys(X)
        voter, seed = inputs.with_frames(model.voter(self.classes_)), seed_from(self.random_state)
        gradients = voter.differentiable(X[0])
        refuse_directions_of_frames(certifier, gradients, inputs)

        convert = None if converter is None else converter(inputs.feature_scale)

        def issued(proved: FloatArray) -> FloatArray:
            radius = issue_radius(proved, unit, lost)
            return radius if convert is None else convert(radius)

        thresholds = None if asked is None else find_thresholds(asked, issued, len(X))
        if asked is not None and thresholds is not None and warn_of_reach:
            warn_of_unreachable_radii(asked, thresholds, certifier, max_samples, issued)
        ranks = np.empty(len(X), dtype=np.int64)
        ranks[sorted(range(len(X)), key=keys.__getitem__)] = np.arange(len(X))
        question = Question(asked=asked, thresholds=thresholds, labels=labels, max_samples=max_samples, ranks=ranks)
        provenance = {
            "sigma": inputs.plain_sigma,
            **({} if grid is None else {"noise": "exact", "quantum": grid.describe()}),
            "alpha": float(certifier.alpha),
            "n_samples": int(certifier.n_samples),
            "n_selection": int(certifier.n_selection),
            "certifier": repr(certifier),
            "certifier_params": certifier.get_params(),
            "version": __version__,
        }
        evidence_store: AbstractContextManager[EvidenceStore] = nullcontext(EvidenceStore(seed))
        if journal is not None:
            description = RunDescription(
                model=voter.fingerprint_state(),
                classes=self.classes_,
                certifier=used,
                gradients=gradients,
                sigma=inputs.sigma,
                grid=grid,
                n_noisy=inputs.n_noisy,
                feature_scale=inputs.feature_scale,
                effective_sigma=unit,
                X=X,
                keys=keys,
                lost=lost,
                seed=seed,
                seeded=self.random_state is not None,
                space=space,
                question=question,
                provenance=provenance,
            )
            evidence_store = Journal(journal, description)
        stages = stages_for(used, question, gradients, len(X), inputs.n_noisy, len(self.classes_))
        most = certifier.n_selection + max(certifier.n_samples, max_samples or 0)
        with (
            evidence_store as store,
            voter.evaluation_mode(),
            self._show_progress("certify", len(X), most, by_looks=asked is not None) as progress,
            broadcast(Sampler(voter, noise, store.seed, self.batch_size, grid), self.n_jobs) as sampler,
        ):
            executor = Executor(self.n_jobs, progress.advance)
            run = Run(sampler=sampler, executor=executor, progress=progress, X=X, keys=keys)
            evidence = collect_evidence(run, stages, self.classes_, store)
        spent = time.perf_counter() - started if store.grown else 0.0
        provenance |= {**question.provenance, "seed": store.seed, "seconds": store.seconds + spent}
        scale = inputs.feature_scale
        return build_certificates(
            evidence,
            self.classes_,
            sigma=unit,
            provenance=provenance,
            lost=lost,
            feature_scale=scale,
            n_features=inputs.n_noisy,
        )

    @property
    def _is_soft(self) -> bool:
        # Asked before parameters are checked, so it may be anything.
        return isinstance(self.voting, str) and self.voting == "soft"

    def _label_indices(self, y: Any, n_rows: int) -> IntArray | None:
        """Return the classes that labels stand for."""
        return None if y is None else as_class_indices(y, self.classes_, n_rows)

    def _certify_exactly(self, inputs: Inputs, journal: Any, max_samples: Any) -> Certificates:
        """Certify the largest expected score, without samples: every radius is known at once."""
        if max_samples is not None:
            raise ValueError(
                f"max_samples must be None for voting='soft', got {max_samples!r}. No samples are drawn, and every "
                "radius is exact."
            )
        if journal is not None:
            raise ValueError(
                f"journal must be None for voting='soft', got {journal!r}. No samples are drawn, so there is no "
                "progress to save."
            )
        exact = exact_certificates(unfrozen(self.estimator_), inputs.given, inputs.sigma)
        factor = inputs.unit if isinstance(inputs.sigma, np.ndarray) else inputs.sigma
        # One rounding in the product, one step back; an infinite radius stays one.
        radius = np.where(np.isinf(exact.radius), np.inf, np.nextafter(exact.radius * factor, 0.0))
        return Certificates(
            prediction=self.classes_[exact.prediction],
            radius=radius,
            abstained=radius == 0.0,
            provenance={"sigma": inputs.plain_sigma, "alpha": 0.0, "certifier": "exact", "version": __version__},
            feature_scale=inputs.feature_scale,
            n_features=inputs.n_noisy,
            classes=self.classes_,
        )

    def _votes(self, X: Any, wrap: Callable[[Voter], Voter] | None = None) -> IntArray:
        """Return the votes for each class; with `wrap`, cast in this process by what it makes of the voter."""
        inputs, n_jobs = self._ready(X), self.n_jobs if wrap is None else 1
        model = adapt(self.estimator_)
        X, voter, grid = model.prepare(inputs.rows), inputs.with_frames(model.voter(self.classes_)), self._grid(inputs)
        if grid is not None:
            X = _to_grid(grid, inputs, X.dtype, model)
        voter = voter if wrap is None else wrap(voter)
        sampler = Sampler(voter, inputs.noise, seed_from(self.random_state), self.batch_size, grid)
        with (
            self._show_progress("predict", len(X), self.n_votes) as progress,
            voter.evaluation_mode(),
            broadcast(sampler, n_jobs) as sent,
        ):
            executor = Executor(n_jobs, progress.advance)
            run = Run(sampler=sent, executor=executor, progress=progress, X=X, keys=inputs.keys(X))
            return count_votes(run, self.n_votes, len(self.classes_))

    def _show_progress(
        self, name: str, n_rows: int, samples_per_row: int, by_looks: bool = False
    ) -> AbstractContextManager[Progress]:
        return show_progress(
            self.verbose,
            name=name,
            n_rows=n_rows,
            samples_per_row=samples_per_row,
            by_looks=by_looks,
            workers=Executor(self.n_jobs).workers,
            advice=_SHORTER["ask" if by_looks else name],
        )

    def _certifier(self) -> BaseCertifier:
        return DirectionalCertifier() if self.certifier is None else self.certifier

    def _ready(self, X: Any) -> Inputs:
        """Check all that must hold before votes are cast: parameters may have been set after `fit`."""
        check_is_fitted(
            self,
            msg="This %(name)s instance is not fitted yet. Call 'fit' with arguments X, y first; around a trained base "
            "in a FrozenEstimator it only learns the labels.",
        )
        self._check_params()
        refuse_mappings(X)
        if len(self._input_shape) > 1:  # of images scikit-learn would compare the first axis only
            self._check_shape(np.shape(X))
        if is_frame(X) and self._frame_columns is not None:
            validate_data(self, X, reset=False, skip_check_array=True)
            return self._inputs(X)
        checked: FloatArray = validate_data(self, as_plain_array(X), reset=False, **_ACCEPTED)
        self._check_shape(checked.shape)
        return self._inputs(checked)

    def _inputs(self, X: Any) -> Inputs:
        """Return checked data with the noise that belongs to them."""
        names, units = getattr(self, "feature_names_in_", None), self._known_units()
        sigma = resolve_sigma(self.sigma, self._input_shape, names, units)
        scale = sigma if isinstance(sigma, np.ndarray) and units is None else units
        noise = sigma, radius_unit(self.sigma), scale
        if self._frame_columns is None:
            return Inputs.from_array(X, *noise)
        return Inputs.from_frame(as_frame(X, self._frame_columns), *noise)

    def _grid(self, inputs: Inputs) -> Grid | None:
        """Return the grid of exact noise, None for noise in floating point."""
        if self.noise != "exact":
            return None
        quantum = self.quantum
        if quantum is not None and not isinstance(quantum, numbers.Real):
            names = getattr(self, "feature_names_in_", None)
            quantum = one_for_each("quantum", quantum, self._input_shape, names).reshape(-1)
            if not isinstance(inputs.noise, ColumnNoise):
                raise ValueError(
                    "quantum must be one number where sigma is one number, got one for each feature. Give sigma for "
                    "each feature too."
                )
            quantum = quantum[np.asarray(inputs.sigma).reshape(-1) > 0.0]
        return make_grid(inputs.noise, quantum, inputs.n_noisy)

    def _find_units(self, X: Any) -> tuple[ColumnSigma, FloatArray] | None:
        """Return the units of the columns of training data, and what they were found by."""
        if not isinstance(self.sigma, ColumnSigma):
            return None
        columns = plain_columns(X) if is_frame(X) else list(X.reshape(len(X), -1).T)
        names = getattr(self, "feature_names_in_", None)
        return clone(self.sigma), self.sigma.find_units(columns, self._input_shape, names)

    def _known_units(self) -> FloatArray | None:
        """Return the units that `sigma` asks for, if they were found in `fit`."""
        if self._units is None or not isinstance(self.sigma, ColumnSigma):
            return None
        used, units = self._units
        return units if self.sigma.finds_the_same_units(used) else None

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if shape[1:] != self._input_shape:
            raise ValueError(
                f"X must have rows of shape {self._input_shape}, as in fit, got an array of shape {shape}. "
                + ("Give a single input as one row, X[None]." if shape == self._input_shape else "Reshape it.")
            )

    def _check_params(self) -> None:
        check_base(self.estimator)
        check_parameters(self, self._rules)
        if self.certifier is not None and not isinstance(self.certifier, BaseCertifier):
            hint = " Give an instance: add parentheses." if isinstance(self.certifier, type) else ""
            raise TypeError(
                f"certifier must be a certifier such as DipoleCertifier() or None, got {self.certifier!r}.{hint}"
            )
        self._certifier().check_params()
        if self.quantum is not None and self.noise != "exact":
            raise ValueError(
                f"quantum must be None unless noise='exact', got {self.quantum!r}. Set noise='exact', or leave it out."
            )
        self._check_training()
        if self.augmentation == "passes" and not hasattr(self.estimator, "partial_fit"):
            raise TypeError(
                f"estimator must have partial_fit for augmentation='passes', got {self.estimator!r}. "
                "Use augmentation='replicate'."
            )
        if self.augmentation == "passes" and self.n_augment < 1:
            raise ValueError(f"n_augment must be at least 1 for augmentation='passes', got {self.n_augment}.")
        if self.abstain_label is not None and hasattr(self, "classes_") and self.abstain_label in list(self.classes_):
            raise ValueError(
                f"abstain_label must not be one of the classes, got {self.abstain_label!r}. Choose a "
                "label that no input has."
            )

    def _check_training(self) -> None:
        if self.training is None:
            return
        if not isinstance(self.training, BaseRecipe):
            hint = " Give an instance: add parentheses." if isinstance(self.training, type) else ""
            raise TypeError(
                f"training must be a recipe such as smoothcert.training.Consistency() or None, got "
                f"{self.training!r}.{hint}"
            )
        check_trainable(self.estimator, self.training)
        self.training.check_params()

    def _routed(self, fit_params: dict[str, Any]) -> dict[str, Any]:
        if not routing_enabled():
            return fit_params
        routed = process_routing(self, "fit", **fit_params)
        return dict(routed.estimator.partial_fit if self.augmentation == "passes" else routed.estimator.fit)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata given to `fit` reaches the base."""
        method = "partial_fit" if self.augmentation == "passes" else "fit"
        mapping = MethodMapping().add(caller="fit", callee=method)
        return MetadataRouter(owner=type(self).__name__).add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = False
        tags.classifier_tags.multi_class = True
        return tags


def _to_grid(grid: Grid, inputs: Inputs, dtype: Any, model: Any) -> FloatArray:
    """Return rows on the grid, in the precision in which the base computes."""
    grid.check(inputs.rows, np.dtype(dtype))
    rows: FloatArray = model.prepare(grid.round(inputs.rows))
    return rows


def _too_close(first: int, second: int, alpha: float) -> bool:
    votes = int(first + second)
    return votes == 0 or binomtest(int(first), votes, 0.5).pvalue > alpha
