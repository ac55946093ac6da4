"""Models with closed forms, and a search for the smallest perturbation that changes an expected score's order."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

LOADERS = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}

LINEAR = {
    "LogisticRegression": LogisticRegression(max_iter=2000),
    "LinearSVC": LinearSVC(random_state=0),
    "RidgeClassifier": RidgeClassifier(),
    "SGDClassifier": SGDClassifier(random_state=0),
    "Perceptron": Perceptron(random_state=0),
    "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(),
}
ADDITIVE = {
    "HistGradientBoosting": HistGradientBoostingClassifier(
        interaction_cst="no_interactions", max_iter=15, random_state=0
    ),
    "HistGradientBoosting, stumps": HistGradientBoostingClassifier(max_leaf_nodes=2, max_iter=15, random_state=0),
    "GradientBoosting": GradientBoostingClassifier(max_depth=1, n_estimators=30, random_state=0),
    "AdaBoost": AdaBoostClassifier(n_estimators=30, random_state=0),
    "RandomForest": RandomForestClassifier(max_depth=1, n_estimators=30, random_state=0),
    "ExtraTrees": ExtraTreesClassifier(max_depth=1, n_estimators=30, random_state=0),
}
OTHERS = {
    "GaussianNB": GaussianNB(var_smoothing=1e-2),
    "DecisionTree": DecisionTreeClassifier(max_depth=4, random_state=0),
}
ALL = {**LINEAR, **ADDITIVE, **OTHERS}


def load_scaled(name):
    X, y = LOADERS[name](return_X_y=True)
    return StandardScaler().fit_transform(X), y


def own_scores(model, X):
    """The model's own scores in the convention of exact scores: of two classes from one decision value half each."""
    if isinstance(model, GaussianNB):
        return model.predict_joint_log_proba(X)
    if isinstance(model, DecisionTreeClassifier):
        return (model.predict(X)[:, None] == model.classes_).astype(float)
    if isinstance(model, RandomForestClassifier | ExtraTreesClassifier):
        return model.predict_proba(X)
    scores = model.decision_function(X)
    if scores.ndim == 1:
        return np.stack([-0.5 * scores, 0.5 * scores], axis=1)
    return scores / (len(model.classes_) - 1) if isinstance(model, AdaBoostClassifier) else scores


def smallest_attacks(form, X, sigma, prediction, starts=6, steps=30, seed=0):
    """Length, in units of sigma, of the smallest perturbation found that changes the largest expected score.

    For each input and each rival: steps towards the nearest point of the linearised zero set of the exact margin, from
    several starts, then a search along the ray for the first zero. All arrays run over inputs, rivals and starts.
    """
    rng = np.random.default_rng(seed)
    n_inputs = len(X)
    noisy = np.flatnonzero(sigma > 0.0)
    rivals = np.array([np.delete(np.arange(form.n_classes), c) for c in range(form.n_classes)])[prediction]
    row, rank = (a.ravel() for a in np.indices(rivals.shape))
    row, rival = np.repeat(row, starts), np.repeat(rivals[row, rank], starts)
    own = prediction[row]

    def margin(d):
        moved = X[row].copy()
        moved[:, noisy] += d * sigma[noisy]
        scores = form.expected_scores(moved, sigma)
        every = np.arange(len(row))
        return scores[every, own] - scores[every, rival]

    def gradient(d, h=1e-4):
        slopes = np.empty_like(d)
        for k in range(len(noisy)):
            step = np.zeros(len(noisy))
            step[k] = h
            slopes[:, k] = (margin(d + step) - margin(d - step)) / (2.0 * h)
        return slopes

    slopes = analytic_gradient(form, X, sigma, noisy, row, own, rival) or gradient
    d = rng.normal(size=(len(row), len(noisy))) * rng.choice([0.3, 1.0, 3.0], size=(len(row), 1)) / len(noisy) ** 0.5
    d[::starts] = 0.0
    best = np.full(n_inputs, np.inf)
    for step in range(steps):
        value, slope = margin(d), slopes(d)
        np.minimum.at(best, row[value <= 0.0], np.linalg.norm(d, axis=1)[value <= 0.0])
        steepness = np.maximum(np.square(slope).sum(axis=1), 1e-12)
        target = ((slope * d).sum(axis=1) - value)[:, None] / steepness[:, None] * slope
        length = np.maximum(np.linalg.norm(target, axis=1, keepdims=True), 1e-12)
        d = d + (1.0 if step < 5 else 0.6) * (target * np.minimum(1.0, 30.0 / length) - d)
    # The first zero on each ray: look at points along it, then halve.
    low, high = np.zeros(len(row)), np.full(len(row), np.nan)
    for share in np.linspace(0.05, 1.5, 30):
        hit = np.isnan(high) & (margin(share * d) <= 0.0)
        high[hit] = share
        low = np.where(np.isnan(high), share, low)
    for _ in range(30):
        middle = 0.5 * (low + high)
        bad = margin(np.nan_to_num(middle)[:, None] * d) <= 0.0
        high, low = np.where(bad, middle, high), np.where(bad, low, middle)
    found = ~np.isnan(high)
    np.minimum.at(best, row[found], (np.linalg.norm(d, axis=1) * high)[found])
    return best


def analytic_gradient(form, X, sigma, noisy, row, own, rival):
    """Gradients of margins of step functions, which have too many features for differences."""
    if not hasattr(form, "features"):
        return None

    def slopes(d):
        result = np.zeros_like(d)
        for k, j in enumerate(noisy):
            if j in form.features:
                steps = form.features[j]
                u = X[row, j][:, None] / sigma[j] + d[:, [k]] - steps.at / sigma[j]
                heights = np.exp(-0.5 * u * u) / np.sqrt(2.0 * np.pi)
                result[:, k] = (heights * (steps.weights[:, own] - steps.weights[:, rival]).T).sum(axis=1)
        return result

    return slopes
