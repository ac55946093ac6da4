"""Tables of sums of normal curves: the straight lines between their points are below the curves."""

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.ensemble import RandomForestClassifier

from smoothcert._exact import _step_functions
from smoothcert._exact._registry import read_model
from smoothcert._exact._step_functions import Steps, StepScores, _allowance, _grid, _Table, _values, merge_steps


def curve(y, at, weights):
    return ndtr(y[:, None] - at) @ weights


@pytest.mark.parametrize("step", [1.0 / 16.0, 0.25, 1.0])
@pytest.mark.parametrize("spread", [0.5, 5.0, 200.0])
def test_lines_are_below_curves(spread, step, monkeypatch):
    monkeypatch.setattr(_step_functions, "_STEP", step)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        at, weights = np.sort(rng.normal(size=12) * spread), rng.normal(size=(12, 3))
        points = _grid(at)
        values = _values(points, at, weights)
        np.testing.assert_allclose(values, curve(points, at, weights), atol=1e-13)
        allowance = _allowance(points, values, at, weights) + 1e-14
        for share in np.linspace(0.05, 0.95, 19):
            between = points[:-1] + share * np.diff(points)
            line = values[:-1] * (1.0 - share) + values[1:] * share
            assert np.all(curve(between, at, weights) >= line - allowance)
        # Without the allowance this is not so.
        middle = 0.5 * (points[:-1] + points[1:])
        assert np.any(curve(middle, at, weights) < 0.5 * (values[:-1] + values[1:]) - 1e-14)
        # Beyond the grid nothing happens any more.
        np.testing.assert_allclose(curve(points[:1] - 50.0, at, weights), values[:1], atol=1e-14)
        np.testing.assert_allclose(curve(points[-1:] + 50.0, at, weights), values[-1:], atol=1e-14)


def test_the_dual_of_a_table_is_below_its_margin():
    """With a large multiplier the dual is the lower limit of the margin at the input, with a loss of 1e-3 at most."""
    rng = np.random.default_rng(0)
    at, weights = np.sort(rng.normal(size=9)), rng.normal(size=(9, 2))
    form = StepScores(np.zeros(2), {0: Steps(at, at, weights)}, float(np.abs(weights).sum()), 9, False)
    table = _Table(form, [0], np.array([0.5]))
    x = rng.normal(size=(200, 1)) * 2.0
    exact = curve(x[:, 0], at / 0.5, weights[:, 0] - weights[:, 1])
    dual, error = table.duals(0)[1]
    lowest, _ = dual._margin_and_slopes(x, np.zeros(200))
    assert np.all(lowest / dual.unit - error <= exact)
    assert np.all(lowest / dual.unit - error >= exact - 5e-3)


def test_steps_at_one_threshold_are_added():
    features = np.array([1, 0, 1, 1])
    at = np.array([2.0, 5.0, -1.0, 2.0])
    merged = merge_steps(features, at, at, np.array([[1.0], [2.0], [4.0], [8.0]]))
    assert sorted(merged) == [0, 1]
    np.testing.assert_array_equal(merged[1].at, [-1.0, 2.0])
    np.testing.assert_array_equal(merged[1].weights, [[4.0], [9.0]])


def test_a_tree_of_one_feature_and_any_depth_is_a_step_function():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 1)), rng.integers(0, 3, 200)
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    assert max(tree.get_depth() for tree in model.estimators_) > 4
    rows = np.concatenate([X, rng.normal(size=(200, 1))])
    np.testing.assert_allclose(
        read_model(model).expected_scores(rows, np.zeros(1)), model.predict_proba(rows), atol=1e-12
    )
