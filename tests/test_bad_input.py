"""Whatever is given, public functions either work or say by name what is wrong; no NaN comes out, and nothing hangs.

Warnings count as failures here: a warning from inside numpy is a wrong argument that was not noticed.
"""

import dataclasses
import inspect
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import smoothcert
from smoothcert import (
    Certificates,
    DipoleCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
    SmoothedClassifier,
    bounds,
    certify,
    confidence,
    metrics,
    tallies,
    worst_case,
)

# Anything.

dtypes = st.one_of(
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.boolean_dtypes(),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.unicode_string_dtypes(max_len=4),
    hnp.byte_string_dtypes(max_len=4),
    hnp.datetime64_dtypes(max_period="D", min_period="D"),
    st.just(np.dtype(object)),
)
numbers = st.one_of(
    st.integers(-3, 300),
    st.floats(),
    st.sampled_from([np.nan, np.inf, -np.inf, -0.0, 0.5, 1e308, 5e-324, 1e-17, 2**53 + 1, 10**30, -(10**30), True]),
)


def arrays(least_dims=0, most_dims=3):
    shapes = hnp.array_shapes(min_dims=least_dims, max_dims=most_dims, min_side=0, max_side=4)
    return dtypes.flatmap(lambda dtype: hnp.arrays(dtype, shapes, elements=numbers if dtype.hasobject else None))


