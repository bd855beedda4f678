"""Tests that rows of the DP table are requested again if texts contradict them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sugarbush.attributes.reader import LabelReader
from sugarbush.data.schema import Schema
from sugarbush.evolution.inputs import MetadataRelease, ReleaseSettings
from sugarbush.evolution.targets import Targets, open_targets
from sugarbush.evolution.writer import Writer
from sugarbush.generators.interface import Answer, RandomRequest, Request
from sugarbush.methods.interface import MethodInputs
from sugarbush.methods.mosaic import Mosaic
from sugarbush.privacy.data_types import Released
from sugarbush.randomness import seed_of

TOPICS = ("lamp", "chair")
SCHEMA = Schema.model_validate(
    {
        "subject": "letters",
        "attributes": [
            {"name": "topic", "values": list(TOPICS), "keywords": {t: [t] for t in TOPICS}}
        ],
    }
)


@dataclass
class Stubborn:
    """Writes about lamps, whatever a first request says. A repeated request is obeyed."""

    asked: list[RandomRequest] = field(default_factory=list)
    calls: int = 0

    def generate(self, requests: Released[tuple[Request, ...]], *, what: str) -> Any:
        self.asked += requests.value  # type: ignore[arg-type]
        wanted = [dict(r.attributes).get("topic") for r in requests.value]  # type: ignore[union-attr]
        obeyed = self.calls > 0  # the first call is early
        self.calls += 1
        return requests.map(
            lambda own: tuple(
                Answer(text=f"a {wanted[i] if obeyed else 'lamp'} {self.calls} {i}")
                for i in range(len(own))
            )
        )


def inputs_with(again: float) -> Any:
    """The parts of `MethodInputs` that stage initialise uses."""
    generator = Stubborn()
    public = SimpleNamespace(
        again=again,
        schema=SCHEMA,
        seed=1,
        donated=None,
        texts=1,
        release=ReleaseSettings(texts=1),
        metadata=MetadataRelease(),
    )
    tools = SimpleNamespace(
        generator=generator,
        label_reader=lambda: LabelReader(schema=SCHEMA, embed=lambda texts: np.empty(0)),
        writer=lambda stage: Writer(generator=generator, max_dropped_share=0.1),  # type: ignore[arg-type]
    )
    return MethodInputs(private=None, public=public, tools=tools)  # type: ignore[arg-type]


class Method(Mosaic):
    def targets(self, inputs: Any, *, count: int | None, seed: int) -> Released[Targets]:
        targets = open_targets(10, SCHEMA)
        targets.codes[:, 0] = [0, 1] * 5
        return Released(targets, ("entry",))

    def _requests(self, targets: Targets, inputs: Any, *, seed: int) -> tuple[Request, ...]:
        return tuple(
            RandomRequest(
                subject="letters",
                attributes=(("topic", TOPICS[code]),),
                words=5,
                sample=seed_of(seed, i),
            )
            for i, code in enumerate(targets.codes[:, 0])
        )


@pytest.mark.parametrize(("again", "repeated"), [(0.0, 0), (0.2, 2), (0.5, 2), (0.9, 0)])
def test_contradicted_rows_take_the_waiting_requests(again: float, repeated: int) -> None:
    """Of the early requests, every second one asks for a chair and gets a lamp."""
    inputs = inputs_with(again)
    initial = Method(prompt="metadata").initialise(inputs)
    assert len(inputs.tools.generator.asked) == 10  # never more calls than planned
    assert len(initial.population) == 10
    early = 10 - int(10 * again)
    obeyed = initial.population.codes[early:, 0].tolist()
    assert obeyed[len(obeyed) - repeated :] == [1] * repeated
    assert sum("chair" in text for text in initial.population.texts) == sum(obeyed)
    assert len({request.sample for request in inputs.tools.generator.asked}) == 10
    asked = [dict(request.attributes)["topic"] for request in inputs.tools.generator.asked]
    assert [TOPICS[code] for code in initial.population.codes[:, 0]] == asked
    assert initial.ledger_ids == ("entry",)


class ByLabel(Method):
    """A method whose rows are sorted by label, as those of `augpe`."""

    def targets(self, inputs: Any, *, count: int | None, seed: int) -> Released[Targets]:
        targets = open_targets(10, SCHEMA)
        targets.codes[:, 0] = labels = np.repeat([0, 1], 5)
        return Released(Targets(codes=targets.codes, labels=labels), ("entry",))


def test_the_counts_of_labels_stay_because_they_are_the_quota_of_later_rounds() -> None:
    initial = ByLabel(prompt="metadata").initialise(inputs_with(0.5))
    assert np.bincount(initial.population.labels).tolist() == [5, 5]
