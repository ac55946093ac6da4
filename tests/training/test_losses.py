"""Losses and adversaries against plain, slow, independent implementations of them."""

import numpy as np
import pytest
from helpers import plain_recipes as plain
from scipy.stats import norm

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from torch import nn  # noqa: E402

from smoothcert.training import MACER, Consistency, GaussianNoise, SmoothAdv, SmoothMix, TrainingStep  # noqa: E402
from smoothcert.training._functions import ascend, negative_log_probability  # noqa: E402

SHAPES = [(3,), (1, 2, 2)]


def random_logits(seed):
    logits = 2 * np.random.default_rng(seed).standard_normal((4, 6, 3))
    logits[:, 0, 0] += 4  # the first input is classified with some certainty
    return logits


@pytest.fixture(params=range(3))
def logits(request):
    return random_logits(request.param)


@pytest.fixture
def y():
    return np.array([0, 1, 2, 0, 1, 2])


def step_for(logits=None, y=None, **parts):
    """A step around given logits, or around a module."""
    settings = {
        "sigma": 0.5,
        "epoch": 1,
        "n_epochs": 2,
        "strength": 1.0,
        "generator": torch.Generator().manual_seed(3),
        "module": nn.Identity(),
        "x": torch.zeros(6, 2),
        "noise": torch.zeros(4, 6, 2),
        "classify": None,
    }
    step = TrainingStep(**{**settings, **parts})
    if logits is not None:
        flat, repeated = logits.flatten(0, 1), y.repeat(len(logits))
        step._criterion = lambda: nn.functional.cross_entropy(flat, repeated)
    return step


def terms_and_gradients(recipe, logits, y, **parts):
    tensor, labels = torch.tensor(logits, requires_grad=True), torch.tensor(y)
    terms = {
        name: term.mean() for name, term in recipe.objective(step_for(tensor, labels, **parts), tensor, labels).items()
    }
    gradients = {name: torch.autograd.grad(term, tensor, retain_graph=True)[0].numpy() for name, term in terms.items()}
    return {name: float(term.detach()) for name, term in terms.items()}, gradients


CASES = {
    "noise": (GaussianNoise(4), {}, {"ce": plain.cross_entropy}),
    "consistency": (
        Consistency(weight=7.0, entropy_weight=0.3),
        {},
        {
            "ce": plain.cross_entropy,
            "consistency": lambda logits, y: 7.0 * plain.consistency(logits, y),
            "entropy": lambda logits, y: 0.3 * plain.entropy(logits, y),
        },
    ),
    "consistency by sigma": (
        Consistency(),
        {"sigma": 0.25},
        {
            "consistency": lambda logits, y: 10 * plain.consistency(logits, y),
            "entropy": lambda logits, y: plain.entropy(logits, y) / 2,
        },
    ),
    "macer": (
        MACER(weight=3.0, beta=2.0, gamma=2.0),
        {},
        {
            "ce": plain.negative_log_mean,
            "radius": lambda logits, y: 3.0 * 0.25 * plain.macer_hinge(logits, y, 2.0, 2.0),
        },
    ),
    "macer by sigma": (
        MACER(),
        {"sigma": 1.0},
        {"radius": lambda logits, y: 6 * 0.5 * plain.macer_hinge(logits, y, 16.0, 8.0)},
    ),
    "adversarial": (SmoothAdv(), {}, {"ce": plain.cross_entropy}),
}


@pytest.mark.parametrize("case", CASES)
def test_terms_and_their_gradients(case, logits, y):
    recipe, parts, references = CASES[case]
    terms, gradients = terms_and_gradients(recipe, logits, y, **parts)
    for name, reference in references.items():
        assert terms[name] == pytest.approx(reference(logits, y), abs=1e-6)
        expected = plain.differences(lambda changed, reference=reference: reference(changed, y), logits)
        np.testing.assert_allclose(gradients[name], expected, atol=1e-6)


