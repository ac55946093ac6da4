"""How many population certificates a second. Run: python benchmarks/bounds.py"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from smoothcert import bounds


def best_of(function, *arguments, repeats=3):
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function(*arguments)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main():
    rng = np.random.default_rng(0)
    n = 100_000
    p = rng.uniform(0.5, 1.0, n)
    grad_norm = rng.uniform(0.0, 1.0, n) * np.exp(-0.5 * ndtri(p) ** 2) / np.sqrt(2 * np.pi)
    both = rng.uniform(0.3, 1.0, n)
    one_sided = rng.uniform(0.0, 1.0, n) * (1.0 - both) / 2.0
    pair_grad = rng.uniform(0.0, 1.0, n) * np.exp(-0.5 * ndtri(one_sided) ** 2) / np.sqrt(2 * np.pi)
    few = slice(0, 10_000)
    jobs = [
        ("first_order_radius", bounds.first_order_radius, (p,)),
        ("second_order_radius", bounds.second_order_radius, (p, grad_norm)),
        ("dipole_radius", bounds.dipole_radius, (both, one_sided)),
        ("second_order_dipole_radius", bounds.second_order_dipole_radius, (both[few], one_sided[few], pair_grad[few])),
    ]
    lines = ["function\tradii\tseconds\tradii_per_second"]
    for name, function, arguments in jobs:
        seconds = best_of(function, *arguments)
        count = len(arguments[0])
        lines.append(f"{name}\t{count}\t{seconds:.3f}\t{count / seconds:.0f}")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "bounds.tsv").write_text(text)


if __name__ == "__main__":
    main()