anything = st.one_of(
    numbers,
    st.none(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.complex_numbers(),
    st.lists(numbers, max_size=4),
    st.lists(st.lists(numbers, max_size=2), max_size=3),
    st.dictionaries(st.text(max_size=2), numbers, max_size=2),
    st.sampled_from([object(), int, len, ..., {1, 2}, np.float32(0.5), np.bool_(True), range(3), "centred", "joint"]),
    arrays(),
)


def holds_nan(result):
    if isinstance(result, Certificates):
        return any(map(holds_nan, (result.radius, *result.limits.values(), *result.counts.values())))
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return any(holds_nan(getattr(result, f.name)) for f in dataclasses.fields(result))
    if isinstance(result, dict):
        return any(map(holds_nan, result.values()))
    if isinstance(result, tuple | list):
        return any(map(holds_nan, result))
    array = np.asarray(result)
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def works_or_names(call, names, also="", may_be_nan=False):
    """Call; a refusal must name one of the parameters (or use the words `also`)."""
    message = None
    try:
        result = call()
    except (ValueError, TypeError) as error:
        message = str(error)
    if message is None:
        assert may_be_nan or not holds_nan(result)
    else:
        pattern = "|".join([*(rf"\b{re.escape(name)}\b" for name in names), *([also] if also else [])])
        assert re.search(pattern, message), f"names none of {names}: {message}"


# Pure functions: some arguments replaced by anything.

VALID = {
    bounds.first_order_lower_bound: {"p": 0.8, "r": 1.0},
    bounds.first_order_upper_bound: {"p": 0.8, "r": 1.0},
    bounds.first_order_radius: {"p": 0.8, "p_rival": 0.1},
    bounds.second_order_lower_bound: {"p": 0.8, "grad_norm": 0.1, "r": 1.0},
    bounds.second_order_upper_bound: {"p": 0.8, "grad_norm": 0.1, "r": 1.0},
    bounds.second_order_radius: {"p": 0.8, "grad_norm": 0.1},
    bounds.second_order_multiclass_radius: {
        "p": 0.8,
        "grad_norm": 0.1,
        "p_rivals": 0.1,
        "grad_norm_rivals": 0.1,
        "grad_norm_leads": 0.1,
        "first_order": 0.5,
    },
    bounds.dipole_lower_bound: {"both": 0.7, "one_sided": 0.1, "r": 1.0},
    bounds.dipole_upper_bound: {"both": 0.7, "one_sided": 0.1, "r": 1.0},
    bounds.dipole_radius: {"both": 0.7, "one_sided": 0.1},
    bounds.second_order_dipole_lower_bound: {"both": 0.7, "one_sided": 0.1, "grad_norm": 0.1, "r": 1.0},
    bounds.second_order_dipole_upper_bound: {"both": 0.7, "one_sided": 0.1, "grad_norm": 0.1, "r": 1.0},
    bounds.second_order_dipole_radius: {"both": 0.7, "one_sided": 0.1, "grad_norm": 0.1},
    bounds.directional_lower_bound: {
        "shares": [0.9, 0.5],
        "edges": [0.0],
        "grad_norm": 0.1,
        "along": 0.3,
        "across": 0.4,
    },
    bounds.separable_radius: {"x": [0.0, 0.1], "points": [[-1.0, 1.0]] * 2, "values": [[1.0, 0.5]] * 2},
    bounds.directional_radius: {"shares": [0.9, 0.7], "edges": [0.0], "grad_norm": 0.1, "n_vertices": 24},
    bounds.directional_rival_radius: {
        "shares": [0.7, 0.5],
        "rival_shares": [0.1, 0.2],
        "edges": [0.0],
        "grad_norm": 0.1,
        "n_vertices": 24,
    },
    confidence.stratified_lower: {
        "hits": [40, 30],
        "trials": [50, 50],
        "mass": [0.5, 0.5],
        "weights": [1.0, 2.0],
        "guesses": [0.7, 0.6],
        "alpha": 0.01,
    },
    confidence.variance_proxy: {"shares": [0.03, 1.0], "exponent": 0.1, "centre": 0.97},
    confidence.share_limits: {"counts": [3, 97], "centre": 0.97, "alpha": 0.01},
    confidence.crossfit_log_capital: {"projections": [0.3, -1.2], "votes": [1, 0], "centres": 0.9, "bets": 0.01},
    confidence.crossfit_scale: {
        "gradient": 0.02,
        "masses": [1.0],
        "trials": ([500], [500]),
        "shares": [[0.03, 0.97]],
        "centres": [0.97],
        "n_features": 30,
        "alpha": 0.01,
    },
    confidence.crossfit_gradient_upper: {
        "log_capital": -1.0,
        "length": 0.05,
        "scale": 100.0,
        "masses": [1.0],
        "trials": ([500], [500]),
        "counts": [[30, 970]],
        "centres": [0.97],
        "alpha": 0.01,
    },
    confidence.adaptive_gradient_scale: {
        "gradient": 0.02,
        "masses": [1.0],
        "trials": [1000],
        "shares": [[0.03, 0.97]],
        "centres": [0.97],
        "n_features": 30,
        "alpha": 0.01,
    },
    confidence.adaptive_gradient_upper: {
        "norm_sq": 0.0004,
        "within": [400.0],
        "squares": [900.0],
        "scale": 100.0,
        "masses": [1.0],
        "counts": [[30, 970]],
        "centres": [0.97],
        "n_features": 30,
        "alpha": 0.01,
    },
    confidence.stratified_share_upper: {
        "hits": [4, 3],
        "trials": [50, 50],
        "mass": [0.5, 0.5],
        "guess": 0.1,
        "alpha": 0.01,
    },
    confidence.stratified_rival_lower: {
        "hits": [40, 30],
        "rival_hits": [5, 10],
        "trials": [50, 50],
        "mass": [0.5, 0.5],
        "weights": [1.0, 2.0],
        "rival_weights": [1.0, 2.0],
        "guesses": [0.7, 0.6],
        "rival_guesses": [0.1, 0.2],
        "alpha": 0.01,
    },
    confidence.rival_limits: {"k": 80, "k_rival": 10, "n": 100, "alpha": 0.01},
    confidence.stratified_gradient_upper: {
        "norm_sq": 0.01,
        "trials": [40, 60],
        "weights": [0.01, 0.01],
        "n_features": 5,
        "alpha": 0.01,
    },
    confidence.binomial_lower: {"k": 80, "n": 100, "alpha": 0.01},
    confidence.binomial_upper: {"k": 80, "n": 100, "alpha": 0.01},
    confidence.gradient_norm_upper: {"norm_sq": 0.01, "n": 100, "n_features": 5, "alpha": 0.01, "method": "centred"},
    confidence.joint_pair_limits: {"both": 40, "one": 20, "pairs": 70, "alpha": 0.01},
    worst_case.first_order_worst_case: {"p": 0.8},
    worst_case.second_order_worst_case: {"p": 0.8, "grad_norm": 0.1},
    worst_case.dipole_worst_case: {"both": 0.7, "one_sided": 0.1},
    worst_case.second_order_dipole_worst_case: {"both": 0.65, "one_sided": 0.12, "grad_norm": 0.12},
    metrics.certified_accuracy_score: {
        "y_true": [0, 1],
        "certificates": Certificates([0, 1], [0.1, 0.0], [False, True]),
        "radius": 0.1,
    },
    metrics.certified_accuracy_curve: {
        "y_true": [0, 1],
        "certificates": Certificates([0, 1], [0.1, 0.0], [False, True]),
        "radii": [0.0, 0.1],
    },
    metrics.certified_report: {
        "y_true": [0, 1],
        "certificates": Certificates([0, 1], [0.1, 0.0], [False, True]),
        "radii": [0.0, 0.1],
    },
    metrics.average_certified_radius: {
        "y_true": [0, 1],
        "certificates": Certificates([0, 1], [0.1, 0.0], [False, True]),
    },
    metrics.class_probability: {
        "y_true": [0, 1],
        "certificates": Certificates([0, 1], [0.1, 0.0], [False, True], counts={"hits": [9, 5], "n": [10, 10]}),
    },
    metrics.class_probability_curve: {
        "y_true": [0, 1],
        "certificates": Certificates([0, 1], [0.1, 0.0], [False, True], counts={"hits": [9, 5], "n": [10, 10]}),
        "probabilities": [0.0, 0.5],
    },
    metrics.certificate_gain: {
        "y_true": [0, 1],
        "baseline": Certificates([0, 1], [0.1, 0.0], [False, True]),
        "certificates": Certificates([0, 1], [0.1, 0.1], [False, False]),
    },
    metrics.gain_histogram: {"gain": [0.1, 0.2]},
    metrics.abstention_rate: {"certificates": Certificates([0, 1], [0.1, 0.0], [False, True])},
    metrics.make_certified_scorer: {"radius": 0.1},
    tallies.VoteTally: {"counts": [[80, 20]], "n": [100], "candidate": [0]},
    tallies.GradientTally: {
        "hits": [80],
        "n": [100],
        "grad_sum": [[1.0, 2.0]],
        "grad_sq": [60.0],
        "centre": 0.5,
        "candidate": [0],
    },
    tallies.PairTally: {
        "both": [30],
        "one": [10],
        "pairs": [50],
        "one_plus": [5],
        "grad_sum": [[1.0, 2.0]],
        "grad_sq": [9.0],
        "candidate": [0],
    },
    Certificates: {"prediction": [0, 1], "radius": [0.1, 0.0], "abstained": [False, True]},
}


def test_every_public_function_is_here():
    public = {getattr(room, name) for room in (bounds, confidence, metrics) for name in room.__all__}
    public |= {value for name, value in vars(worst_case).items() if inspect.isfunction(value) and name[0] != "_"}
    public = {f for f in public if getattr(f, "__module__", "").startswith("smoothcert.")} - {
        metrics.CertifiedReport,
        metrics.CertifiedScorer,
        confidence.StratifiedLimit,
        confidence.StratifiedRivalLimit,
    }
    helpers = {f for f in public if f.__module__.endswith(("_validation", "_numerics"))}
    assert {f.__name__ for f in public - helpers - set(VALID)} - _imported_into(worst_case) == set()


def _imported_into(room):
    return {name for name, value in vars(room).items() if getattr(value, "__module__", room.__name__) != room.__name__}


@pytest.mark.parametrize("function", VALID, ids=lambda f: f.__name__)
def test_valid_arguments_work(function):
    assert not holds_nan(function(**VALID[function]))


@pytest.mark.parametrize("function", VALID, ids=lambda f: f.__name__)
@settings(max_examples=60)
@given(data=st.data())
def test_functions(function, data):
    names = data.draw(st.sets(st.sampled_from(sorted(VALID[function])), min_size=1, max_size=2))
    spoiled = {name: data.draw(anything, label=name) for name in sorted(names)}
    # Where two arguments do not fit together, the message may be about the other one.
    # A gain is NaN, and documented to be, where neither certificate holds.
    may_be_nan = function is metrics.certificate_gain
    works_or_names(lambda: function(**{**VALID[function], **spoiled}), VALID[function], may_be_nan=may_be_nan)


@settings(max_examples=100)
@given(st.integers(0, 400), st.integers(0, 400), st.integers(1, 400), st.floats(1e-300, 1 - 1e-16))
def test_counts_and_levels_of_all_sizes(both, one, pairs, alpha):
    """Numbers of the right kind never give NaN, whatever they are together."""
    works_or_names(lambda: confidence.joint_pair_limits(both, one, pairs, alpha), ["both", "one", "pairs", "alpha"])
    works_or_names(lambda: confidence.binomial_lower(both, pairs, alpha), ["k", "n"])
    works_or_names(lambda: confidence.binomial_upper(both, pairs, alpha), ["k", "n"])
    for method in ("centred", "paper"):
        works_or_names(
            lambda m=method: confidence.gradient_norm_upper(one / 400, pairs, both, alpha, m), ["n_features", "n"]
        )


# Tallies.


@settings(max_examples=100)
@given(anything, anything)
def test_certify_tally_refuses_what_is_no_tally(thing, alpha):
    for certifier in (FirstOrderCertifier(), SecondOrderCertifier(), DipoleCertifier(), SecondOrderDipoleCertifier()):
        with pytest.raises(TypeError, match="tally must be a"):
            certifier.certify_tally(thing)
        tally = tallies.VoteTally([[80, 20]], [100], [0])
        works_or_names(lambda t=tally, a=alpha: FirstOrderCertifier(alpha=a).certify_tally(t), ["alpha"])


# Certifier parameters, through the estimator.

X = np.array([[0.0, 0.1], [1.0, 0.9], [0.2, 0.0], [0.8, 1.0]])
Y = np.array([0, 1, 0, 1])
CERTIFIER_PARAMETERS = [
    (kind, name)
    for kind in (FirstOrderCertifier, SecondOrderCertifier, DipoleCertifier, SecondOrderDipoleCertifier)
    for name in kind().get_params()
]


def fitted(**parameters):
    certifier = FirstOrderCertifier(n_samples=50, n_selection=10)
    settings = {"sigma": 0.3, "certifier": certifier, "n_augment": 1, "n_votes": 20, "random_state": 0, **parameters}
    return SmoothedClassifier(GaussianNB(), **settings).fit(X, Y)


# Work takes as long as it is asked to take; numbers of samples beyond these are no bad input.
small = anything.filter(lambda value: not (isinstance(value, int) and not isinstance(value, bool) and value > 1000))


@pytest.mark.parametrize(("kind", "name"), CERTIFIER_PARAMETERS, ids=lambda v: getattr(v, "__name__", v))
@pytest.mark.filterwarnings("ignore:n_samples=.* can prove nothing")
@settings(max_examples=30)
@given(value=small)
def test_certifier_parameters(kind, name, value):
    clf = fitted().set_params(certifier=kind(**{"n_samples": 50, "n_selection": 10, name: value}))
    works_or_names(lambda: clf.certify(X[:1]), [name])


ESTIMATOR_PARAMETERS = [name for name in inspect.signature(SmoothedClassifier).parameters if name != "verbose"]


@pytest.mark.parametrize("name", ESTIMATOR_PARAMETERS)
@settings(max_examples=30)
@given(value=small)
def test_estimator_parameters(name, value):
    if name == "n_jobs" and isinstance(value, int | np.integer) and value not in (0, 1):
        value = 0  # starting processes is tested elsewhere
    parameters = {"estimator": GaussianNB(), "certifier": FirstOrderCertifier(50, 10), "n_augment": 1, "n_votes": 20}
    clf = SmoothedClassifier(**{**parameters, name: value})
    works_or_names(lambda: clf.fit(X, Y).predict_proba(X), [name])
    other = fitted().set_params(**{name: value})  # also after the fit
    works_or_names(lambda: other.certify(X[:1]), [name])
    works_or_names(lambda: other.predict_proba(X[:1]), [name])


# Data.

SKLEARN_WORDS = "SmoothedClassifier|Complex data|array|sample|feature|sparse|dtype|label|class|[Ii]nput|datetime|float"


@settings(max_examples=150)
@given(st.one_of(anything, arrays(2, 4)))
def test_inputs(thing):
    clf = fitted()
    for method in (clf.predict, clf.predict_proba, clf.certify, lambda value: certify(clf, value)):
        works_or_names(lambda m=method: m(thing), ["X"], also=SKLEARN_WORDS)


@settings(max_examples=150)
@given(st.one_of(anything, arrays(2, 3)), st.one_of(st.just(Y), anything, arrays(1, 2)))
def test_training_data(thing, labels):
    clf = SmoothedClassifier(
        LogisticRegression(max_iter=50), certifier=FirstOrderCertifier(50, 10), n_augment=1, random_state=0
    )

    def fit_and_certify():
        with np.errstate(all="ignore"):  # the base computes as it likes
            found = clf.fit(thing, labels).certify(np.asarray(thing)[:1])
        assert not (found.radius[~found.abstained] == 0).any()
        return found

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence of the base, columns taken for labels
        works_or_names(fit_and_certify, ["X", "y"], also=SKLEARN_WORDS)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, object])
