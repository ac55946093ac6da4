"""A training recipe in one file: stability training, after Li et al. (2019).

The net learns the labels of clean inputs, and to say about a noisy copy what it says about the clean input.
"""

from torch.nn import functional as F

from smoothcert.training import BaseRecipe


class Stability(BaseRecipe):
    """Pull the predictions for noisy copies towards those for the clean input.

    Parameters
    ----------
    weight : float, default=2.0
        Weight of the stability term.
    copies : int, default=1
        Noisy copies of each input in a training step.
    chunking : {"step", "accumulate", None}, default="step"
        How a batch is split when there are several copies.
    """

    def __init__(self, weight=2.0, copies=1, chunking="step"):
        super().__init__(copies, chunking)
        self.weight = weight

    def objective(self, step, logits, y):
        clean = step.classify(step.x)
        target = F.softmax(clean.detach(), dim=-1)  # the noisy copies follow the clean input, not the other way round
        change = -(target * F.log_softmax(logits, dim=-1)).sum(dim=-1)
        return {
            "ce": F.cross_entropy(clean, y, reduction="none"),
            "stability": self.weight * change.mean(dim=0),
        }

    def check_params(self):
        super().check_params()
        if not self.weight >= 0:
            raise ValueError(f"weight must be at least 0, got {self.weight!r}. 2 is the authors'.")
