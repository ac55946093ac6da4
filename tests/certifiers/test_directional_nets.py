"""The directional certificate of nets: input gradients, and what happens where there are none."""

import numpy as np
import pytest
from helpers.long_runs import assert_same
from sklearn.frozen import FrozenEstimator

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier  # noqa: E402
from torch import nn  # noqa: E402

from smoothcert import DirectionalCertifier, SmoothedClassifier, read_journal  # noqa: E402
from smoothcert._models._skorch import NeuralVoter  # noqa: E402

ROWS = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
LABELS = np.arange(6) % 3


class Small(nn.Module):
    """Two layers, the same numbers every time."""

    def __init__(self, n_out=3):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.first = nn.Parameter(torch.randn(5, 16, generator=generator))
        self.second = nn.Parameter(torch.randn(16, n_out, generator=generator))

    def forward(self, X):
        return torch.tanh(X @ self.first) @ self.second


class WithoutGraph(Small):
    def forward(self, X):
        with torch.no_grad():
            return super().forward(X)


class OneNumber(Small):
    def __init__(self):
        super().__init__(n_out=1)

    def forward(self, X):
        return super().forward(X).squeeze(-1)


def net(module=Small):
    return NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss, train_split=None, verbose=0).initialize()


def smoothed(direction="auto", module=Small, **parameters):
    certifier = DirectionalCertifier(8000, n_bins=20, direction=direction)
    settings = {"sigma": 0.5, "random_state": 3, **parameters}
    return SmoothedClassifier(FrozenEstimator(net(module)), certifier=certifier, **settings).fit(ROWS, LABELS)


def softened(voter, rows, candidate):
    """The margin of the candidate, softened, in double precision."""
    with torch.no_grad():
        output = voter.net.module_.double()(rows.double())
    if voter.binary:
        logit = output - np.log(voter.net.threshold / (1.0 - voter.net.threshold))
        margin = logit if candidate == 1 else -logit
    else:
        others = [c for c in range(output.shape[1]) if c != candidate]
        margin = output[:, candidate] - output[:, others].max(dim=1).values
    return torch.sigmoid(2.0 * margin)


@pytest.mark.parametrize("kind", ["several classes", "two classes", "another threshold"])
@pytest.mark.parametrize("candidate", [0, 1])
def test_slopes_are_finite_differences(kind, candidate):
    if kind == "several classes":
        voter = NeuralVoter(net(), 3)
    else:
        threshold = 0.5 if kind == "two classes" else 0.3
        base = NeuralNetBinaryClassifier(OneNumber, train_split=None, verbose=0, threshold=threshold)
        voter = NeuralVoter(base.initialize(), 2)
    rows = torch.tensor(ROWS)
    votes, slopes = voter.vote_with_gradients(rows, candidate)
    with voter.arrays.inference_context():
        np.testing.assert_array_equal(votes, voter.vote(rows))
    assert slopes.shape == rows.shape
    step = 1e-5
    for feature in range(rows.shape[1]):
        moved = torch.zeros_like(rows, dtype=torch.float64)
        moved[:, feature] = step
        rise = softened(voter, rows.double() + moved, candidate) - softened(voter, rows.double() - moved, candidate)
        np.testing.assert_allclose(slopes[:, feature], rise / (2 * step), atol=2e-5)
    assert np.abs(slopes.numpy()).max() > 0.01


def test_slopes_leave_threads_and_gradients_alone():
    threads = torch.get_num_threads()
    voter = NeuralVoter(net(), 3)
    try:
        torch.set_num_threads(threads + 1)
        voter.vote_with_gradients(torch.tensor(ROWS), 0)
        assert torch.get_num_threads() == threads + 1
        with pytest.raises(RuntimeError):
            NeuralVoter(net(WithoutGraph), 3).vote_with_gradients(torch.tensor(ROWS), 0)
        assert torch.get_num_threads() == threads + 1
    finally:
        torch.set_num_threads(threads)
    assert all(parameter.grad is None for parameter in voter.net.module_.parameters())


def test_nan_slopes_count_nothing():
    class Broken(Small):
        def forward(self, X):
            return torch.where(X[:, :1] > 0, torch.nan, 1.0) * super().forward(X)

    _, slopes = NeuralVoter(net(Broken), 3).vote_with_gradients(torch.tensor(ROWS), 0)
    assert torch.isfinite(slopes).all()
    assert (slopes[torch.tensor(ROWS[:, 0]) > 0] == 0).all()
    assert (slopes[torch.tensor(ROWS[:, 0]) < 0] != 0).any()


def test_gradients_are_taken_where_they_can_be_had():
    gradient, auto, score = (smoothed(direction).certify(ROWS) for direction in ("gradient", "auto", "score"))
    assert_same(auto, gradient)
    measured = gradient.counts["measured"] & score.counts["measured"]
    assert measured.any()
    # Both look for the same thing, and the score has few samples to find it with.
    cosine = np.sum(gradient.counts["direction"] * score.counts["direction"], axis=1)[measured]
    assert np.all(cosine > 0.7)
    assert not np.array_equal(gradient.counts["direction"], score.counts["direction"])


def test_nets_without_a_graph_fall_back_to_the_score():
    auto, score = (smoothed(direction, WithoutGraph).certify(ROWS) for direction in ("auto", "score"))
    assert_same(auto, score)
    assert auto.counts["measured"].any()
    with pytest.raises(ValueError, match=r"direction must be 'score', 'auto' or a callable .* got 'gradient'"):
        smoothed("gradient", WithoutGraph).certify(ROWS)


def test_how_the_work_is_done_does_not_show(tmp_path):
    reference = smoothed("gradient").certify(ROWS)
    assert (reference.radius > 0).any()
    for change in ({"batch_size": 300}, {"batch_size": 10**5}, {"n_jobs": 2}):
        assert_same(smoothed("gradient", **change).certify(ROWS), reference)
    order = np.array([3, 0, 5, 1, 4, 2])
    assert_same(smoothed("gradient").certify(ROWS[order]), reference[order])
    assert_same(smoothed("gradient").certify(ROWS[2:4]), reference[2:4])


def test_a_stopped_run_continues_to_the_same_bits(tmp_path, monkeypatch):
    reference = smoothed("gradient").certify(ROWS)
    path = tmp_path / "run.sqlite"
    vote, slopes, left = NeuralVoter.vote, NeuralVoter.vote_with_gradients, {"calls": 0}

    class StoppedError(Exception):
        pass

    def counted(function):
        def stubborn(*arguments):
            left["calls"] -= 1
            if left["calls"] < 0:
                raise StoppedError
            return function(*arguments)

        return stubborn

    monkeypatch.setattr(NeuralVoter, "vote", counted(vote))
    monkeypatch.setattr(NeuralVoter, "vote_with_gradients", counted(slopes))
    monkeypatch.setattr("smoothcert._engine._collect._TASK_SECONDS", 1e-4)
    shares = []
    # Each call asks once for gradients, to see whether there are any, and that counts as two.
    for calls in (8, 14, 14, 16):
        left["calls"] = calls
        with pytest.raises(StoppedError):
            smoothed("gradient", batch_size=1000).certify(ROWS, journal=path)
        shares.append(read_journal(path).fraction_done)
    assert shares == sorted(shares)
    assert 0 < shares[-1] < 1
    left["calls"] = 10**9
    assert_same(smoothed("gradient").certify(ROWS, journal=path), reference)
    assert_same(read_journal(path).certificates, reference)
