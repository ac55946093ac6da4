"""Recipes in the training of skorch nets: nothing of the net is lost, changed or left behind."""

import contextlib
import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from helpers import recipes_under_test  # noqa: E402
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier  # noqa: E402
from skorch.callbacks import Callback, Checkpoint, EpochScoring, GradientNormClipping, LRScheduler  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from smoothcert import FirstOrderCertifier, SmoothedClassifier  # noqa: E402
from smoothcert.metrics import make_certified_scorer  # noqa: E402
from smoothcert.training import MACER, BaseRecipe, Consistency, GaussianNoise, SmoothAdv, SmoothMix  # noqa: E402
from smoothcert.training._fit import fit_net  # noqa: E402

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = (DIGITS[:200] / 16).astype(np.float32)
LABELS = LABELS[:200]
FEW = {"max_epochs": 2, "batch_size": 50, "lr": 0.05, "train_split": None, "verbose": 0}
RECIPES = recipes_under_test.ALL
by_name = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.__name__)


class Linear(nn.Module):
    def __init__(self, n_in=64, n_out=10):
        super().__init__()
        self.layer = nn.Linear(n_in, n_out)

    def forward(self, X):
        return self.layer(X.flatten(1))


class Probabilities(Linear):
    def forward(self, X):
        return super().forward(X).softmax(dim=-1)


class Failing(Callback):
    def __init__(self, epoch=1):
        self.epoch = epoch

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) == self.epoch:
            raise RuntimeError("stopped by a callback")


def make_net(module=Linear, kind=NeuralNetClassifier, **settings):
    if kind is NeuralNetClassifier:
        settings.setdefault("criterion", nn.CrossEntropyLoss)
    return kind(module, **{**FEW, **settings})


def smoothed(training=None, net=None, **settings):
    settings = {"sigma": 0.3, "random_state": 0, "certifier": FirstOrderCertifier(200), "n_votes": 50, **settings}
    return SmoothedClassifier(make_net() if net is None else net, training=training, **settings)


def weights(clf):
    return torch.cat([weight.detach().flatten() for weight in clf.estimator_.module_.parameters()])


def small(recipe):
    """A recipe with few steps."""
    settings = {"n_steps": 2, "copies": 4, "warmup": 1}
    return recipe(**{name: value for name, value in settings.items() if name in recipe().get_params()})


# The same bits, and the right ones ----------------------------------------------------------------------------------


def test_none_is_noise_in_every_batch_to_the_last_bit():
    """Against a loop over the batches with torch alone."""
    clf = smoothed(net=make_net(iterator_train__shuffle=True)).fit(DIGITS, LABELS)
    seed = 0  # what random_state=0 comes to
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = Linear()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
        generator = torch.Generator().manual_seed(seed)
        pairs = torch.utils.data.TensorDataset(torch.tensor(DIGITS), torch.tensor(LABELS))
        for _ in range(2):
            for x, y in torch.utils.data.DataLoader(pairs, batch_size=50, shuffle=True):
                optimizer.zero_grad()
                F.cross_entropy(module(x + 0.3 * torch.randn(x.shape, generator=generator)), y).backward()
                optimizer.step()
    assert torch.equal(weights(clf), torch.cat([weight.detach().flatten() for weight in module.parameters()]))
    assert torch.equal(weights(smoothed(GaussianNoise(), clone(clf.estimator)).fit(DIGITS, LABELS)), weights(clf))


