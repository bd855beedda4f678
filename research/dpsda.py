"""Runs Microsoft's DPSDA on the records, texts and vectors of `research.peer`.

`research.peer` starts this file as a program, in an environment with DPSDA's dependencies, and
describes the files and the requests. The program imports the unmodified checkout. It only adds an
API and an embedding, which pass requests to `research.peer`. As in DPSDA's examples, the shares of
the labels are exact. DPSDA stops if a label gets no text, so records of rarer labels are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

VECTOR = "VECTOR"  # the column with the number of a row's vector
# DPSDA's packages import these modules for images, tables and hosted models, which are not used.
UNUSED = tuple(
    f"pe.{package}.{kind}"
    for package in ("api", "data", "embedding")
    for kind in ("image", "tabular", "text")
)


class _Unused(ModuleType):
    """An empty module. An import of any name from it succeeds."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


class Texts:
    """The numbers and vectors of all texts. The first numbers are the private records.

    `vectors` (n, d) grows with each answer.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.vectors: NDArray[np.float32] = np.load(folder / "records.npy")

    def request(self, **request: Any) -> NDArray[np.int64]:
        """Request texts, and return the numbers of their vectors."""
        print(json.dumps(request), flush=True)
        answer = np.load(self._folder / json.loads(sys.stdin.readline())["vectors"])
        first = len(self.vectors)
        self.vectors = np.concatenate([self.vectors, answer])
        return np.arange(first, len(self.vectors))


def release(task: dict[str, Any], folder: Path) -> list[int]:
    """Run Private Evolution. Return the numbers of the texts that the last vote selected."""
    for name in UNUSED:
        sys.modules[name] = _Unused(name)
    sys.path.insert(0, task["checkout"])
    from pe.api.api import API
    from pe.constant.data import (
        LABEL_ID_COLUMN_NAME,
        TEXT_DATA_COLUMN_NAME,
        VARIATION_API_FOLD_ID_COLUMN_NAME,
    )
    from pe.data import Data
    from pe.embedding.embedding import Embedding
    from pe.histogram import NearestNeighbors
    from pe.population import CompositePopulation, PEPopulation
    from pe.runner import PE

    texts, options, size = Texts(folder), task["options"], task["texts"]
    records = len(texts.vectors)
    labels = np.load(folder / "labels.npy")
    codes, counts = np.unique(labels, return_counts=True)
    codes = codes[counts * size >= records]
    info = [{"name": str(code), "column_values": {}} for code in codes]

    def data(numbers: NDArray[np.int64], metadata: Any, labels: Any = 0) -> Any:
        columns = {TEXT_DATA_COLUMN_NAME: "", VECTOR: numbers, LABEL_ID_COLUMN_NAME: labels}
        return Data(data_frame=pd.DataFrame(columns), metadata=metadata)

    class RequestedTexts(API):
        def random_api(self, label_info: Any, num_samples: int) -> Any:
            numbers = texts.request(random=int(num_samples), label=int(label_info.name))
            return data(numbers, {"label_info": [label_info]})

        def variation_api(self, syn_data: Any) -> Any:
            parents = syn_data.data_frame[VECTOR].to_numpy() - records
            same = syn_data.data_frame[LABEL_ID_COLUMN_NAME].to_numpy()
            return data(texts.request(vary=parents.tolist()), syn_data.metadata, same)

    class ReceivedVectors(Embedding):
        def compute_embedding(self, data: Any) -> Any:
            vectors = list(texts.vectors[data.data_frame[VECTOR].to_numpy()])
            frame = data.data_frame.assign(**{self.column_name: vectors})
            return Data(data_frame=frame, metadata=data.metadata)

    api = RequestedTexts()

    def population(variations: int) -> Any:
        return PEPopulation(
            api=api, initial_variation_api_fold=options["first_variations"],
            next_variation_api_fold=variations, keep_selected=True, selection_mode="rank",
        )  # fmt: skip

    rounds = options["rounds"]
    steps = [population(options["variations"])] * rounds + [population(options["last_variations"])]
    used = np.flatnonzero(np.isin(labels, codes))
    runner = PE(
        priv_data=data(used, {"label_info": info}, np.searchsorted(codes, labels[used])),
        population=CompositePopulation(steps),
        histogram=NearestNeighbors(
            embedding=ReceivedVectors(), mode="L2", lookahead_degree=0,
            num_nearest_neighbors=options["neighbours"],
        ),
    )  # fmt: skip
    found = runner.run(
        num_samples_schedule=[options["first"] * size] + [size] * rounds,
        delta=task["delta"],
        epsilon=task["epsilon"],
        save_checkpoint=False,
    ).data_frame
    selected = found[found[VARIATION_API_FOLD_ID_COLUMN_NAME] == -1]
    return [int(number) - records for number in selected[VECTOR]]


def main(folder: Path) -> None:
    pd.options.mode.copy_on_write = True
    task = json.loads((folder / "task.json").read_text())
    (folder / "release.json").write_text(json.dumps(release(task, folder)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
