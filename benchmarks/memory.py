"""Peak memory. Run: python benchmarks/memory.py [--large 1000000] [--long 100000000]

- Above the loaded model, for a network on 3 x 32 x 32 images: it should not depend on the number of samples.
- Of the whole main process, over one long run with a journal, in ten steps: it should not grow.

Each figure comes from a process of its own, since peaks never fall. Results go to benchmarks/results/memory.tsv.
Nothing is timed, so the machine may be busy.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from _memory import peak_above
from throughput import CERTIFIERS, cifar_cnn, small_cnn, smoothed

from smoothcert import SecondOrderDipoleCertifier

TARGET = 300


def above_the_model(name, n_samples):
    """Megabytes above the loaded model, for one input of 3072 features."""
    model, _, X = smoothed(cifar_cnn, CERTIFIERS[name](n_samples))
    return peak_above(lambda: model.certify(X[:1]))


def over_a_run(total, steps=10):
    """Peak megabytes of this process after each step of a run with a journal."""
    model, _, X = smoothed(small_cnn, SecondOrderDipoleCertifier(total // steps))
    with tempfile.TemporaryDirectory() as directory:
        for step in range(steps):
            model.certify(X[step : step + 1], journal=Path(directory) / f"{step}.sqlite")
            yield resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def elsewhere(*arguments):
    """What another process prints for these arguments."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--long", type=int, default=100_000_000)
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.only:
        what, number = options.only[0], int(options.only[1])
        peaks = over_a_run(number) if what == "run" else [above_the_model(what, number)]
        print(*(f"{peak:.1f}" for peak in peaks))
        return
    lines = [f"certifier\tsamples of one input, d = 3072\tMB above the model\ttarget {TARGET}"]
    sizes = [
        ("second order", options.large // 100),
        ("directional", options.large // 100),
        ("second order", options.large),
    ]
    for name, n_samples in sizes:
        (used,) = elsewhere("--only", name, n_samples)
        lines.append(f"{name}\t{n_samples}\t{used}")
        print(lines[-1], flush=True)
    peaks = elsewhere("--only", "run", options.long)
    lines.append(f"# MB of the main process after each tenth of {options.long} samples of a CNN 1x7x7, with a journal")
    lines.append("# " + "\t".join(peaks))
    print("\n".join(lines[-2:]))
    (Path(__file__).parent / "results" / "memory.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
