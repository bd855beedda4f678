"""Train on synthetic texts, test on real ones: the fast downstream check.

A logistic regression on embeddings, trained on synthetic texts with the attribute that each was
written for, tested on held-out real texts; beside it the same model trained on real texts and the
majority class. Source of the protocol: Esteban et al. 2017 (train on synthetic, test on real).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evaluation.attributes import train_reader


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Right answers and a model's, `(n,)` each, over the held-out texts."""

    truth: NDArray[np.int64]
    predicted: NDArray[np.int64]

    def accuracy(self, chosen: NDArray[np.intp] | None = None) -> float:
        """The share that is right."""
        rows = slice(None) if chosen is None else chosen
        return float(np.mean(self.truth[rows] == self.predicted[rows]))

    def macro_f1(self, chosen: NDArray[np.intp] | None = None) -> float:
        """F1 averaged over the values that occur in the chosen truth or predictions.

        As scikit-learn's `f1_score(average="macro")`, in a hundredth of its time: a bootstrap asks
        for it thousands of times.
        """
        rows = slice(None) if chosen is None else chosen
        truth, predicted = self.truth[rows], self.predicted[rows]
        values = int(max(truth.max(), predicted.max())) + 1
        right = np.bincount(truth[truth == predicted], minlength=values)
        # F1 is twice the right ones over those that are so and those that are said to be.
        both = np.bincount(truth, minlength=values) + np.bincount(predicted, minlength=values)
        occurs = both > 0
        return float(np.mean(2 * right[occurs] / both[occurs]))


def predictions(
    training: NDArray[Any],
    training_codes: NDArray[np.integer[Any]],
    *,
    heldout: NDArray[Any],
    heldout_codes: NDArray[np.integer[Any]],
    seed: int,
) -> Predictions:
    """What a model trained on `training` (m, d) with codes (m,) says of `heldout` (n, d).

    Raises InvariantError when either is empty.
    """
    if not len(heldout):
        raise InvariantError("no held-out texts to test on")
    model = train_reader(training, training_codes, seed=seed)
    return Predictions(
        truth=np.asarray(heldout_codes, dtype=np.int64), predicted=model.read(heldout)
    )


def majority(
    training_codes: NDArray[np.integer[Any]], *, heldout_codes: NDArray[np.integer[Any]]
) -> Predictions:
    """Always the commonest code of the training texts: what a model must beat."""
    if not len(training_codes) or not len(heldout_codes):
        raise InvariantError("a majority needs training and held-out texts")
    commonest = int(np.bincount(training_codes).argmax())
    return Predictions(
        truth=np.asarray(heldout_codes, dtype=np.int64),
        predicted=np.full(len(heldout_codes), commonest, dtype=np.int64),
    )
