"""Computes a lower bound on mu from several independent runs, each with many canaries.

In a single run, many guesses may be right together by chance. The bound of `one_run` must allow for
this chance. Independent runs show how often many guesses are right together. So the bound of this
module detects a small fault with fewer canaries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import ndtri

from sugarbush.errors import InvariantError


def mu_lower_bound_of_runs(accuracies: Sequence[float], *, confidence: float) -> float:
    """Return a mu for which the runs disprove mu-Gaussian DP, or 0 if there is none.

    `accuracies` contains each run's fraction of right guesses. Each run needs its own coins and its
    own noise. The attacker must guess the coin of every canary.

    Guarantee: for a mechanism that is mu-GDP, the bound is above mu with probability at most 1 -
    `confidence`. Proof: given all other coins, a guess is right with probability at most p = Phi(mu
    / 2). Here p is 1/2 plus half of the total variation distance of N(mu, 1) from N(0, 1). So the
    expected accuracy of a run is at most p, for any dependence within the run. Runs are
    independent, so the product of all accuracy / p has an expectation of at most 1. By Markov's
    inequality, the product is at least 1 / (1 - confidence) with probability at most 1 -
    confidence.

    >>> round(mu_lower_bound_of_runs([0.57] * 200, confidence=0.95), 2)
    0.31
    """
    if not accuracies or not all(0 <= accuracy <= 1 for accuracy in accuracies):
        raise InvariantError("every run needs a fraction of right guesses between 0 and 1")
    if not 0.5 <= confidence < 1:
        raise InvariantError(f"confidence={confidence!r} must be at least 0.5 and below 1")
    if min(accuracies) == 0:
        return 0.0
    logs = math.fsum(map(math.log, accuracies)) + math.log(1 - confidence)
    return max(0.0, 2 * float(ndtri(math.exp(logs / len(accuracies)))))