def plain_loss(recipe, module, x, y, noise, generator):
    """The loss of a recipe with default settings at sigma 0.5 in its second epoch of two, one copy at a time."""
    m, n = noise.shape[:2]
    if isinstance(recipe, SmoothAdv | SmoothMix):
        points = []
        radius = 0.5 if isinstance(recipe, SmoothAdv) else float("inf")
        length = 1.0 / recipe.n_steps if isinstance(recipe, SmoothAdv) else 1.0
        for j in range(n):
            point = x[j]
            for _ in range(recipe.n_steps):
                point = point.detach().requires_grad_(True)
                mean = sum(module((point + noise[i, j])[None])[0].softmax(-1) for i in range(m)) / m
                (slope,) = torch.autograd.grad(-mean[y[j]].log(), point)
                point = point.detach() + length * slope / slope.norm()
                if (point - x[j]).norm() > radius:
                    point = x[j] + (point - x[j]) * radius / (point - x[j]).norm()
            points.append(point.detach())
        moved = torch.stack(points)
    base = moved if isinstance(recipe, SmoothAdv) else x
    logits = [module(base + noise[i]) for i in range(m)]
    p = [each.softmax(-1) for each in logits]
    mean = sum(p) / m
    loss = sum(F.cross_entropy(each, y) for each in logits) / m
    if isinstance(recipe, Consistency):
        loss = loss + 5 * sum((mean * (mean / each).log()).sum(-1).mean() for each in p) / m
        loss = loss - 0.5 * (mean * mean.log()).sum(-1).mean()
    if isinstance(recipe, MACER):
        loss = -mean[torch.arange(n), y].log().mean()
        scores = sum((16 * each).softmax(-1) for each in logits) / m
        normal = torch.distributions.Normal(0.0, 1.0)
        for j in range(n):
            first, second = scores[j].topk(2).values
            distance = normal.icdf(first) - normal.icdf(second)
            if scores[j].argmax() == y[j] and torch.isfinite(distance) and distance <= 8:
                loss = loss + 16 * 0.5 / 2 * (8 - distance) / n
    if isinstance(recipe, SmoothMix):
        u = torch.rand(n, generator=generator)[:, None] / 2
        target = (1 - u) * mean + u / mean.shape[1]
        right = (mean.argmax(-1) == y).float()
        for i in range(m):
            q = module((1 - u) * x + u * moved + noise[i]).softmax(-1)
            loss = loss + 5 * 1.0 * (right * (target * (target / q).log()).sum(-1)).mean() / m
    return loss


@pytest.mark.parametrize(
    "recipe",
    [
        GaussianNoise(copies=3, chunking=None),
        Consistency(chunking=None),
        MACER(chunking=None, copies=5, warmup=0),
        SmoothAdv(chunking=None, n_steps=3, warmup=1),
        SmoothMix(chunking=None, n_steps=3, warmup=1),
    ],
    ids=lambda recipe: type(recipe).__name__,
)
def test_a_training_step_is_the_one_of_a_plain_loop(recipe):
    x, y = torch.tensor(DIGITS[:20]), torch.tensor(LABELS[:20])
    clf = smoothed(recipe, make_net(max_epochs=1, batch_size=20, lr=0.1), sigma=0.5).fit(x.numpy(), y.numpy())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Linear()
    generator = torch.Generator().manual_seed(0)
    noise = 0.5 * torch.randn((recipe.copies, *x.shape), generator=generator)
    loss = plain_loss(recipe, module, x, y, noise, generator)
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    expected = torch.cat(
        [(w - 0.1 * g).detach().flatten() for w, g in zip(module.parameters(), gradients, strict=True)]
    )
    np.testing.assert_allclose(weights(clf), expected, atol=1e-6)
    assert clf.estimator_.history[-1, "train_loss"] == pytest.approx(float(loss.detach()), abs=1e-5)


@by_name
def test_training_can_be_repeated_and_leaves_the_random_state_alone(recipe):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, two = (smoothed(small(recipe)).fit(DIGITS, LABELS) for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(weights(one), weights(two))
    other = smoothed(small(recipe), random_state=1).fit(DIGITS, LABELS)
    assert not torch.equal(weights(one), weights(other))


# All kinds of nets --------------------------------------------------------------------------------------------------


@by_name
def test_rows_images_probabilities_and_two_classes(recipe):
    names = np.array(list("abcdefghij"))[LABELS]
    images = smoothed(small(recipe), make_net(max_epochs=8)).fit(DIGITS.reshape(-1, 1, 8, 8), names)
    rows = smoothed(small(recipe), make_net(max_epochs=8)).fit(DIGITS, names)
    assert torch.equal(weights(images), weights(rows))
    assert images.score(DIGITS.reshape(-1, 1, 8, 8), names) > 0.6
    likely = make_net(Probabilities, criterion=nn.NLLLoss, max_epochs=1)
    likely = smoothed(small(recipe), likely).fit(DIGITS, names)
    once = smoothed(small(recipe), make_net(max_epochs=1)).fit(DIGITS, names)
    np.testing.assert_allclose(weights(likely), weights(once), atol=1e-4)
    two = LABELS < 2
    binary = make_net(kind=NeuralNetBinaryClassifier, module__n_out=1, max_epochs=8, batch_size=10)
    binary = smoothed(small(recipe), binary).fit(DIGITS[two], names[two])
    assert binary.score(DIGITS[two], names[two]) > 0.9


@pytest.mark.parametrize("recipe", [Consistency(chunking=None), SmoothAdv(chunking=None, n_steps=2), MACER(warmup=0)])
def test_a_binary_net_learns_what_a_net_with_two_outputs_learns(recipe):
    """One logit z is the pair of logits 0 and z."""

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 1)

        def forward(self, X):
            z = self.layer(X)
            return torch.cat([torch.zeros_like(z), z], dim=1)

    two = LABELS < 2
    settings = {"batch_size": 40, "max_epochs": 3}
    pair = smoothed(recipe, make_net(Pair, **settings)).fit(DIGITS[two], LABELS[two])
    one = make_net(kind=NeuralNetBinaryClassifier, module__n_out=1, **settings)
    one = smoothed(recipe, one).fit(DIGITS[two], LABELS[two])
    np.testing.assert_allclose(weights(one), weights(pair), atol=1e-5)


