"""A second feature space, independent of the encoder: TF-IDF reduced by SVD.

A method that optimises distances in one embedding looks good in that embedding. TF-IDF counts words
and pairs of words without a model. Better texts have better metrics in embedding space and in
TF-IDF space. Source: Deerwester et al. 1990 (latent semantic analysis).
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
from sugarbush.threads import one_blas_thread

_MAX_TERMS = 20_000


@dataclass(frozen=True)
class LatentSpace:
    """A fitted space. `encode` returns `(n, dim)` float32 rows of length 1.

    The row of a text without a known word is zero.
    """

    _vectorizer: TfidfVectorizer
    _svd: TruncatedSVD

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        reduced = self._svd.transform(self._vectorizer.transform(texts))
        return np.asarray(normalize(reduced), dtype=np.float32)


def latent_space(texts: Sequence[str], *, dimensions: int = 100, seed: int) -> LatentSpace:
    """Fit the space to `texts`, which should be real texts that are not held out.

    A space for few distinct terms has fewer than `dimensions` dimensions. Raises FailureError if
    the texts share fewer than two words.
    """
    vectorizer = TfidfVectorizer(
        sublinear_tf=True, ngram_range=(1, 2), max_features=_MAX_TERMS, min_df=min(2, len(texts))
    )
    try:
        weights = vectorizer.fit_transform(texts)
    except ValueError:
        weights = None
    if weights is None or min(weights.shape) < 2:
        raise FailureError(
            "stage 'evaluate': the real texts share fewer than two words, so TF-IDF features are "
            "not possible. Use more or longer texts"
        )
    components = min(dimensions, *(size - 1 for size in weights.shape))
    svd = TruncatedSVD(n_components=components, random_state=seed % 2**32)
    with one_blas_thread():
        return LatentSpace(vectorizer, svd.fit(weights))
