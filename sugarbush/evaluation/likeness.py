"""Compares texts with donated examples: a measure of quality that reads no private text.

Guarantee: the result depends on released and public texts only, so it is public.

    separability   how well a classifier distinguishes the texts from the donated examples
                   (classifier two-sample test; Lopez-Paz and Oquab 2017): the area under the ROC
                   curve, by cross-validation. 0.5: the classifier only guesses; 1: it recognises
                   every text
    foreign        the share of texts that are further from every donated example than 95% of the
                   donated examples are from the others
    coverage       how near the donated examples are to a text, relative to their distance from one
                   another; 1 or more: as near

Measured on four real sets with 50 donated texts (docs/log/first_release.md): texts of the same set
have a separability of 0.46 to 0.62 and 5% foreign texts. If half of the texts are from another set,
MAUVE is 0.23 to 0.26 and the separability is 0.71 to 0.82.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.randomness import public_rng

LEAST_DONATED = 10  # fewer donated examples are no sample
_FOLDS = 5
_MOST_TEXTS = 1000
_NEAR_QUANTILE = 0.05
_EQUAL = 0.995  # the cosine of a copy, up to case and punctuation


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """The similarity of texts to the donated examples (see this module). `donated` counts the
    different examples, and `copied` is the share of the texts that equal an example; they are not
    compared.
    """

    separability: float
    foreign: float
    coverage: float
    donated: int
    copied: float = 0.0


def likeness(
    texts: NDArray[np.floating[Any]], donated: NDArray[np.floating[Any]], *, seed: int = 1
) -> Likeness | None:
    """Compare the embeddings `texts` (n, d) with `donated` (m, d); rows are unit vectors.

    At most 1,000 random texts are used. The result is None for fewer than LEAST_DONATED donated
    examples or texts.

    >>> import numpy as np
    >>> rows = np.random.default_rng(1).normal(size=(300, 8))
    >>> rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    >>> same = likeness(rows[:200], rows[200:])
    >>> 0.35 < same.separability < 0.65
    True
    """
    _, first = np.unique(np.round(donated, 5), axis=0, return_index=True)
    donated = donated[np.sort(first)]
    if min(len(texts), len(donated)) < LEAST_DONATED:
        return None
    is_copy = (texts @ donated.T).max(axis=1) > _EQUAL
    if (~is_copy).sum() >= LEAST_DONATED:
        texts = texts[~is_copy]
    from sklearn.linear_model import LogisticRegression  # slow to import
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rng = public_rng(seed, "likeness")
    if len(texts) > _MOST_TEXTS:
        texts = texts[np.sort(rng.choice(len(texts), size=_MOST_TEXTS, replace=False))]
    rows = np.concatenate([texts, donated]).astype(np.float64)
    is_donated = np.repeat([0, 1], [len(texts), len(donated)])
    scores = cross_val_predict(
        LogisticRegression(C=10.0, class_weight="balanced", max_iter=300),
        rows,
        is_donated,
        cv=StratifiedKFold(_FOLDS, shuffle=True, random_state=seed),
        method="decision_function",
    )
    among = donated @ donated.T
    np.fill_diagonal(among, -1.0)
    usual = among.max(axis=1)
    cosines = texts @ donated.T
    fewer = rng.choice(len(texts), size=min(len(texts), len(donated) - 1), replace=False)
    return Likeness(
        separability=float(roc_auc_score(is_donated, scores)),
        foreign=float(np.mean(cosines.max(axis=1) < np.quantile(usual, _NEAR_QUANTILE))),
        coverage=float(cosines[fewer].max(axis=0).mean() / max(float(usual.mean()), 1e-6)),
        donated=len(donated),
        copied=float(is_copy.mean()),
    )
