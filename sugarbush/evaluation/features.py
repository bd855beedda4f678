"""A second feature space that owes nothing to the encoder: TF-IDF reduced by SVD.

A method that optimises nearness in one embedding looks good in that embedding. Words and pairs of
words are counted here without any model, so that an improvement that shows in both spaces is one
of the texts. Source: Deerwester et al. 1990 (latent semantic analysis).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from sugarbush.errors import FailureError

_MAX_TERMS = 20_000


@dataclass(frozen=True)
class LatentSpace:
    """A fitted space. `encode`: `(n, dim)` float32 rows of length 1, 0 where no word is known."""

    _vectorizer: TfidfVectorizer
    _svd: TruncatedSVD

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        reduced = self._svd.transform(self._vectorizer.transform(texts))
        return np.asarray(normalize(reduced), dtype=np.float32)


def latent_space(texts: Sequence[str], *, dimensions: int = 100, seed: int) -> LatentSpace:
    """The space of `texts`, which should be real ones that nothing is measured against.

    Fewer dimensions where the texts hold fewer different terms. Raises FailureError when they
    hold no two different words.
    """
    vectorizer = TfidfVectorizer(
        sublinear_tf=True, ngram_range=(1, 2), max_features=_MAX_TERMS, min_df=min(2, len(texts))
    )
    try:
        weights = vectorizer.fit_transform(texts)
    except ValueError:
        # Its message is about settings of ours; a rare term's document frequency is the only cause.
        weights = None
    if weights is None or min(weights.shape) < 2:
        raise FailureError(
            "the second feature space needs texts that share at least two different words; "
            "these don't (stage 'evaluate')"
        )
    svd = TruncatedSVD(n_components=min(dimensions, *(s - 1 for s in weights.shape)),
                       random_state=seed % 2**32).fit(weights)  # fmt: skip
    return LatentSpace(vectorizer, svd)
