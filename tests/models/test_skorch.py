"""Neural bases through skorch: training noise, votes, devices, mistakes."""

import pickle

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier  # noqa: E402
from skorch.callbacks import Callback  # noqa: E402
from torch import nn  # noqa: E402

from smoothcert import (  # noqa: E402
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
    SmoothedClassifier,
)
from smoothcert.metrics import make_certified_scorer  # noqa: E402

IMAGES, DIGITS = load_digits(return_X_y=True)
IMAGES = (IMAGES / 16).astype(np.float32)
CERTIFIERS = [
    FirstOrderCertifier,
    SecondOrderCertifier,
    DipoleCertifier,
    SecondOrderDipoleCertifier,
    DirectionalCertifier,
]


class Linear(nn.Module):
    def __init__(self, n_in=64, n_out=10):
        super().__init__()
        self.layer = nn.Linear(n_in, n_out)

    def forward(self, X):
        return self.layer(X.flatten(1))


class Halves(nn.Module):
    """Class 1 where the first feature is below one half."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, X):
        z = 0.5 - X.flatten(1)[:, :1]
        return torch.cat([-z, z], dim=1)


def net(module=Linear, **parameters):
    settings = {"criterion": nn.CrossEntropyLoss, "max_epochs": 3, "lr": 0.1, "train_split": None, "verbose": 0}
    return NeuralNetClassifier(module, **{**settings, **parameters})


def smoothed(base=None, **parameters):
    settings = {"sigma": 0.3, "certifier": FirstOrderCertifier(2000), "n_votes": 100, "random_state": 0}
    return SmoothedClassifier(net() if base is None else base, **{**settings, **parameters})


def test_trains_and_certifies_with_any_labels():
    labels = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[DIGITS]
    clf = smoothed(net(max_epochs=15)).fit(IMAGES, labels)
    assert clf.score(IMAGES[:300], labels[:300]) > 0.75
    certificates = clf.certify(IMAGES[:10])
    assert set(certificates.prediction) <= set(labels)
    assert (certificates.radius > 0).mean() > 0.5
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.certify(IMAGES[:10]).radius, certificates.radius)


@pytest.mark.parametrize("certifier", CERTIFIERS)
def test_votes_are_right_on_a_half_space(certifier):
    X = np.zeros((2, 1, 3, 3), dtype=np.float32)
    frozen = FrozenEstimator(net(Halves).initialize())
    clf = smoothed(frozen, sigma=0.5, certifier=certifier(20_000)).fit(X, [0, 1])
    certificates = clf.certify(X[:1])
    assert certificates.prediction == 1
    assert 0.44 < certificates.radius[0] < 0.5


def test_noise_is_fresh_in_every_batch_and_only_in_training():
    seen = {True: [], False: []}

    class Recorder(Linear):
        def forward(self, X):
            seen[self.training].append(X.detach().clone())
            return super().forward(X)

    X = np.zeros((40, 64), dtype=np.float32)
    base = net(Recorder, max_epochs=2, batch_size=20, train_split=skorch.dataset.ValidSplit(4))
    smoothed(base, sigma=0.7).fit(X, np.arange(40) % 10)
    batches = seen[True]
    assert len(batches) >= 4
    noise = torch.cat(batches)
    # Five standard deviations of the standard deviation of some 4,000 normals.
    assert abs(float(noise.std()) / 0.7 - 1) < 5 / np.sqrt(2 * noise.numel())
    assert len(torch.unique(noise)) == noise.numel()
    assert all(not batch.any() for batch in seen[False])  # validation sees the data as they are


def test_training_is_reproducible_and_leaves_the_random_state_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, two = smoothed().fit(IMAGES[:200], DIGITS[:200]), smoothed().fit(IMAGES[:200], DIGITS[:200])
    assert torch.equal(before, torch.random.get_rng_state())
    for a, b in zip(one.estimator_.module_.parameters(), two.estimator_.module_.parameters(), strict=True):
        assert torch.equal(a, b)
    other = smoothed(random_state=1).fit(IMAGES[:200], DIGITS[:200])
    assert not torch.equal(next(other.estimator_.module_.parameters()), next(one.estimator_.module_.parameters()))


class Failing(Callback):
    def on_epoch_end(self, net, **kwargs):
        raise RuntimeError("stopped by a callback")


def test_nothing_of_the_noise_remains():
    kept = Callback()
    base = net(callbacks=[("mine", kept)])
    clf = smoothed(base).fit(IMAGES[:100], DIGITS[:100])
    assert not clf.estimator_.module_._forward_pre_hooks
    assert [name for name, _ in clf.estimator_.callbacks] == ["mine"]
    assert "smoothcert_noise" not in dict(clf.estimator_.callbacks_)
    assert base.callbacks == [("mine", kept)]
    failing = net(callbacks=[Failing()])
    model = smoothed(failing)
    modules = []

    class Remember(Callback):
        def on_train_begin(self, net, **kwargs):
            modules.append(net.module_)

    failing.callbacks.append(Remember())
    with pytest.raises(RuntimeError, match="stopped by a callback"):
        model.fit(IMAGES[:100], DIGITS[:100])
    assert not modules[0]._forward_pre_hooks


@pytest.mark.parametrize("callbacks", [None, "disable", []])
def test_callbacks_of_all_kinds(callbacks):
    smoothed(net(callbacks=callbacks)).fit(IMAGES[:100], DIGITS[:100])


def assert_same(one, other):
    np.testing.assert_array_equal(one.radius, other.radius)
    for name, value in one.counts.items():
        np.testing.assert_array_equal(value, other.counts[name])


@pytest.mark.parametrize("certifier", CERTIFIERS)
def test_same_results_whatever_the_batch_the_jobs_and_the_order(certifier):
    clf = smoothed(certifier=certifier(6000)).fit(IMAGES[:300], DIGITS[:300])
    inputs = IMAGES[:5]
    reference = clf.certify(inputs)
    for batch_size in (300, 2048, 100_000):
        assert_same(clf.set_params(batch_size=batch_size).certify(inputs), reference)
    clf.set_params(batch_size=None)
    with parallel_config(backend="loky", n_jobs=2):
        assert_same(clf.certify(inputs), reference)
    assert_same(clf.certify(inputs[::-1]), reference[::-1])
    assert_same(clf.certify(inputs[2:3]), reference[2])


def test_pretrained_nets():
    trained = net(max_epochs=10).fit(IMAGES, DIGITS.astype(np.int64))
    weight = trained.module_.layer.weight.detach().clone()
    clf = smoothed(FrozenEstimator(trained), sigma=0.05).fit(IMAGES[:20], DIGITS[:20])
    assert torch.equal(weight, clf.estimator_.estimator.module_.layer.weight)
    assert (clf.certify(IMAGES[:20]).prediction == DIGITS[:20]).mean() > 0.8
    # Weights loaded into a net that was never fitted here: labels are the numbers of its outputs.
    fresh = net().initialize()
    fresh.module_.load_state_dict(trained.module_.state_dict())
    again = smoothed(FrozenEstimator(fresh), sigma=0.05).fit(IMAGES[:5], DIGITS[:5])
    assert len(again.classes_) == 10
    assert_same(again.certify(IMAGES[:20]), clf.certify(IMAGES[:20]))


def test_binary_nets():
    X, y = IMAGES[DIGITS < 2], DIGITS[DIGITS < 2]

    class One(Linear):
        def forward(self, X):
            return super().forward(X).squeeze(-1)

    base = NeuralNetBinaryClassifier(One, module__n_out=1, max_epochs=10, lr=0.1, train_split=None, verbose=0)
    clf = smoothed(base).fit(X, np.array(["zero", "one"])[y])
    assert clf.score(X, np.array(["zero", "one"])[y]) > 0.9


def test_nan_outputs_are_no_votes():
    class Broken(Halves):
        def forward(self, X):
            out = super().forward(X)
            return torch.where(X[:, :1] > 0, torch.nan, out)

    X = np.zeros((2, 3), dtype=np.float32)
    clf = smoothed(FrozenEstimator(net(Broken).initialize()), certifier=FirstOrderCertifier(4000)).fit(X, [0, 1])
    certificates = clf.certify(X[:1])
    votes = certificates.counts["votes"][0]
    assert 1800 < votes.sum() < 2200  # about half of the copies give NaN
    assert certificates.counts["n"] == 4000


def test_grid_search_over_sigma_and_learning_rate():
    search = GridSearchCV(
        smoothed(certifier=DipoleCertifier(200)),
        {"sigma": [0.1, 0.3], "estimator__lr": [0.01, 0.1]},
        scoring=make_certified_scorer(0.05),
        cv=2,
        error_score="raise",
    ).fit(IMAGES[:200], DIGITS[:200])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_doubles_are_cast_and_the_float32_classifier_is_certified():
    clf = smoothed().fit(IMAGES.astype(np.float64), DIGITS)
    double, single = clf.certify(IMAGES[:3].astype(np.float64)), clf.certify(IMAGES[:3])
    np.testing.assert_array_equal(double.counts["votes"], single.counts["votes"])
    # An adversary's input is cast as well.
    assert np.all(double.radius <= single.radius)
    np.testing.assert_allclose(double.radius, single.radius, atol=1e-6)


class Picky(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 10, 8)

    def forward(self, X):
        return self.layer(X).flatten(1)


def test_a_bare_module_is_to_be_wrapped():
    with pytest.raises(
        TypeError, match=r"estimator must be .* got the module Sequential\. Wrap it.*NeuralNetClassifier"
    ):
        SmoothedClassifier(nn.Sequential(nn.Linear(2, 2))).fit(np.zeros((4, 2)), [0, 1, 0, 1])


def test_mistakes_get_clear_errors():
    pictures = IMAGES.reshape(-1, 1, 8, 8)
    with pytest.raises(ValueError, match=r"X must fit the net, got rows of shape \(1, 8, 8\)"):
        smoothed(net(Picky)).fit(pictures, DIGITS)
    with pytest.raises(ValueError, match="floating point images, got uint8"):
        smoothed().fit((pictures * 255).astype(np.uint8), DIGITS)
    for wrong in (9, 11):
        with pytest.raises(
            ValueError, match=rf"one output for each of the 10 classes in y, got outputs of shape \({wrong},\)"
        ):
            smoothed(net(nn.Sequential(nn.Linear(64, wrong)))).fit(IMAGES, DIGITS)
    with pytest.raises(TypeError, match=r"got the module Sequential\. Wrap it"):
        smoothed(FrozenEstimator(nn.Sequential(nn.Linear(64, 10)))).fit(IMAGES, DIGITS)
    with pytest.raises(TypeError, match=r"got the class Picky\. Wrap it"):
        smoothed(Picky).fit(IMAGES, DIGITS)
    with pytest.warns(UserWarning, match="X contains bytes up to 255, and sigma=0.3"):
        smoothed().fit((IMAGES * 255).astype(np.uint8), DIGITS)
    with pytest.raises(TypeError, match="X must be one array, got a mapping"):
        smoothed().fit({"X": IMAGES}, DIGITS)
    with pytest.raises(ValueError, match="must be initialised"):
        smoothed(FrozenEstimator(net())).fit(IMAGES, DIGITS)
    frozen = FrozenEstimator(net().fit(IMAGES, DIGITS.astype(np.int64)))
    with pytest.raises(ValueError, match=r"labels the frozen net was trained on, got .*1\d"):
        smoothed(frozen).fit(IMAGES, DIGITS + 3)
    with pytest.raises(ValueError, match="one output for each of the 10 classes"):
        smoothed(net(module__n_out=12)).fit(IMAGES, DIGITS).certify(IMAGES[:1])
    clf = smoothed().fit(pictures, DIGITS)
    with pytest.raises(ValueError, match=r"rows of shape \(1, 8, 8\), as in fit"):
        clf.certify(pictures[:, :, :4])


def test_logits_under_the_default_criterion_are_warned_of():
    wrong = smoothed(net(criterion=nn.NLLLoss, max_epochs=1))
    # The logarithm of a logit below 0 is no number.
    with (
        pytest.warns(UserWarning, match=r"criterion=torch\.nn\.CrossEntropyLoss"),
        pytest.raises(FloatingPointError, match="The loss must be finite, got nan"),
    ):
        wrong.fit(IMAGES[:50], DIGITS[:50])

    class Proper(Linear):
        def forward(self, X):
            return super().forward(X).softmax(-1)

    smoothed(net(Proper, criterion=nn.NLLLoss, max_epochs=1)).fit(IMAGES[:50], DIGITS[:50])


def test_other_devices_are_asked_for_their_own_noise():
    from smoothcert._noise._torch import TorchArrays

    arrays = TorchArrays("meta")
    room = arrays.empty(4, arrays.row(np.zeros((2, 3))))
    assert room.device.type == "meta"
    assert room.shape == (4, 6)
    assert arrays.default_batch_size(49) > TorchArrays("cpu").default_batch_size(49)


class ShapeSetter(Callback):
    """Makes a module for the given data, as skorch users do."""

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        net.set_params(module__n_in=int(np.prod(X.shape[1:])), module__n_out=int(y.max()) + 1)

    def __repr__(self):  # without an address, so that parallel test runners agree on names
        return "ShapeSetter()"


CHECKED = NeuralNetClassifier(
    Linear,
    criterion=nn.CrossEntropyLoss,
    optimizer=torch.optim.Adam,
    max_epochs=40,
    lr=0.05,
    train_split=None,
    verbose=0,
    callbacks=[ShapeSetter()],
)


@pytest.mark.slow
@parametrize_with_checks(
    [SmoothedClassifier(CHECKED, sigma=0.05, n_votes=32, certifier=certifier()) for certifier in CERTIFIERS[:1]]
)
def test_scikit_learn_estimator_checks(estimator, check):
    check(clone(estimator))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_compiled_nets_train_with_the_same_noise_and_certify_alike():
    """Compilation without code generation: what is tested is that noise reaches a module wrapped by torch.compile."""

    def fitted(**settings):
        torch.manual_seed(0)
        net = NeuralNetClassifier(
            Linear(), criterion=nn.CrossEntropyLoss, max_epochs=2, lr=0.1, train_split=None, verbose=0, **settings
        )
        clf = SmoothedClassifier(net, sigma=0.5, certifier=FirstOrderCertifier(2000), random_state=0)
        return clf.fit(IMAGES[:300], DIGITS[:300])

    plain, compiled = fitted(), fitted(compile=True, compile__backend="eager")
    assert type(compiled.estimator_.module_).__name__ == "OptimizedModule"
    weights = [dict(m.estimator_.module_.named_parameters()).values() for m in (plain, compiled)]
    for a, b in zip(*weights, strict=True):
        torch.testing.assert_close(a, b)
    quiet = clone(compiled).set_params(sigma=1e-6).fit(IMAGES[:300], DIGITS[:300])
    assert not torch.allclose(next(iter(weights[1])), next(quiet.estimator_.module_.parameters()))
    alone = compiled.certify(IMAGES[:4])
    np.testing.assert_array_equal(plain.certify(IMAGES[:4]).prediction, alone.prediction)
    with parallel_config(backend="loky", n_jobs=2):
        np.testing.assert_array_equal(compiled.certify(IMAGES[:4]).radius, alone.radius)


def test_no_two_blocks_of_an_input_share_their_noise():
    from smoothcert._noise import Seed
    from smoothcert._noise._torch import _number

    def beginning(number):
        return torch.empty(20).normal_(generator=torch.Generator().manual_seed(number))

    # What makes it necessary: torch reads no more than 32 bits.
    assert torch.equal(beginning(5), beginning(5 + 2**32))
    numbers = [_number(Seed(2**100, stage, 2**127 - 1, block)) for stage in range(6) for block in range(50_000)]
    assert len({number % 2**32 for number in numbers}) == len(numbers)
    assert max(numbers) < 2**63
    elsewhere = [_number(Seed(2**100, stage, 3, block)) for stage in range(6) for block in range(50_000)]
    # Two inputs meet by chance: about 300,000^2 / 2^32 = 21 times; far fewer or more than 60 would be no chance.
    assert len({n % 2**32 for n in numbers} & {n % 2**32 for n in elsewhere}) < 60
    with pytest.raises(ValueError, match="n_samples"):
        _number(Seed(0, 0, 0, 2**28))


def test_seeds_of_torch_look_random():
    from smoothcert._noise import Seed
    from smoothcert._noise._torch import _number

    bits = np.array([[_number(Seed(1, 3, 9, block)) >> bit & 1 for bit in range(32)] for block in range(20_000)])
    # Each bit, and each pair of bits, is balanced; five and a half standard deviations, 528 tests, 1e-5 of false alarm.
    correlation = (2.0 * bits - 1.0).T @ (2.0 * bits - 1.0) / np.sqrt(len(bits))
    np.fill_diagonal(correlation, 0.0)
    assert np.max(np.abs(correlation)) < 5.5
    assert np.max(np.abs((2.0 * bits - 1.0).sum(axis=0))) / np.sqrt(len(bits)) < 5.5


def test_tensors_are_as_good_as_arrays():
    pictures = IMAGES.reshape(-1, 1, 8, 8)[:300]
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    fitted = smoothed(net(module)).fit(torch.tensor(pictures), torch.tensor(DIGITS[:300]))
    expected = smoothed(net(module)).fit(pictures, DIGITS[:300]).certify(pictures[:3])
    np.testing.assert_array_equal(fitted.certify(torch.tensor(pictures[:3])).radius, expected.radius)
    with pytest.raises(ValueError, match="floating point images, got uint8"):
        fitted.certify(torch.zeros(2, 1, 8, 8, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"got an array of shape \(2, 8, 8, 1\)\. Reshape it"):
        fitted.certify(np.zeros((2, 8, 8, 1)))
    with pytest.raises(ValueError, match=r"one row, X\[None\]"):
        fitted.certify(np.zeros((1, 8, 8)))
