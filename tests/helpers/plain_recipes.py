"""The losses and adversaries of the training recipes, written down plainly: loops over inputs, copies and classes in
double precision, gradients by differences. Slow, and independent of what they are a reference for."""

import math

import numpy as np
from scipy.stats import norm


def softmax(row):
    top = max(row)
    powers = [math.exp(value - top) for value in row]
    return [power / sum(powers) for power in powers]


def means(logits, factor=1.0):
    """Averaged class probabilities of one input; `logits` is (copies, classes)."""
    each = [softmax([factor * value for value in copy]) for copy in logits]
    return [sum(column) / len(each) for column in zip(*each, strict=True)]


def cross_entropy(logits, y):
    """Mean over copies and inputs; `logits` is (copies, inputs, classes)."""
    return np.mean([-math.log(softmax(row)[label]) for copy in logits for row, label in zip(copy, y, strict=True)])


def per_input(function, logits, y):
    return np.mean([function(logits[:, j], y[j]) for j in range(len(y))])


def consistency(logits, y):
    def one(rows, label):
        mean = means(rows)
        return np.mean([sum(p * math.log(p / q) for p, q in zip(mean, softmax(row), strict=True)) for row in rows])

    return per_input(one, logits, y)


def entropy(logits, y):
    return per_input(lambda rows, label: -sum(p * math.log(p) for p in means(rows)), logits, y)


def negative_log_mean(logits, y):
    return per_input(lambda rows, label: -math.log(means(rows)[label]), logits, y)


def macer_hinge(logits, y, beta, gamma):
    def one(rows, label):
        scores = means(rows, beta)
        order = sorted(range(len(scores)), key=lambda c: -scores[c])
        distance = norm.ppf(scores[order[0]]) - norm.ppf(scores[order[1]])
        if order[0] != label or not math.isfinite(distance) or distance > gamma:
            return 0.0
        return gamma - distance

    return per_input(one, logits, y)


def mixed_divergence(clean, mixed, y, share):
    """The term of SmoothMix, from logits at the inputs and at the mixed inputs."""
    total = 0.0
    for j, label in enumerate(y):
        mean = means(clean[:, j])
        if max(range(len(mean)), key=lambda c: mean[c]) != label:
            continue
        target = [(1 - share[j]) * p + share[j] / len(mean) for p in mean]
        for row in mixed[:, j]:
            total += sum(t * math.log(t / q) for t, q in zip(target, softmax(row), strict=True)) / len(mixed)
    return total / len(y)


def differences(function, array, h=1e-5):
    """Gradient by central differences."""
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        there, back = array.copy(), array.copy()
        there[index] += h
        back[index] -= h
        gradient[index] = (function(there) - function(back)) / (2 * h)
    return gradient


def attack(logits_of_row, x, y, noise, step_size, n_steps, radius=None, clip=None):
    """Normalised gradient ascent, one input after the other; `noise` is (copies, inputs, ...)."""
    found = []
    for j, start in enumerate(x):

        def loss(point, j=j):
            return -math.log(means([logits_of_row(point + each[j]) for each in noise])[y[j]])

        point = start.copy()
        for _ in range(n_steps):
            gradient = differences(loss, point)
            point = point + step_size * gradient / np.sqrt(np.sum(gradient**2))
            if clip is not None:
                point = np.clip(point, *clip)
            length = np.sqrt(np.sum((point - start) ** 2))
            if radius is not None and length > radius:
                point = start + (point - start) * radius / length
        found.append(point)
    return np.array(found)