def test_no_certificate_for_what_is_no_number(value, dtype):
    bad = X.astype(dtype)
    bad[1, 1] = value
    for method in ("predict", "predict_proba", "certify"):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            getattr(fitted(), method)(bad)


@pytest.mark.parametrize("n_missing", [1, 4, 64])
def test_a_base_that_votes_for_nan(n_missing):
    """Labels that are no labels are an error, never a vote."""

    class Broken(GaussianNB):
        def predict(self, X):
            labels = super().predict(X).astype(float)
            labels[:n_missing] = np.nan
            return labels

    clf = fitted()
    clf.estimator_ = Broken().fit(X, Y)
    with pytest.raises(ValueError, match="labels it was trained on, got"):
        clf.certify(X[:1])


@settings(max_examples=60)
@given(anything, st.sampled_from(["estimator", "X"]))
def test_certify_function(thing, name):
    arguments = {"estimator": fitted(), "X": X[:1], name: thing}
    works_or_names(lambda: certify(**arguments), [name], also=SKLEARN_WORDS if name == "X" else "")


@settings(max_examples=60)
@given(st.one_of(st.integers(), st.none(), st.floats(), st.lists(st.integers()), st.just(object())))
def test_journal_paths(thing):
    with pytest.raises(TypeError, match="path must be the path of a file"):
        smoothcert.read_journal(thing)
    if thing is not None:
        with pytest.raises(TypeError, match="journal must be the path of a file"):
            fitted().certify(X[:1], journal=thing)


def test_a_journal_in_place_of_labels():
    with pytest.raises(ValueError, match=r"y must have one label for each of the 3 inputs, got .*run.sqlite.*by name"):
        fitted().certify(X[:3], "run.sqlite")


@settings(max_examples=60)
@given(st.binary(max_size=400))
def test_files_of_any_content(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("files") / "file"
    path.write_bytes(content)
    for read in (Certificates.load, smoothcert.read_journal):
        with pytest.raises((ValueError, OSError), match=r"path must|journal must|journal '"):
            read(path)
