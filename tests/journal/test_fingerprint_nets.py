"""What a journal can tell apart: nets that differ in anything their votes depend on, and no others."""

import copy
import functools
import os
import pickle
import subprocess
import sys
import threading
import weakref

import joblib
import numpy as np
import pytest

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from sklearn.datasets import load_iris  # noqa: E402
from sklearn.ensemble import BaggingClassifier  # noqa: E402
from sklearn.frozen import FrozenEstimator  # noqa: E402
from torch import nn  # noqa: E402

from smoothcert import FirstOrderCertifier, SmoothedClassifier  # noqa: E402
from smoothcert._journal._fingerprints import fingerprint  # noqa: E402

X, Y = load_iris(return_X_y=True)
X = X.astype(np.float32)


class Shift:
    """A callable without a name."""

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x + self.by


def moved_output(module, inputs, output, by=0.0):
    return output + torch.tensor([by, 0.0, 0.0])


def moved_input(module, inputs):
    return (inputs[0] + 1.0,)


def with_keywords(module, args, kwargs):
    return None


class Doubled(nn.Module):
    def forward(self, weight):
        return 2.0 * weight


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
        self._scale = 1.0
        self._after = Shift(0.0)
        self._table = {"a": [1, np.arange(3)], "b": (torch.ones(2), None)}

    def forward(self, x):
        return self._after(self.layers(x) * self._scale)

    def as_hook(self, module, inputs, output):
        return output + self._scale


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.attention = nn.MultiheadAttention(5, 1)
        self.last = nn.Linear(5, 3)

    def forward(self, x):
        return self.last(self.lstm(x[:, None])[0][:, 0])


def make(kind=Net):
    torch.manual_seed(0)
    return kind()


def _scale(module):
    module._scale = 1.5


def _callable(module):
    module._after = Shift(1.0)


def _partial(module):
    module._after = functools.partial(torch.add, torch.ones(3))


def _nested(module):
    module._table["a"][1][0] = 7


def _hook(module):
    module.register_forward_hook(moved_output)


def _hook_with_number(module):
    module.layers.register_forward_hook(functools.partial(moved_output, by=2.0))


def _hook_lambda(module):
    module.layers[0].register_forward_hook(lambda m, i, output: output + 1.0)


def _hook_method(module):
    module.layers[0].register_forward_hook(module.as_hook)


def _pre_hook(module):
    module.register_forward_pre_hook(moved_input)


def _pre_hook_with_keywords(module):
    module.register_forward_pre_hook(with_keywords, with_kwargs=True)


def _parametrized(module):
    nn.utils.parametrize.register_parametrization(module.layers[0], "weight", Doubled())


def _weight_norm(module):
    nn.utils.parametrizations.weight_norm(module.layers[3])


def _own_forward(module):
    module.forward = functools.partial(Net.forward, module)


def _order(module):
    module.layers[1], module.layers[2] = module.layers[2], module.layers[1]


def _buffer(module):
    module.layers[1].running_mean[0] = 1e-3


def _eps(module):
    module.layers[1].eps = 1e-4


CHANGES = [
    _scale,
    _callable,
    _partial,
    _nested,
    _hook,
    _hook_with_number,
    _hook_lambda,
    _hook_method,
    _pre_hook,
    _pre_hook_with_keywords,
    _parametrized,
    _weight_norm,
    _own_forward,
    _order,
    _buffer,
    _eps,
]


def test_every_change_shows_and_each_in_its_own_way():
    found = [fingerprint(make())]
    for change in CHANGES:
        module = make()
        change(module)
        found.append(fingerprint(module))
    assert len(set(found)) == len(found)


def through_joblib(module, tmp_path):
    joblib.dump(module, tmp_path / "module.joblib")
    return joblib.load(tmp_path / "module.joblib")


