"""Tests that donated examples make the simulator's texts similar to the example corpus.

Without donated examples, its texts are far from the corpus in embedding space. If there were no
such difference, a method could not show an improvement on the example.
"""

from itertools import islice

import numpy as np
import pytest

from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.examples.corpus import example_records, example_schema
from sugarbush.examples.simulator.writer import SimulatorWriter
from sugarbush.generators.interface import RandomRequest, Request, VariationRequest
from sugarbush.privacy.data_types import Released

TEXTS = 60
SUBJECT = example_schema()["subject"]


def _written(*requests: Request) -> list[str]:
    return [str(a.text) for a in SimulatorWriter(seed=1).generate(Released(requests)).value]


@pytest.mark.slow
def test_only_texts_after_examples_are_near_the_corpus() -> None:
    records = list(islice(example_records(1), 170))
    corpus = [r["text"] for r in records[:TEXTS]]
    examples = [r["text"] for r in records[TEXTS : TEXTS + 50]]
    unasked = _written(*(RandomRequest(subject=SUBJECT, sample=i) for i in range(TEXTS)))
    shown = _written(
        *(
            RandomRequest(subject=SUBJECT, sample=i, examples=tuple(examples[i % 5 :: 5]))
            for i in range(TEXTS)
        )
    )
    varied = _written(
        *(VariationRequest(subject=SUBJECT, parent=text, mask_share=0.5) for text in corpus)
    )
    encode = Encoder(EmbeddingSettings(model="bundled", max_tokens=128), cache=None).encode
    private, generic, near, children = map(encode, (corpus, unasked, shown, varied))

    def nearest(others: np.ndarray) -> float:
        return float((private @ others.T).max(axis=1).mean())

    assert nearest(generic) < 0.6
    assert nearest(near) > nearest(generic) + 0.15
    cosines = (private * children).sum(axis=1)
    assert cosines.mean() > 0.85
    assert np.abs(generic @ generic.T).mean() < 0.6, "generic texts are diverse"
