"""Curves of the bounds are the bounds."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from smoothcert import DipoleCertifier, FirstOrderCertifier, SecondOrderCertifier
from smoothcert.bounds import first_order_radius, second_order_lower_bound, second_order_radius
from smoothcert.confidence import binomial_lower, gradient_norm_upper
from smoothcert.plotting import BoundDisplay
from smoothcert.plotting._bound import expected_radius, gradient_range


def test_lower_bound_against_distance():
    display = BoundDisplay.from_lower_bound(0.8, distance=[0.0, 0.5, 1.0])
    unknown, flat = display.lines_
    np.testing.assert_allclose(unknown.get_ydata(), ndtri(0.8) - np.array([0.0, 0.5, 1.0]), atol=1e-9)
    np.testing.assert_allclose(ndtr(flat.get_ydata()), second_order_lower_bound(0.8, 0.0, [0.0, 0.5, 1.0]))
    assert list(display.names) == ["gradient unknown", "gradient 0"]
    assert display.figure_ is display.ax_.figure


def test_radius_against_gradient():
    display = BoundDisplay.from_radius([0.6, 0.9], n_points=5)
    for p, line, dashed in zip([0.6, 0.9], display.lines_, display.first_order_lines_, strict=True):
        x, y = line.get_data()
        np.testing.assert_allclose(x, gradient_range(p, 5))
        np.testing.assert_allclose(y, second_order_radius(p, x))
        assert y[-1] == pytest.approx(first_order_radius(p), abs=1e-6)
        np.testing.assert_allclose(dashed.get_ydata(), first_order_radius(p))


@pytest.mark.parametrize(("method", "share"), [("paper", 0.5), ("centred", 0.2)])
def test_expected_radius_is_the_certifier_on_exact_estimates(method, share):
    n, alpha = 10**7, 0.001
    certifier = SecondOrderCertifier(n, alpha=alpha, gradient_bound=method)
    p = binomial_lower(0.8 * n, n, (1 - share) * alpha)
    norm = gradient_norm_upper(0.1**2, n, 49, share * alpha, method)
    radius = expected_radius(certifier, 0.8, [0.1, 0.2], n_features=49)
    assert radius.shape == (2,)
    assert radius[0] == pytest.approx(second_order_radius(p, norm), rel=1e-6)
    assert radius[1] < radius[0]


def test_empirical_display_lies_below_the_exact_one():
    exact = BoundDisplay.from_radius([0.8], n_points=7)
    certifier = SecondOrderCertifier(10**6)
    display = BoundDisplay.from_radius([0.8], n_points=7, certifier=certifier, n_features=49)
    assert np.all(display.y[0] < exact.y[0])
    assert display.first_order[0] < exact.first_order[0]


def test_bad_input():
    with pytest.raises(ValueError, match="n_features must be given"):
        BoundDisplay.from_radius(certifier=SecondOrderCertifier())
    with pytest.raises(ValueError, match="p must lie in"):
        BoundDisplay.from_radius([0.5])
    for certifier in (FirstOrderCertifier(), DipoleCertifier()):
        with pytest.raises(TypeError, match="GradientTally"):
            BoundDisplay.from_radius(certifier=certifier, n_features=2)
