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
    """Keep every third case of each simulation: all of them together take several minutes. Slow tests come first, so
    that no process is still busy with one when the others are done."""
    if not config.getoption("--all-simulations", default=False):
        seen, left_out = {}, []
        for item in items:
            if item.get_closest_marker("simulation") is not None:
                name = item.nodeid.partition("[")[0]
                number = seen[name] = seen.get(name, -1) + 1
                if number % 3:
                    left_out.append(item)
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            unwanted = set(left_out)
            items[:] = [item for item in items if item not in unwanted]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
