import matplotlib
import pytest


@pytest.fixture(autouse=True)
def draw_to_memory():
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield
    plt.close("all")
