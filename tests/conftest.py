import os

# One thread for each test process: several of them share the cores, and threads that wait for a busy core crawl.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

from hypothesis import settings  # noqa: E402

# Deterministic, so that a red run can be repeated; no deadline, because machines differ.
settings.register_profile("smoothcert", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("smoothcert")
