"""scikit-learn's own checks, over several bases; they never certify, so one certifier stands for all."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from smoothcert import ColumnSigma, DipoleCertifier, SmoothedClassifier

BASES = [
    LogisticRegression(),
    DecisionTreeClassifier(random_state=0),
    make_pipeline(StandardScaler(), LogisticRegression()),
]


def estimators():
    for base in BASES:
        yield SmoothedClassifier(base, sigma=0.1, n_votes=64)
    certifier = DipoleCertifier()
    yield SmoothedClassifier(LogisticRegression(), sigma=0.1, n_votes=64, certifier=certifier, n_augment=0)
    yield SmoothedClassifier(GaussianNB(), sigma=0.1, n_votes=64, augmentation="passes", n_augment=3)
    yield SmoothedClassifier(LogisticRegression(), sigma=0.1, voting="soft")
    yield SmoothedClassifier(LogisticRegression(), sigma=ColumnSigma(0.1), n_votes=64)
    yield SmoothedClassifier(GaussianNB(), sigma=ColumnSigma(0.1), voting="soft")


# Naive Bayes itself warns when a class has no weight at all.
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning:sklearn.naive_bayes")
@parametrize_with_checks(list(estimators()))
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
