"""Runs Tab-PE of microsoft/DPSDA on a table of codes. `benchmarks.aim` starts this file.

    PYTHON benchmarks/tab_pe_engine.py CHECKOUT TABLE.npz ROWS.npy --epsilon 1 --delta 1e-9

DPSDA has dependencies that the project does not have. So PYTHON is the interpreter of another
environment, and this file imports nothing of the project. TABLE.npz contains the codes (n, d), the
sizes (d,) and whether a column is ordered (d,). The populations, the mutation rates, the 30 votes
and the 1,000 rows are those of DPSDA's example for Adult. The example has the income as a label,
whose exact shares it uses; here all columns are columns of the table, and there is no label. The
example reads the range of each column from the private table; here the sizes are public.
"""

from __future__ import annotations

import argparse
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

ROUNDS, SAMPLED = 30, 5
# Packages for images, hosted models and classifiers, which are imported and not used.
UNUSED = (
    "pe.api.image", "pe.api.text", "pe.data.image", "pe.data.text", "pe.embedding.image",
    "pe.embedding.text",
)  # fmt: skip


class _Unused(ModuleType):
    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout")
    parser.add_argument("table")
    parser.add_argument("rows")
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--count", type=int, default=1_000)
    asked = parser.parse_args()

    for name in UNUSED:
        sys.modules[name] = _Unused(name)
    sys.path.insert(0, asked.checkout)
    pd.options.mode.copy_on_write = True
    from pe.api.tabular.tabular_api import TabularAPI
    from pe.constant.data import (
        LABEL_ID_COLUMN_NAME,
        TABULAR_DATA_COLUMN_NAME,
        VARIATION_API_FOLD_ID_COLUMN_NAME,
    )
    from pe.data import Data
    from pe.data.tabular.tabular_csv import TabularColumnType
    from pe.embedding.tabular.tabular_embedding import TabularEmbedding
    from pe.histogram import NearestNeighbors
    from pe.population import CompositePopulation, PEPopulation
    from pe.runner import PE

    with np.load(asked.table) as table:
        codes, sizes, ordered = table["codes"], table["sizes"], table["ordered"]
    names = [f"column{i:02d}" for i in range(len(sizes))]
    # TabularEmbedding and TabularAPI read this order: columns of categories first.
    order = np.argsort(ordered, kind="stable")
    columns = [names[i] for i in order]
    info: dict[str, dict[str, Any]] = {
        names[i]: {"type": TabularColumnType.INTEGER, "min": 0, "max": int(sizes[i]) - 1}
        if ordered[i]
        else {"type": TabularColumnType.CATEGORICAL, "categories": list(range(int(sizes[i])))}
        for i in order
    }
    private = Data(
        data_frame=pd.DataFrame(
            {TABULAR_DATA_COLUMN_NAME: codes[:, order].tolist(), LABEL_ID_COLUMN_NAME: 0}
        ),
        metadata={
            "label_columns": [],
            "label_info": [{"name": "", "column_values": {}}],
            "cat_columns": [names[i] for i in order if not ordered[i]],
            "int_columns": [names[i] for i in order if ordered[i]],
            "float_columns": [],
            "feature_columns": columns,
        },
    )

    class SameMetadata(TabularAPI):
        """The API of DPSDA. Its first rows get the names of the columns, which embeddings need."""

        def random_api(self, label_info: Any, num_samples: int) -> Any:
            made = super().random_api(label_info, num_samples)
            return Data(data_frame=made.data_frame, metadata=dict(private.metadata))

    api = SameMetadata(
        info=info, mutation_rate_init=0.5, mutation_rate_final=0.01, decay_type="polynomial",
        gamma=0.2, num_iterations=ROUNDS,
    )  # fmt: skip
    sampled = PEPopulation(
        api=api, initial_variation_api_fold=0, next_variation_api_fold=1, keep_selected=False,
        selection_mode="sample", histogram_threshold=0,
    )  # fmt: skip
    ranked = PEPopulation(
        api=api, initial_variation_api_fold=3, next_variation_api_fold=3, keep_selected=True,
        selection_mode="rank",
    )  # fmt: skip
    runner = PE(
        priv_data=private,
        population=CompositePopulation([sampled] * SAMPLED + [ranked] * (ROUNDS - SAMPLED)),
        histogram=NearestNeighbors(
            embedding=TabularEmbedding(info=info), mode="L2", lookahead_degree=0, backend="torch"
        ),
    )
    made = runner.run(
        num_samples_schedule=[asked.count] * ROUNDS,
        delta=asked.delta,
        epsilon=asked.epsilon,
        save_checkpoint=False,
    ).data_frame
    selected = made[made[VARIATION_API_FOLD_ID_COLUMN_NAME] == -1]
    rows = np.array(selected[TABULAR_DATA_COLUMN_NAME].tolist()).round().astype(np.int64)
    np.save(asked.rows, rows[:, np.argsort(order)])


if __name__ == "__main__":
    main()