def test_outputs_of_all_kinds_become_logits():
    from smoothcert.training._outputs import logits_from

    p = torch.tensor([[0.2, 0.8], [0.5, 0.5]])
    custom = type("Custom", (nn.Module,), {})

    def probabilities(net, output):
        return logits_from(net, output)(output).softmax(-1)

    logits = p.log() + torch.tensor([[1.0], [-3.0]])
    for criterion, output, settings in (
        (nn.CrossEntropyLoss, logits, {}),
        (nn.NLLLoss, p, {}),
        (custom, p, {}),
        (custom, logits, {}),
        (custom, logits, {"predict_nonlinearity": lambda output: output.softmax(-1)}),
        (nn.CrossEntropyLoss, (logits, "more"), {}),
        (nn.CrossEntropyLoss, logits.bfloat16(), {}),
    ):
        found = probabilities(NeuralNetClassifier(Linear, criterion=criterion, **settings).initialize(), output)
        np.testing.assert_allclose(found, p, atol=3e-2 if criterion is nn.CrossEntropyLoss else 1e-6)
        assert found.dtype == torch.float32
    for criterion, output in ((nn.BCEWithLogitsLoss, torch.logit(p[:, 1])), (nn.BCELoss, p[:, 1])):
        net = NeuralNetBinaryClassifier(Linear, module__n_out=1, criterion=criterion).initialize()
        np.testing.assert_allclose(probabilities(net, output), p, atol=1e-6)
    plain = skorch.NeuralNet(Linear, criterion=nn.NLLLoss).initialize()  # it does not take logarithms itself
    np.testing.assert_allclose(probabilities(plain, p.log()), p, atol=1e-6)


class Steps(Callback):
    """Counts optimiser steps."""

    def initialize(self):
        self.n_ = 0
        self.norms_ = []
        return self

    def on_grad_computed(self, net, named_parameters, **kwargs):
        self.n_ += 1
        self.norms_.append(float(torch.sqrt(sum((p.grad**2).sum() for _, p in named_parameters))))


def test_own_optimiser_scheduler_clipping_and_scores_stay_in_force():
    net = make_net(
        optimizer=torch.optim.Adam,
        max_epochs=4,
        callbacks=[
            ("clip", GradientNormClipping(0.01)),
            ("steps", Steps()),
            ("lr", LRScheduler("StepLR", step_size=1, gamma=0.5)),
            ("acc", EpochScoring("accuracy", on_train=True, name="own_acc")),
        ],
        train_split=skorch.dataset.ValidSplit(4),
    )
    fitted = smoothed(Consistency(), net).fit(DIGITS, LABELS).estimator_
    steps = dict(fitted.callbacks_)["steps"]
    assert steps.n_ == 4 * 3 * 2  # epochs, batches, chunks
    assert max(steps.norms_) == pytest.approx(0.01, rel=1e-3)
    assert fitted.history[:, "event_lr"] == pytest.approx([0.05, 0.025, 0.0125, 0.00625])
    assert 0 < fitted.history[-1, "own_acc"] <= 1
    assert len(fitted.history[:, "valid_acc"]) == 4
    assert isinstance(fitted.optimizer_, torch.optim.Adam)


class Backwards(torch.utils.data.DataLoader):
    """Gives only the rows of even number, the last first."""

    def __init__(self, dataset, **settings):
        super().__init__(dataset, sampler=list(range(len(dataset) - 2, -1, -2)), **settings)


