"""Cost of inference for one input, by certifier and number of samples. Run: python benchmarks/inference.py"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from smoothcert import DipoleCertifier, FirstOrderCertifier, SecondOrderCertifier, SecondOrderDipoleCertifier
from smoothcert.tallies import GradientTally, PairTally, VoteTally


def evidence(n_samples, rows, n_features=49):
    """Counts of inputs with probabilities and gradients like those of a network on small images."""
    rng = np.random.default_rng(0)
    pairs = n_samples // 2
    shares = rng.dirichlet([8.0, 3.0, 0.7], rows)
    both, one, _ = np.array([rng.multinomial(pairs, share) for share in shares]).T
    hits = 2 * both + one
    norm_sq = np.square(0.3 * one / (2 * pairs))
    by_sample = GradientTally.from_norm_sq(hits, n_samples, norm_sq, n_features)
    by_pair = GradientTally.from_norm_sq(hits // 2, pairs, norm_sq, n_features)
    return [
        (FirstOrderCertifier(), VoteTally(hits, n_samples)),
        (SecondOrderCertifier(), by_sample),
        (DipoleCertifier(), PairTally(both, one, pairs)),
        (SecondOrderDipoleCertifier(), PairTally(both, one, pairs, grad_sum=by_pair.grad_sum, grad_sq=by_pair.grad_sq)),
    ]


def main():
    few, many = 300, 100_000
    lines = ["certifier\tn_samples\tmicroseconds_per_row"]
    for n_samples in (10_000, 100_000, 1_000_000, 100_000_000):
        for certifier, tally in evidence(n_samples, few):
            rows = few
            if isinstance(tally, VoteTally):  # too fast to be timed on few
                rows, tally = many, evidence(n_samples, many)[0][1]
            best = np.inf
            for _ in range(3):
                start = time.perf_counter()
                certifier.certify_tally(tally)
                best = min(best, time.perf_counter() - start)
            lines.append(f"{type(certifier).__name__}\t{n_samples}\t{best / rows * 1e6:.2f}")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "inference.tsv").write_text(text)


if __name__ == "__main__":
    main()
