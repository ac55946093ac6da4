"""CPU time of training by recipe against a bare torch loop. Run: python benchmarks/training_overhead.py

LeNet on images of 28 by 28 random pixels, one epoch of batches of 256, one thread. The loop does what the recipe does
and nothing else: no history, no checks, no callbacks. Both are timed in turn, several times, in CPU time; the ratio is
the median over the turns.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F
from training import lenet, lenet_by_sgd

from smoothcert import SmoothedClassifier
from smoothcert.training import MACER, Consistency, GaussianNoise, SmoothAdv, SmoothMix

SIGMA, N_IMAGES, N_TURNS, BATCH = 0.5, 512, 5, 256


def log_mean(logits):
    return logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))


def search(module, x, y, noise, length, n_steps, radius=None):
    """Steps up the loss of the smoothed classifier."""
    module.eval()
    for weight in module.parameters():
        weight.requires_grad_(False)
    moved = x
    for _ in range(n_steps):
        moved = moved.detach().requires_grad_(True)
        logits = module((moved + noise).flatten(0, 1)).view(*noise.shape[:2], -1)
        (slope,) = torch.autograd.grad(-log_mean(logits).gather(1, y[:, None]).sum(), moved)
        moved = moved.detach() + length * slope / slope.flatten(1).norm(dim=1).clamp_min(1e-30)[:, None, None, None]
        if radius is not None:
            change = moved - x
            moved = x + change * (radius / change.flatten(1).norm(dim=1).clamp_min(radius))[:, None, None, None]
    module.train()
    for weight in module.parameters():
        weight.requires_grad_(True)
    return moved.detach()


def ask(module, x, noise):
    return module((x + noise).flatten(0, 1)).view(*noise.shape[:2], -1)


def plain_ce(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.repeat(len(logits)))


def noise_loss(module, x, y, noise):
    return plain_ce(ask(module, x, noise), y)


def consistency_loss(module, x, y, noise):
    logits = ask(module, x, noise)
    log_p = log_mean(logits)
    p = log_p.exp()
    apart = (p * (log_p - logits.log_softmax(-1).mean(0))).sum(-1).mean()
    return plain_ce(logits, y) + 5 * apart - 0.5 * (p * log_p).sum(-1).mean()


def macer_loss(module, x, y, noise):
    logits = ask(module, x, noise)
    scores = (16 * logits).softmax(-1).mean(0)
    best, index = scores.topk(2)
    margin = torch.special.ndtri(best[:, 0]) - torch.special.ndtri(best[:, 1])
    counted = (index[:, 0] == y) & torch.isfinite(margin) & (margin <= 8)
    best = best[counted]
    hinge = 8 - (torch.special.ndtri(best[:, 0]) - torch.special.ndtri(best[:, 1]))
    return -log_mean(logits).gather(1, y[:, None]).mean() + 16 * SIGMA / 2 * hinge.sum() / len(x)


def smoothadv_loss(module, x, y, noise):
    return noise_loss(module, search(module, x, y, noise, 2 * SIGMA / 10, 10, SIGMA), y, noise)


def smoothmix_loss(module, x, y, noise):
    logits = ask(module, x, noise)
    far = search(module, x, y, noise, 2 * SIGMA, 4)
    p = log_mean(logits).exp()
    share = torch.rand(len(x), 1) / 2
    along = share[:, :, None, None]
    mixed = ask(module, (1 - along) * x + along * far, noise)
    target = (1 - share) * p + share / 10
    apart = (target * (target.clamp_min(1e-38).log() - mixed.log_softmax(-1).mean(0))).sum(-1)
    return plain_ce(logits, y) + 5 * ((p.argmax(1) == y) * apart).mean()


RECIPES = {
    "GaussianNoise": (GaussianNoise(), noise_loss),
    "Consistency": (Consistency(), consistency_loss),
    "MACER": (MACER(warmup=0), macer_loss),
    "SmoothMix": (SmoothMix(warmup=0), smoothmix_loss),
    "SmoothAdv": (SmoothAdv(warmup=0), smoothadv_loss),
}


def bare(loss, copies, X, y):
    """Train for one epoch by hand."""
    module = lenet()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    for batch, labels in torch.utils.data.DataLoader(pairs, batch_size=BATCH, shuffle=True):
        for x, target in zip(batch.chunk(copies), labels.chunk(copies), strict=True):
            noise = SIGMA * torch.randn((copies, *x.shape))
            optimizer.zero_grad()
            loss(module, x, target, noise).backward()
            optimizer.step()


def fit(recipe, X, y):
    """Train for one epoch through the library."""
    net = lenet_by_sgd(1).set_params(verbose=0)
    SmoothedClassifier(net, sigma=SIGMA, training=recipe, random_state=0).fit(X, y)


def cpu(function, *arguments):
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    X = rng.random((N_IMAGES, 1, 28, 28), dtype=np.float32)
    y = rng.integers(10, size=N_IMAGES)
    y[:10] = np.arange(10)
    lines = ["recipe\tloop_cpu_seconds\tfit_cpu_seconds\tratio\tsmallest_ratio\tlargest_ratio"]
    print(lines[0], flush=True)
    fit(GaussianNoise(), X, y)
    bare(noise_loss, 1, X, y)
    for name, (recipe, loss) in RECIPES.items():
        turns = []
        for turn in range(N_TURNS):
            calls = [(bare, loss, recipe.copies, X, y), (fit, recipe, X, y)]
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            seconds = dict(zip(order, (cpu(*calls[which]) for which in order), strict=True))
            turns.append((seconds[0], seconds[1]))
        loop, library = np.median(turns, axis=0)
        ratios = np.array([b / a for a, b in turns])
        lines.append(
            f"{name}\t{loop:.2f}\t{library:.2f}\t{np.median(ratios):.3f}\t{ratios.min():.3f}\t{ratios.max():.3f}"
        )
        print(lines[-1], flush=True)
    results = Path(__file__).parent / "results"
    (results / "training_overhead.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