def test_own_iterator_stays_in_force():
    seen = []

    class Watch(Linear):
        def forward(self, X):
            if self.training:
                seen.append(X.detach().clone())
            return super().forward(X)

    net = make_net(Watch, iterator_train=Backwards, max_epochs=1, batch_size=40)
    clf = smoothed(Consistency(chunking=None), net, sigma=1e-7).fit(DIGITS, LABELS)
    assert [len(rows) for rows in seen] == [80, 80, 40]  # two copies of each row
    np.testing.assert_allclose(torch.cat([rows[: len(rows) // 2] for rows in seen]), DIGITS[-2::-2], atol=1e-5)
    assert clf.estimator_.iterator_train is Backwards


@pytest.mark.parametrize("settings", [{"label_smoothing": 0.2}, {"weight": torch.arange(1.0, 11.0)}], ids=str)
def test_settings_of_the_criterion_stay_in_force(settings):
    own = {f"criterion__{name}": value for name, value in settings.items()}
    net = make_net(max_epochs=1, batch_size=20, **own)
    clf = smoothed(Consistency(chunking=None), net, sigma=0.5).fit(DIGITS[:20], LABELS[:20])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Linear()
    noise = 0.5 * torch.randn((2, 20, 64), generator=torch.Generator().manual_seed(0))
    logits = module((torch.tensor(DIGITS[:20]) + noise).flatten(0, 1))
    loss = F.cross_entropy(logits, torch.tensor(LABELS[:20]).repeat(2), **settings)
    assert clf.estimator_.history[-1, "train_ce"] == pytest.approx(float(loss.detach()), abs=1e-6)


def test_sigma_may_be_changed_between_fits():
    class Sigmas(GaussianNoise):
        def objective(self, step, logits, y):
            seen.add(step.sigma)
            return super().objective(step, logits, y)

    seen = set()
    clf = smoothed(Sigmas()).fit(DIGITS, LABELS)
    assert clf.set_params(sigma=0.7).certify(DIGITS[:2]).provenance["sigma"] == 0.7  # a certificate for other noise
    assert seen == {0.3}
    clf.fit(DIGITS, LABELS)
    assert seen == {0.3, 0.7}
    for sigma in (0.0, -1.0, float("nan")):
        clf.set_params(sigma=sigma)
        for use in (clf.certify, lambda X: clf.fit(X, LABELS)):
            with pytest.raises(ValueError, match="sigma must be a positive finite number"):
                use(DIGITS)


def test_nets_with_a_loss_and_a_step_of_their_own():
    class Own(NeuralNetClassifier):
        def get_loss(self, y_pred, y_true, X=None, training=False):
            penalty = 0.1 * sum((w**2).sum() for w in self.module_.parameters())
            assert X.shape[0] == len(y_pred) == len(y_true)
            return super().get_loss(y_pred, y_true, X=X, training=training) + penalty

        def train_step_single(self, batch, **fit_params):
            step = super().train_step_single(batch, **fit_params)
            return {**step, "mine": 1}

    plain = smoothed(Consistency()).fit(DIGITS, LABELS)
    own = smoothed(Consistency(), make_net(kind=Own, criterion=nn.CrossEntropyLoss)).fit(DIGITS, LABELS)
    assert weights(own).norm() < weights(plain).norm()
    assert type(own.estimator_) is Own

    class Bypass(NeuralNetClassifier):
        def train_step_single(self, batch, **fit_params):
            X, y = batch
            loss = F.cross_entropy(self.module_(X), y)
            loss.backward()
            return {"loss": loss, "y_pred": self.module_(X)}

    bypass = make_net(kind=Bypass, criterion=nn.CrossEntropyLoss)
    smoothed(None, bypass).fit(DIGITS, LABELS)
    with pytest.raises(TypeError, match=r"must call self\.infer and self\.get_loss"):
        smoothed(Consistency(), bypass).fit(DIGITS, LABELS)


class Accelerator:
    """What skorch asks of an accelerator of the library accelerate, with a count of what goes through it."""

    device_placement, is_main_process = False, True

    def __init__(self):
        self.backwards = self.contexts = 0

    def __deepcopy__(self, memo):
        return self

    def prepare(self, thing):
        return thing

    def unwrap_model(self, module, keep_fp32_wrapper=True):
        return module

    @contextlib.contextmanager
    def autocast(self):
        self.contexts += 1
        yield

    def accumulate(self, module):
        return contextlib.nullcontext()

    def backward(self, loss):
        self.backwards += 1
        (2 * loss).backward()

    def wait_for_everyone(self):
        pass


def test_nets_with_an_accelerator():
    from skorch.hf import AccelerateMixin

    class Accelerated(AccelerateMixin, NeuralNetClassifier):
        pass

    accelerator = Accelerator()
    net = Accelerated(Linear, accelerator=accelerator, criterion=nn.CrossEntropyLoss, **FEW)
    clf = smoothed(SmoothAdv(n_steps=2), net).fit(DIGITS, LABELS)
    assert accelerator.backwards == accelerator.contexts == 2 * 4 * 4  # epochs, batches, chunks
    twice = smoothed(SmoothAdv(n_steps=2), make_net(lr=0.1)).fit(DIGITS, LABELS)
    np.testing.assert_allclose(weights(clf), weights(twice), atol=1e-6)


def test_other_optimisers_and_reductions():
    for settings in ({"optimizer": torch.optim.LBFGS, "lr": 0.1}, {"criterion__weight": torch.ones(10)}):
        smoothed(SmoothAdv(n_steps=2), make_net(max_epochs=1, **settings)).fit(DIGITS[:50], LABELS[:50])
    mean = smoothed(Consistency(), make_net(max_epochs=1)).fit(DIGITS[:50], LABELS[:50])
    total = make_net(max_epochs=1, criterion__reduction="sum", lr=0.05 / 25)  # two chunks of 25
    np.testing.assert_allclose(
        weights(smoothed(Consistency(), total).fit(DIGITS[:50], LABELS[:50])), weights(mean), atol=1e-6
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("recipe", [SmoothAdv(n_steps=2), Consistency()])
def test_compiled_nets(recipe):
    plain = smoothed(recipe).fit(DIGITS, LABELS)
    compiled = smoothed(recipe, make_net(compile=True, compile__backend="eager")).fit(DIGITS, LABELS)
    assert type(compiled.estimator_.module_).__name__ == "OptimizedModule"
    np.testing.assert_allclose(weights(compiled), weights(plain), atol=1e-6)


# Chunks -------------------------------------------------------------------------------------------------------------


def test_chunks_bound_what_the_net_is_given_at_once():
    seen = []

    class Watch(Linear):
        def forward(self, X):
            seen.append(len(X))
            return super().forward(X)

    for recipe, largest, n_steps in (
        (SmoothAdv(copies=4, n_steps=2), 52, 4 * 4),
        (SmoothAdv(copies=4, n_steps=2, chunking="accumulate"), 52, 4),
        (SmoothMix(copies=4, n_steps=2, chunking=None), 200, 4),
        (Consistency(copies=64), 64, 50 * 4),  # more copies than rows: chunks of one row
    ):
        seen.clear()
        net = make_net(Watch, max_epochs=1, callbacks=[("steps", Steps())])
        clf = smoothed(recipe, net).fit(DIGITS, LABELS)
        assert max(seen) == largest
        assert dict(clf.estimator_.callbacks_)["steps"].n_ == n_steps


def test_accumulated_gradients_are_those_of_the_whole_batch():
    """With next to no noise the noise does not matter, and everything else must agree."""
    settings = {"sigma": 1e-7, "net": make_net(batch_size=30)}
    whole = smoothed(Consistency(4.0, copies=4, chunking=None), **settings).fit(DIGITS, LABELS)
    added = smoothed(Consistency(4.0, copies=4, chunking="accumulate"), **settings).fit(DIGITS, LABELS)
    np.testing.assert_allclose(weights(added), weights(whole), atol=1e-6)
    for column in ("train_loss", "train_ce", "train_entropy", "train_noisy_acc"):
        np.testing.assert_allclose(added.estimator_.history[:, column], whole.estimator_.history[:, column], rtol=1e-5)


# Records and failures -----------------------------------------------------------------------------------------------


def test_history_has_the_terms_of_the_loss():
    columns = {
        GaussianNoise: {"ce"},
        Consistency: {"ce", "consistency", "entropy"},
        MACER: {"ce", "radius"},
        SmoothAdv: {"ce"},
        SmoothMix: {"ce", "mix"},
    }
    for recipe, names in columns.items():
        history = smoothed(small(recipe)).fit(DIGITS, LABELS).estimator_.history
        common = {"train_loss", "train_loss_best", "train_batch_count", "train_noisy_acc"}
        found = {key for key in history[-1] if key.startswith("train_")}
        assert found == common | {f"train_{name}" for name in names}
        parts = [history[:, f"train_{name}"] for name in names]
        np.testing.assert_allclose(np.sum(parts, axis=0), history[:, "train_loss"], rtol=1e-5)
        batches = history[-1, "batches", :, "train_ce"]
        assert np.mean(batches) == pytest.approx(history[-1, "train_ce"])  # of equal length here
    assert 0.1 < history[-1, "train_noisy_acc"] <= 1


def test_nothing_remains_after_training_or_after_a_failure(tmp_path):
    net = make_net(callbacks=[("fail", Failing())])
    attributes, given = sorted(vars(net)), net.callbacks
    with pytest.raises(RuntimeError, match="stopped by a callback"):
        fit_net(net, DIGITS, LABELS, sigma=0.3, recipe=SmoothAdv(n_steps=2), seed=1)
    assert type(net) is NeuralNetClassifier
    assert net.callbacks is given
    assert not [name for name, _ in net.callbacks_ if name.startswith("smoothcert")]
    assert net.module_.layer.weight.requires_grad
    assert len(net.history) == 1
    net.set_params(callbacks=[])
    fit_net(net, DIGITS, LABELS, sigma=0.3, recipe=SmoothAdv(n_steps=2), seed=1)
    assert set(vars(net)) - set(attributes) <= set(vars(make_net().fit(DIGITS, LABELS)))
    untouched = make_net()
    clf = smoothed(SmoothAdv(n_steps=2), untouched).fit(DIGITS, LABELS)
    assert not untouched.initialized_
    assert torch.equal(weights(pickle.loads(pickle.dumps(clf))), weights(clf))


COPIES = []


class Copying(Callback):
    def on_epoch_end(self, net, **kwargs):
        COPIES.extend([copy.deepcopy(net), pickle.loads(pickle.dumps(net)), clone(net)])


def test_copies_made_while_training_are_plain_nets(tmp_path):
    COPIES.clear()
    net = make_net(
        max_epochs=1,
        callbacks=[Checkpoint(monitor=None, f_pickle="net.pkl", dirname=tmp_path), ("c", Copying())],
    )
    clf = smoothed(Consistency(), net).fit(DIGITS, LABELS)
    with (tmp_path / "net.pkl").open("rb") as file:
        stored = pickle.load(file)
    for each in (*COPIES[:2], stored):
        assert type(each) is NeuralNetClassifier
        np.testing.assert_array_equal(each.predict_proba(DIGITS), clf.estimator_.predict_proba(DIGITS))
        each.set_params(callbacks=[]).partial_fit(DIGITS, LABELS.astype(np.int64))
    torch.manual_seed(0)
    COPIES[2].set_params(callbacks=[]).fit(DIGITS, LABELS.astype(np.int64))
    assert "train_ce" not in COPIES[2].history[-1]


def test_a_loss_that_is_not_finite_is_refused_and_the_epochs_before_it_are_kept():
    kept = []

    class Spoil(Callback):
        def on_epoch_end(self, net, **kwargs):
            kept.append(net.module_.layer.weight.detach().clone())

        def on_batch_begin(self, net, batch=None, training=None, **kwargs):
            if training and len(net.history) == 3 and len(net.history[-1, "batches"]) == 2:
                with torch.no_grad():
                    net.module_.layer.weight.fill_(torch.nan)

    clf = smoothed(Consistency(), make_net(max_epochs=5, callbacks=[Spoil()]))
    with pytest.raises(FloatingPointError, match=r"loss must be finite, got train_ce=nan.* in epoch 3.*end of epoch 2"):
        clf.fit(DIGITS, LABELS)
    assert torch.equal(clf.estimator_.module_.layer.weight, kept[1])
    assert len(clf.estimator_.history) == 3
    assert len(clf.estimator_.history[:2, "train_ce"]) == 2
    with pytest.raises(FloatingPointError, match="from before training"):
        smoothed(Consistency(), make_net(lr=1e38, optimizer__momentum=0.9)).fit(DIGITS, LABELS)


def test_interrupts_end_training_in_peace():
    class Interrupt(Callback):
        def on_epoch_begin(self, net, **kwargs):
            if len(net.history) == 2:
                raise KeyboardInterrupt

    clf = smoothed(Consistency(), make_net(max_epochs=5, callbacks=[Interrupt()])).fit(DIGITS, LABELS)
    assert len(clf.estimator_.history) == 2
    assert type(clf.estimator_) is NeuralNetClassifier


def test_collapse_and_weights_far_above_the_published_ones_are_warned_of():
    with pytest.warns(UserWarning, match=r"weight=25 is far above the published range at sigma=1, which ends at 10"):
        smoothed(Consistency(weight=25), sigma=1.0).fit(DIGITS, LABELS)
    for recipe in (MACER(weight=100.0), SmoothMix(weight=20.0), SmoothAdv(eps=30.0)):
        with pytest.warns(UserWarning, match="far above the published range"):
            recipe.check_data(DIGITS, 0.5)
    shuffled = np.random.default_rng(0).permutation(LABELS)
    with pytest.warns(UserWarning, match="Training has collapsed: in epoch 5 the accuracy on the noisy training"):
        smoothed(GaussianNoise(), make_net(max_epochs=6, lr=1e-6), sigma=50.0).fit(DIGITS, shuffled)

    class Spoil(Callback):
        def on_epoch_end(self, net, **kwargs):
            if len(net.history) == 3:
                with torch.no_grad():
                    net.module_.layer.weight.zero_()
                    net.module_.layer.bias[0] = 50.0

    with pytest.warns(UserWarning, match="collapsed: in epoch 4"):
        smoothed(Consistency(), make_net(max_epochs=4, lr=0.1, callbacks=[Spoil()]), sigma=0.1).fit(DIGITS, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for recipe in (Consistency(20), MACER(), SmoothAdv(), SmoothMix()):
            for sigma in (0.12, 0.25, 0.5, 1.0):
                Consistency().check_data(DIGITS, sigma)
                recipe.check_data(DIGITS, min(sigma, 0.25) if isinstance(recipe, Consistency) else sigma)


# Parameters ---------------------------------------------------------------------------------------------------------


@by_name
def test_recipes_are_estimators_in_manner(recipe):
    made = recipe(copies=3)
    assert clone(made).get_params() == made.get_params()
    assert repr(made) == f"{recipe.__name__}(copies=3)"
    clf = smoothed(made)
    assert clone(clf).get_params()["training__copies"] == 3
    clf.set_params(training__copies=4)
    assert clf.training.copies == 4
    assert pickle.loads(pickle.dumps(made)).get_params() == made.get_params() | {"copies": 4}


def test_grid_search_over_recipes_and_their_weights():
    search = GridSearchCV(
        smoothed(net=make_net(max_epochs=1)),
        [{"training": [None, GaussianNoise()]}, {"training": [Consistency()], "training__weight": [1.0, 5.0]}],
        scoring=make_certified_scorer(0.05),
        cv=2,
        error_score="raise",
    ).fit(DIGITS, LABELS)
    assert len(search.cv_results_["mean_test_score"]) == 4
    with pytest.raises(ValueError, match="training must be set before training__weight"):
        smoothed().set_params(training__weight=2.0)


def test_numbers_of_numpy_are_numbers():
    for recipe in (
        SmoothAdv(eps=np.float32(0.5), n_steps=np.int64(2), warmup=np.float32(0.5), copies=np.int64(2)),
        SmoothMix(weight=np.int32(5), warmup=np.int64(3), copies=np.int8(2)),
    ):
        smoothed(recipe).fit(DIGITS, LABELS)
    assert SmoothAdv(warmup=np.float32(0.5)).schedule(1, 8) == 0.25


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (GaussianNoise(copies=0), "copies must be an integer of at least 1"),
        (Consistency(copies=1), "copies must be an integer of at least 2, got 1.*Consistency"),
        (Consistency(copies=2.0), "copies must be an integer"),
        (Consistency(weight=-1.0), "weight must be None or a finite number of at least 0, got -1.0"),
        (Consistency(entropy_weight=None), "entropy_weight must be a finite number of at least 0, got None"),
        (MACER(weight=float("nan")), "weight must be"),
        (MACER(beta=0.0), "beta must be a positive finite number, got 0.0"),
        (MACER(gamma=-8.0), "gamma must be"),
        (MACER(warmup=1.5), "warmup must be"),
        (SmoothAdv(eps=0.0), "eps must be None or a positive finite number, got 0.0.*GaussianNoise"),
        (SmoothAdv(n_steps=0), "n_steps must be an integer of at least 1"),
        (SmoothAdv(clip=(1, 0)), "clip must be None or two increasing numbers"),
        (SmoothAdv(clip=0.5), "clip must be None or two increasing numbers"),
        (SmoothAdv(clip=(0.0, 0.5)), "clip must include all values of X, got .* from 0 to 1"),
        (SmoothMix(weight=-2.0), "weight must be"),
        (SmoothMix(step_size=0.0), "step_size must be"),
        (SmoothMix(warmup=-1), "warmup must be"),
        (SmoothMix(chunking="both"), "chunking must be one of"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_name(recipe, message):
    with pytest.raises(ValueError, match=message):
        smoothed(recipe).fit(DIGITS, LABELS)


def test_what_is_no_recipe_or_not_for_a_recipe_is_refused_with_the_cure():
    with pytest.raises(TypeError, match=r"training must be a recipe .* Give an instance: add parentheses"):
        smoothed(Consistency).fit(DIGITS, LABELS)
    with pytest.raises(TypeError, match="training must be a recipe"):
        smoothed("consistency").fit(DIGITS, LABELS)
    with pytest.raises(TypeError, match=r"training must be None .* is not a skorch net.*Leave it out"):
        smoothed(Consistency(), LogisticRegression()).fit(DIGITS, LABELS)
    frozen = FrozenEstimator(make_net().fit(DIGITS, LABELS.astype(np.int64)))
    with pytest.raises(TypeError, match="frozen, so it is not trained"):
        smoothed(Consistency(), frozen).fit(DIGITS, LABELS)
    with pytest.raises(ValueError, match="one output for each of the 10 classes"):
        smoothed(Consistency(), make_net(module__n_out=1)).fit(DIGITS, LABELS)
    two = LABELS < 2
    with pytest.raises(ValueError, match="one output for each of the 2 classes"):
        smoothed(Consistency(), make_net(module__n_out=1)).fit(DIGITS[two], LABELS[two])
    binary = make_net(kind=NeuralNetBinaryClassifier, module__n_out=1)
    for recipe in (None, Consistency()):
        with pytest.raises(ValueError, match=r"y must have two classes for NeuralNetBinaryClassifier, got 10\. Use"):
            smoothed(recipe, binary).fit(DIGITS, LABELS)
    with pytest.raises(ValueError, match="X must fit the net"):
        smoothed(Consistency(), make_net(module__n_in=5)).fit(DIGITS, LABELS)


# Recipes of one's own -----------------------------------------------------------------------------------------------


class Weighted(BaseRecipe):
    """Counts only inputs of even classes."""

    def sample_weights(self, step, logits, y):
        return 2.0 * (y % 2 == 0)

    def objective(self, step, logits, y):
        return {"ce": step.criterion()}


def test_weights_of_samples():
    even = LABELS % 2 == 0
    clf = smoothed(Weighted(), make_net(max_epochs=1, batch_size=200), sigma=1e-7).fit(DIGITS, LABELS)
    module = Linear()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Linear()
    loss = F.cross_entropy(module(torch.tensor(DIGITS[even])), torch.tensor(LABELS[even]), reduction="sum") * 2 / 200
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    expected = [(w - 0.05 * g).detach().flatten() for w, g in zip(module.parameters(), gradients, strict=True)]
    np.testing.assert_allclose(weights(clf), torch.cat(expected), atol=1e-6)
    assert clf.estimator_.criterion_.reduction == "mean"


def test_mistakes_in_a_recipe_of_ones_own():
    class Wrong(Weighted):
        def objective(self, step, logits, y):
            return {"ce": logits}

    with pytest.raises(ValueError, match=r"term 'ce' of an objective must be a tensor of shape \(\) or \(50,\)"):
        smoothed(Wrong()).fit(DIGITS, LABELS)

    class Reshaped(Weighted):
        def adversary(self, step, x, y, noise):
            return x[:1], noise

    with pytest.raises(ValueError, match=r"adversary must return inputs of shape \(50, 64\)"):
        smoothed(Reshaped()).fit(DIGITS, LABELS)

    class Early(Weighted):
        def adversary(self, step, x, y, noise):
            return x + step.criterion(), noise

    with pytest.raises(RuntimeError, match="criterion must be called in the objective"):
        smoothed(Early()).fit(DIGITS, LABELS)