def test_macer_is_tested_on_inputs_of_all_three_kinds(y):
    """Right and near, right and beyond gamma, and wrong."""
    seen = set()
    for seed in range(3):
        rows = random_logits(seed)
        for j, label in enumerate(y):
            scores = np.array(plain.means(rows[:, j], 2.0))
            second, first = np.sort(norm.ppf(scores))[-2:]
            seen.add("wrong" if scores.argmax() != label else "far" if first - second > 2.0 else "near")
    assert seen == {"wrong", "far", "near"}


def test_certain_scores_have_no_gradient_and_no_nan(y):
    logits = np.zeros((4, 6, 3))
    logits[:, np.arange(6), y] = 1e4  # softmax is exactly 0 and 1, the quantile infinite
    terms, gradients = terms_and_gradients(MACER(), logits, y)
    assert terms["radius"] == 0.0
    assert np.all(gradients["radius"] == 0.0)
    for recipe in (Consistency(),):
        terms, gradients = terms_and_gradients(recipe, logits, y)
        assert all(np.isfinite(gradient).all() for gradient in gradients.values())


def test_radius_counts_only_after_the_warmup(logits, y):
    terms, _ = terms_and_gradients(MACER(), logits, y, strength=0.0)
    assert terms["radius"] == 0.0
    assert [MACER().schedule(epoch, 90) for epoch in (1, 30, 31, 90)] == [0.0, 0.0, 1.0, 1.0]
    assert [MACER(warmup=2).schedule(epoch, 90) for epoch in (2, 3)] == [0.0, 1.0]
    assert [SmoothAdv(warmup=0.5).schedule(epoch, 8) for epoch in (1, 2, 4, 5)] == [0.25, 0.5, 1.0, 1.0]
    assert SmoothAdv(warmup=0).schedule(1, 8) == 1.0


class Tanh:
    """A small net in numpy, and the same one in torch."""

    def __init__(self, shape, n_classes=3, seed=0):
        rng = np.random.default_rng(seed)
        self.inner = rng.standard_normal((5, int(np.prod(shape))))
        self.outer = 2 * rng.standard_normal((n_classes, 5))

    def logits_of_row(self, row):
        return self.outer @ np.tanh(self.inner @ row.ravel())

    def module(self):
        layers = nn.Sequential(nn.Flatten(), nn.Linear(1, 1, bias=False), nn.Tanh(), nn.Linear(5, 3, bias=False))
        with torch.no_grad():
            layers[1].weight = nn.Parameter(torch.tensor(self.inner))
            layers[3].weight = nn.Parameter(torch.tensor(self.outer))
        return layers

    def data(self, shape, copies=3, n_rows=6):
        rng = np.random.default_rng(1)
        return rng.uniform(0, 1, (n_rows, *shape)), 0.5 * rng.standard_normal((copies, n_rows, *shape))


def numpy_logits(net, x, noise):
    return np.array([[net.logits_of_row(row + each) for row, each in zip(x, copy, strict=True)] for copy in noise])


def adversarial_step(net, x, noise, **parts):
    module = net.module()
    return step_for(module=module, classify=module, x=torch.tensor(x), noise=torch.tensor(noise), **parts)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clip", [None, (0.0, 1.0)])
@pytest.mark.parametrize("strength", [0.1, 1.0])
def test_smoothadv_finds_what_the_plain_attack_finds(shape, clip, strength, y):
    net = Tanh(shape)
    x, noise = net.data(shape)
    recipe = SmoothAdv(eps=0.7, n_steps=5, clip=clip)
    step = adversarial_step(net, x, noise, strength=strength)
    moved, same = recipe.adversary(step, step.x, torch.tensor(y), step.noise)
    eps = 0.7 * strength
    expected = plain.attack(net.logits_of_row, x, y, noise, 2 * eps / 5, 5, eps, clip)
    np.testing.assert_allclose(moved.numpy(), expected, atol=1e-6)
    assert same is step.noise
    lengths = np.sqrt(((moved.numpy() - x) ** 2).reshape(len(x), -1).sum(1))
    assert np.all(lengths <= eps * (1 + 1e-12))
    assert np.any(lengths > 0.99 * eps)
    if clip is not None:
        assert moved.min() >= 0
        assert moved.max() <= 1
        assert np.any((moved.numpy() == 0) | (moved.numpy() == 1)) or strength < 1


