"""Attributes of synthetic texts where the real ones come from columns.

A given column cannot be read off a text. So a classifier learns it from real train texts and is
applied *alike* to held-out and synthetic texts: its own mistakes then stand on both sides, and a
synthetic text is not taken at the word of the prompt that it was written for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from sugarbush.errors import InvariantError

_STRENGTH = 10.0  # embeddings have unit length, so scikit-learn's default of 1 underfits
_ITERATIONS = 300
_SOLVER = "newton-cg"  # on MiniLM of complaints 2 to 5 times as fast as the default, same accuracy


@dataclass(frozen=True)
class AttributeReader:
    """Reads one attribute off an embedding."""

    _model: LogisticRegression | None
    _only: int

    def read(self, embeddings: NDArray[Any]) -> NDArray[np.int64]:
        """The likeliest code of each row, `(n,)`."""
        if self._model is None:
            return np.full(len(embeddings), self._only, dtype=np.int64)
        return np.asarray(self._model.predict(embeddings), dtype=np.int64)


def train_reader(
    embeddings: NDArray[Any], codes: NDArray[np.integer[Any]], *, seed: int
) -> AttributeReader:
    """A logistic regression from `embeddings` (n, d) to `codes` (n,).

    Where only one code occurs it is always that one. Trained on real texts: never released.
    Raises InvariantError when there are no rows.
    """
    occurring = np.unique(codes)
    if not len(occurring):
        raise InvariantError("no texts to learn an attribute from")
    if len(occurring) == 1:
        return AttributeReader(None, int(occurring[0]))
    model = LogisticRegression(
        C=_STRENGTH, max_iter=_ITERATIONS, solver=_SOLVER, random_state=seed % 2**32
    )
    return AttributeReader(model.fit(embeddings, codes), -1)
