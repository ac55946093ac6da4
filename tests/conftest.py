import os

# One thread for each test process: several of them share the cores, and threads that wait for a busy core crawl.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

from hypothesis import settings  # noqa: E402

# Deterministic, so that a red run can be repeated; no deadline, because machines differ.
settings.register_profile("smoothcert", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("smoothcert")


def pytest_addoption(parser):
    parser.addoption(
        "--all-simulations", action="store_true", help="run all cases of simulations, not only every third of them"
    )


def pytest_collection_modifyitems(config, items):
    """Keep every third case of each simulation: all of them together take several minutes."""
    if config.getoption("--all-simulations", default=False):
        return
    seen, kept, left_out = {}, [], []
    for item in items:
        name = item.nodeid.partition("[")[0]
        if item.get_closest_marker("simulation") is None:
            kept.append(item)
            continue
        number = seen[name] = seen.get(name, -1) + 1
        (left_out if number % 3 else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
