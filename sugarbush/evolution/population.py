"""Candidates and their lineage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError

if TYPE_CHECKING:
    import pandas as pd

NO_PARENT = -1
NO_CODE = -1
_ARRAYS = ("ids", "codes", "values", "labels", "parents", "rounds")


@dataclass(frozen=True, kw_only=True)
class Population:
    """n candidates.

    `ids` (n,) are unique within a run. `codes` (n, d) are metadata in schema order; NO_CODE means
    that the prompt had no value. By label, records vote for candidates with their own `labels`
    (n,). `values` (n, d) are the numbers and dates that prompts showed in these bins, or NaN.
    `parents` (n,) are ids or NO_PARENT. `rounds` (n,) are the rounds that wrote the texts.
    `examples` (n,) are the indices of the donated examples for each prompt. A variation has none.
    """

    ids: NDArray[np.int64]
    texts: tuple[str, ...]
    codes: NDArray[np.int64]
    labels: NDArray[np.int64]
    parents: NDArray[np.int64]
    rounds: NDArray[np.int64]
    examples: tuple[tuple[int, ...], ...] = ()
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        n = len(self.texts)
        if not self.examples:
            object.__setattr__(self, "examples", ((),) * n)
        if self.values.shape != self.codes.shape:
            object.__setattr__(self, "values", no_values(self.codes))
        columns = (self.ids, self.labels, self.parents, self.rounds)
        if (
            any(column.shape != (n,) for column in columns)
            or self.codes.shape[:1] != (n,)
            or len(self.examples) != n
        ):
            raise InvariantError("the columns of a population must have equal lengths")

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def first(
        cls,
        texts: Sequence[str],
        *,
        codes: NDArray[np.int64],
        labels: NDArray[np.int64] | None = None,
        examples: tuple[tuple[int, ...], ...] = (),
        values: NDArray[np.float64] | None = None,
    ) -> Population:
        """Make candidates of round 0, without parents. The default label is 0."""
        n = len(texts)
        return cls(
            ids=np.arange(n, dtype=np.int64),
            texts=tuple(texts),
            codes=codes,
            labels=np.zeros(n, dtype=np.int64) if labels is None else labels,
            parents=np.full(n, NO_PARENT, dtype=np.int64),
            rounds=np.zeros(n, dtype=np.int64),
            examples=examples,
            values=no_values(codes) if values is None else values,
        )

    def take(self, places: NDArray[np.integer[Any]]) -> Population:
        """Return the candidates at `places`, in the order of `places`."""
        arrays = {name: getattr(self, name)[places] for name in _ARRAYS}
        return Population(
            texts=tuple(self.texts[i] for i in places),
            examples=tuple(self.examples[i] for i in places),
            **arrays,
        )

    def join(self, other: Population) -> Population:
        """Return these candidates, followed by the candidates of `other`."""
        arrays = {n: np.concatenate([getattr(self, n), getattr(other, n)]) for n in _ARRAYS}
        return Population(
            texts=self.texts + other.texts, examples=self.examples + other.examples, **arrays
        )

    def distinct(self) -> Population:
        """Return the first candidate of each text and label, because copies get no votes."""
        kept: dict[tuple[str, int], int] = {}
        for index, key in enumerate(zip(self.texts, self.labels.tolist(), strict=True)):
            kept.setdefault(key, index)
        return self.take(np.fromiter(kept.values(), dtype=np.int64, count=len(kept)))

    def frame(self, names: Sequence[str]) -> pd.DataFrame:
        """Return one row per candidate, with one `code_<name>` column per attribute, and one
        `value_<name>` column per attribute with a number or date.

        The keys of stored rounds contain this frame, so it has no column of examples.
        """
        import pandas as pd  # slow; a stage that is skipped needs no pandas

        columns: dict[str, Any] = {
            "id": self.ids,
            "text": list(self.texts),
            "label": self.labels,
            "parent": self.parents,
            "round": self.rounds,
        }
        columns |= {f"code_{name}": self.codes[:, j] for j, name in enumerate(names)}
        columns |= {
            f"value_{name}": self.values[:, j]
            for j, name in enumerate(names)
            if not np.isnan(self.values[:, j]).all()
        }
        return pd.DataFrame(columns)


def save_population(population: Population, names: Sequence[str], path: Path) -> None:
    """Write `population` as parquet."""
    frame = population.frame(names)
    if any(population.examples):
        frame["examples"] = list(population.examples)
    frame.to_parquet(path, index=False)


def load_population(path: Path, names: Sequence[str]) -> Population:
    """Read a file that `save_population` wrote."""
    import pandas as pd

    frame = pd.read_parquet(path)
    codes = frame[[f"code_{name}" for name in names]].to_numpy(dtype=np.int64)
    codes = codes.reshape(len(frame), len(names))
    values = no_values(codes)
    for place, name in enumerate(names):
        if f"value_{name}" in frame:
            values[:, place] = frame[f"value_{name}"].to_numpy(dtype=np.float64)
    return Population(
        ids=frame["id"].to_numpy(dtype=np.int64),
        texts=tuple(frame["text"]),
        codes=codes,
        labels=frame["label"].to_numpy(dtype=np.int64),
        parents=frame["parent"].to_numpy(dtype=np.int64),
        rounds=frame["round"].to_numpy(dtype=np.int64),
        examples=tuple(
            () if indices is None else tuple(map(int, indices))
            for indices in frame.get("examples", ())
        ),
        values=values,
    )


def no_values(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return NaN for each code: no prompt had a number or a date."""
    return np.full(codes.shape, np.nan)