def test_attack_ascends_at_the_noise_of_the_loss(y):
    net = Tanh((3,))
    x, noise = net.data((3,))
    step, labels = adversarial_step(net, x, noise), torch.tensor(y)

    @torch.no_grad()
    def loss(x):
        return negative_log_probability(step.logits(x, step.noise), labels)

    recipe = SmoothAdv(eps=0.3, n_steps=10)
    moved, _ = recipe.adversary(step, step.x, labels, step.noise)
    assert bool((loss(moved) > loss(step.x)).all())
    # Inputs found for other noise are less bad for this.
    other, _ = recipe.adversary(step, step.x, labels, -step.noise.flip(0))
    assert float(loss(moved).sum()) > float(loss(other).sum())


def test_search_is_in_evaluation_mode_and_leaves_no_gradient(y):
    modes = []

    class Watch(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.fixed = nn.Linear(3, 3).double(), nn.Linear(3, 3)
            self.fixed.weight.requires_grad_(False)
            self.fixed.training = False

        def forward(self, x):
            modes.append((self.training, self.layer.weight.requires_grad))
            return self.layer(x)

    module = Watch()
    x, noise = torch.rand(6, 3).double(), torch.randn(2, 6, 3).double()
    step = step_for(module=module, classify=module, x=x, noise=noise)
    SmoothAdv().adversary(step, x, torch.tensor(y), noise)
    assert set(modes) == {(False, False)}
    assert module.training
    assert module.layer.weight.requires_grad
    assert module.layer.weight.grad is None
    assert not module.fixed.training
    assert not module.fixed.weight.requires_grad
    with pytest.raises(RuntimeError, match="inside"), step.frozen():
        raise RuntimeError("inside")
    assert module.training
    assert module.layer.weight.requires_grad


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clip", [None, (0.0, 1.0)])
def test_smoothmix_against_the_plain_one(shape, clip, y):
    net = Tanh(shape)
    x, noise = net.data(shape)
    recipe = SmoothMix(weight=4.0, n_steps=3, step_size=0.4, clip=clip)
    step = adversarial_step(net, x, noise, strength=0.3)
    logits, labels = step.logits(step.x, step.noise), torch.tensor(y)
    step._criterion = lambda: torch.zeros(())
    terms = recipe.objective(step, logits, labels)
    share = torch.rand(6, generator=torch.Generator().manual_seed(3), dtype=torch.float64).numpy() / 2
    far = plain.attack(net.logits_of_row, x, y, noise, 0.4, 3, None, clip)
    along = share.reshape(-1, *[1] * len(shape))

    def reference(outer):
        changed = Tanh(shape)
        changed.outer = outer
        clean = numpy_logits(changed, x, noise)
        mixed = numpy_logits(changed, (1 - along) * x + along * far, noise)
        return 4.0 * 0.3 * plain.mixed_divergence(clean, mixed, y, share)

    value = reference(net.outer)
    assert value > 0
    assert float(terms["mix"].mean().detach()) == pytest.approx(value, abs=1e-6)
    # Through both nets, at the mixed inputs and in the target, but not through the search.
    gradient = torch.autograd.grad(terms["mix"].mean(), step.module[3].weight)[0]
    np.testing.assert_allclose(gradient.numpy(), plain.differences(reference, net.outer), atol=1e-6)


def test_inputs_without_gradient_stay_and_constant_modules_are_refused(y):
    x, noise = torch.rand(6, 3), torch.randn(2, 6, 3)
    flat = ascend(lambda a, b: (0 * a + b)[..., :3], x, torch.tensor(y), noise, step_size=1.0, n_steps=2)
    assert torch.equal(flat, x)
    with pytest.raises(TypeError, match="differentiable with respect to its input"):
        ascend(lambda a, b: a.detach() + b, x, torch.tensor(y), noise, step_size=1.0, n_steps=2)
