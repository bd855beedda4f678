"""A small data set of the embedded example, for tests of whole runs."""

from __future__ import annotations

from itertools import islice

import pandas as pd
import pytest

import sugarbush as sb
from research.benchmark_dataset import BenchmarkDataset
from sugarbush.examples import example_records, example_schema


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, quick_encoder: None) -> BenchmarkDataset:
    records = pd.DataFrame(islice(example_records(1), 170))
    state = tmp_path_factory.mktemp("state")
    privacy = sb.Privacy(dataset="letters", purpose="benchmark", cap=1000)
    corpus = sb.prepare(
        records.iloc[20:],
        schema=example_schema(),
        privacy=privacy,
        generator=sb.Simulator(),
        donated=records.iloc[:20],
        state=state,
    )
    return BenchmarkDataset(corpus, name="letters")
