"""What a net returns, as logits: nets differ in what their criterion expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
from torch import Tensor, nn


def main_output(output: Any) -> Tensor:
    """Return the scores of the classes among what a module returned: a tensor as it is, the first entry of a tuple, or
    ``logits`` of a mapping or of an object, as the models of some libraries return them."""
    if isinstance(output, Mapping):
        output = output["logits"] if "logits" in output else next(iter(output.values())) if len(output) == 1 else output
    elif not isinstance(output, tuple) and not torch.is_tensor(output):
        output = getattr(output, "logits", output)
    elif isinstance(output, tuple) and output:
        output = getattr(output, "logits", output[0])
    if not torch.is_tensor(output):
        keys = f" with the entries {', '.join(map(str, output))}" if isinstance(output, Mapping) else ""
        raise TypeError(
            f"The module must return a tensor of scores, or have it in `logits`, got {type(output).__name__}{keys}. "
            "Wrap it in a module whose forward returns the scores alone."
        )
    scores: Tensor = output
    return scores


def logits_from(net: Any, sample: Tensor) -> Callable[[Any], Tensor]:
    """Return the function from the outputs of an initialised net to logits of shape (n, n_classes).

    Parameters
    ----------
    net : skorch.NeuralNet
    sample : Tensor
        Outputs for some inputs, looked at where the criterion does not tell what it expects.
    """
    criterion = getattr(net, "criterion_", None)
    criterion = getattr(criterion, "_orig_mod", criterion)  # compiled
    nonlinearity = getattr(net, "predict_nonlinearity", None)
    convert: Callable[[Tensor], Tensor]
    if isinstance(net, NeuralNetBinaryClassifier):
        convert = _from_probability if isinstance(criterion, nn.BCELoss) else _from_logit
    elif isinstance(net, NeuralNetClassifier) and isinstance(criterion, nn.NLLLoss):
        convert = _log  # skorch takes the logarithm itself, so the module returns probabilities
    elif isinstance(criterion, nn.CrossEntropyLoss | nn.NLLLoss):
        convert = _same
    elif callable(nonlinearity):

        def convert(output: Tensor) -> Tensor:
            return _log(nonlinearity(output))
    else:
        convert = _log if looks_like_probabilities(sample) else _same

    def to_logits(output: Any) -> Tensor:
        first = main_output(output)
        return convert(first.float() if first.dtype in (torch.float16, torch.bfloat16) else first)

    return to_logits


def looks_like_probabilities(output: Tensor) -> bool:
    """Return whether rows are non-negative and sum to one."""
    sums = output.sum(dim=-1)
    return bool((output >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3)


def _same(output: Tensor) -> Tensor:
    return output


def _log(probabilities: Tensor) -> Tensor:
    return torch.log(probabilities + torch.finfo(probabilities.dtype).eps)


def _from_logit(output: Tensor) -> Tensor:
    one = output.reshape(len(output))
    return torch.stack([torch.zeros_like(one), one], dim=1)


def _from_probability(output: Tensor) -> Tensor:
    one = output.reshape(len(output))
    return _log(torch.stack([1 - one, one], dim=1))