@pytest.mark.parametrize("change", [None, *CHANGES], ids=lambda change: getattr(change, "__name__", "unchanged"))
def test_copies_are_equal(change, tmp_path):
    module = make()
    if change is not None:
        change(module)
    before = fingerprint(module)
    with torch.no_grad():
        module.eval()(torch.tensor(X[:3]))
    module.layers.train()
    copies = [module]
    if change is not _own_forward:  # a copy of it calls the original: torch's own affair
        copies.append(copy.deepcopy(module))
    if change not in (_parametrized, _weight_norm, _hook_lambda, _own_forward):  # which torch or pickle refuse
        copies += [pickle.loads(pickle.dumps(module)), through_joblib(module, tmp_path)]
    assert {fingerprint(again) for again in copies} == {before}


def test_recurrent_nets_are_recognised(tmp_path):
    module = make(Recurrent)
    before = fingerprint(module)
    module(torch.tensor(X[:2]))
    copies = [copy.deepcopy(module), through_joblib(module, tmp_path), make(Recurrent)]
    assert {fingerprint(again) for again in [module, *copies]} == {before}
    with torch.no_grad():
        module.lstm.bias_hh_l0[0] += 1e-3
    assert fingerprint(module) != before


@pytest.mark.parametrize(
    "thing", [threading.Lock(), weakref.ref(CHANGES[0]), (number for number in range(3))], ids=type
)
def test_what_shows_no_content_is_refused(thing):
    module = make()
    module._thing = thing
    with pytest.raises(TypeError, match=r"recognised by a journal.*certify without a journal"):
        fingerprint(module)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_modules_are_refused():
    with pytest.raises(TypeError, match=r"torch\.jit does not show its content"):
        fingerprint(torch.jit.trace(nn.Linear(4, 3), torch.zeros(1, 4)))


@pytest.mark.parametrize("change", [_scale, _callable, _hook_with_number, _pre_hook, _parametrized])
def test_a_journal_refuses_a_net_that_votes_otherwise(change, tmp_path):
    """What was counted for one net must not be continued with the votes of another."""
    path = tmp_path / "run.sqlite"

    def smoothed(module):
        net = skorch.NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss).initialize()
        certifier = FirstOrderCertifier(2000)
        return SmoothedClassifier(FrozenEstimator(net), certifier=certifier, random_state=0).fit(X, Y)

    first = smoothed(make()).certify(X[:2], journal=path)
    np.testing.assert_array_equal(smoothed(make()).certify(X[:2], journal=path).radius, first.radius)
    other = make()
    change(other)
    with pytest.raises(ValueError, match="different run: model is"):
        smoothed(other).certify(X[:2], journal=path)


def test_nets_inside_other_estimators_are_recognised(tmp_path):
    def fitted():
        torch.manual_seed(0)
        settings = {"criterion": nn.CrossEntropyLoss, "max_epochs": 1, "train_split": None, "verbose": 0}
        net = skorch.NeuralNetClassifier(Net, **settings)
        return BaggingClassifier(net, n_estimators=2, random_state=0).fit(X, Y)

    bagged = fitted()
    before = fingerprint(bagged)
    bagged.predict(X)
    assert fingerprint(bagged) == fingerprint(fitted()) == fingerprint(through_joblib(bagged, tmp_path)) == before
    bagged.estimators_[1].module_._scale = 2.0
    assert fingerprint(bagged) != before


PROGRAM = """
import torch
from torch import nn
from smoothcert._journal._fingerprints import fingerprint

SCALE = {scale}

def hook(module, inputs, output):
    return output * SCALE

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.names = {{"a", "b", "c"}}
    def forward(self, x):
        return self.layer(x) * {factor}

torch.manual_seed(0)
net = Net()
net.layer.register_forward_hook(hook)
for _ in range({other_hooks}):
    nn.Linear(2, 2).register_forward_hook(hook)
print(fingerprint(net))
"""


def test_nets_of_a_script_are_recognised_by_their_code():
    def run(seed="1", scale=1.0, factor=1.0, other_hooks=0):
        program = PROGRAM.format(scale=scale, factor=factor, other_hooks=other_hooks)
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", program]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    first = run()
    assert run(seed="2", other_hooks=3) == first
    assert len({first, run(scale=2.0), run(factor=2.0)}) == 3
