"""Trains on synthetic texts and tests on real texts: the fast downstream check.

For each attribute, a logistic regression learns the values from embeddings of texts. Held-out real
texts test the model. The same test is made for the majority class, for the donated examples alone,
and for the synthetic texts together with the donated examples. A release is useless for training if
a model learns less from it than from the donated examples alone. Source of the protocol: Esteban et
al. 2017 (train on synthetic, test on real).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import percentile_interval
from sugarbush.evaluation.interface import MetricSettings, MetricValue, Sample
from sugarbush.randomness import public_rng
from sugarbush.threads import one_blas_thread

_STRENGTH = 10.0  # scikit-learn's default of 1 underfits unit vectors
_ITERATIONS = 300
# What a model learned from, as the beginning of the names of its metrics.
ROWS = {
    "": "these texts",
    "with_donated_": "these texts and the donated examples",
    "donated_": "the donated examples alone",
    "majority_": "always the most common value",
}
_SOLVER = "newton-cg"  # 2 to 5 times as fast as the default, at the same accuracy


def downstream_values(
    heldout: Sample,
    training: Sample,
    *,
    space: str,
    settings: MetricSettings,
    donated: Sample | None = None,
) -> Iterator[MetricValue]:
    """Compute accuracy and macro-F1 of each model (ROWS) and each attribute.

    Real texts as `training` give the upper limit. Attributes with only one value in `heldout` are
    skipped. Texts without a code (-1) are ignored.
    """
    for column, name in enumerate(settings.domain):
        truth = heldout.codes[:, column]
        features, codes = _labelled(training, column, space)
        if not len(codes) or len(np.unique(truth)) < 2:
            continue

        def model(
            features: NDArray[Any],
            codes: NDArray[np.int64],
            truth: NDArray[np.int64] = truth,
        ) -> Predictions:
            return predictions(
                features,
                codes,
                heldout=heldout.features[space],
                heldout_codes=truth,
                seed=settings.seed,
            )

        rows = {"": model(features, codes), "majority_": majority(codes, heldout_codes=truth)}
        if donated is not None and len(donated):
            donated_features, donated_codes = _labelled(donated, column, space)
            if len(donated_codes):
                both = np.concatenate([features, donated_features])
                rows["donated_"] = model(donated_features, donated_codes)
                rows["with_donated_"] = model(both, np.concatenate([codes, donated_codes]))
        for prefix, row in rows.items():
            for metric, statistic in (("accuracy", row.accuracy), ("macro_f1", row.macro_f1)):
                estimate = percentile_interval(
                    statistic,
                    sizes=(len(truth),),
                    resamples=settings.resamples,
                    rng=public_rng(settings.seed, prefix, metric, name),
                )
                yield MetricValue.of(prefix + metric, name, estimate)


def _labelled(sample: Sample, column: int, space: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    has_code = sample.codes[:, column] >= 0
    return sample.features[space][has_code], sample.codes[has_code, column]


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """The true and the predicted attribute codes of the held-out texts, `(n,)` each."""

    truth: NDArray[np.int64]
    predicted: NDArray[np.int64]

    def accuracy(self, chosen: NDArray[np.intp] | None = None) -> float:
        rows = slice(None) if chosen is None else chosen
        return float(np.mean(self.truth[rows] == self.predicted[rows]))

    def macro_f1(self, chosen: NDArray[np.intp] | None = None) -> float:
        """Compute the mean of F1 over the values that occur in the chosen codes.

        The result equals scikit-learn's `f1_score(average="macro")`. A bootstrap computes F1
        thousands of times, and scikit-learn takes a hundred times as long.
        """
        rows = slice(None) if chosen is None else chosen
        truth, predicted = self.truth[rows], self.predicted[rows]
        values = int(max(truth.max(), predicted.max())) + 1
        right = np.bincount(truth[truth == predicted], minlength=values)
        # F1 = 2 * correct / (true + predicted)
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
    """Train a model on `training` (m, d) with codes (m,), and predict codes of `heldout` (n, d).

    Raises InvariantError if `training` or `heldout` is empty.
    """
    if not len(heldout):
        raise InvariantError("the downstream check needs held-out texts")
    model = train_classifier(training, training_codes, seed=seed)
    return Predictions(
        truth=np.asarray(heldout_codes, dtype=np.int64), predicted=model.predict(heldout)
    )


def majority(
    training_codes: NDArray[np.integer[Any]], *, heldout_codes: NDArray[np.integer[Any]]
) -> Predictions:
    """Predict the most common code of the training texts for every held-out text."""
    if not len(training_codes) or not len(heldout_codes):
        raise InvariantError("the majority baseline needs training and held-out texts")
    commonest = int(np.bincount(training_codes).argmax())
    return Predictions(
        truth=np.asarray(heldout_codes, dtype=np.int64),
        predicted=np.full(len(heldout_codes), commonest, dtype=np.int64),
    )


def train_classifier(
    embeddings: NDArray[Any], codes: NDArray[np.integer[Any]], *, seed: int
) -> Any:
    """Train a logistic regression of scikit-learn from `embeddings` (n, d) to `codes` (n,).

    If only one code occurs, the classifier always predicts this code. Raises InvariantError if
    there are no rows.

    Attributes that come from columns cannot be read from a text. A classifier that is trained on
    real texts predicts the codes of held-out *and* synthetic texts. The errors of the classifier
    therefore affect held-out and synthetic texts in the same way.
    """
    from sklearn.dummy import DummyClassifier  # slow to import
    from sklearn.linear_model import LogisticRegression

    if not len(codes):
        raise InvariantError("an attribute classifier needs training texts")
    if len(np.unique(codes)) == 1:
        return DummyClassifier(strategy="most_frequent").fit(embeddings, codes)
    model = LogisticRegression(
        C=_STRENGTH, max_iter=_ITERATIONS, solver=_SOLVER, random_state=seed % 2**32
    )
    with one_blas_thread():
        return model.fit(embeddings, codes)
