"""A certifier in one file: first order, with Hoeffding's limit instead of the exact one.

It certifies less than `FirstOrderCertifier` from the same votes, and needs nothing but a square root. The point is its
length.
"""

import numpy as np

from smoothcert.bounds import first_order_radius
from smoothcert.certifiers import BaseCertifier
from smoothcert.tallies import VoteTally


def hoeffding_lower(hits, n, alpha):
    """Lower limit of a probability: above the truth with probability at most `alpha` (Hoeffding 1963)."""
    limit = hits / n - np.sqrt(-np.log(alpha) / (2 * n))
    return np.clip(limit - 1e-15, 0.0, 1.0)  # a few roundings, to the safe side


class HoeffdingCertifier(BaseCertifier):
    """Certificate from the share of votes, bounded by Hoeffding's inequality.

    All of `alpha` goes to the lower limit of that share.

    Parameters
    ----------
    n_samples : int, default=100_000
        Noisy copies of each input in the estimation.
    n_selection : int, default=100
        Noisy copies that choose the candidate class.
    alpha : float, default=0.001
        Probability that the certificate of an input is wrong.
    """

    tally_type = VoteTally

    def new_tally(self, n_rows, n_features, n_classes, candidate, plan=None):
        return VoteTally.empty(n_rows, n_classes, candidate)

    def infer(self, tally):
        return {"p": hoeffding_lower(tally.hits, tally.n, self.alpha)}

    def radius(self, limits):
        return first_order_radius(limits["p"])
