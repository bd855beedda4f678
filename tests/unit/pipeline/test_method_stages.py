"""Tests that a release names every charge, also if its method forgets one, and that changed parts
of a method are not answered with the scores of others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import sugarbush as sb
from sugarbush import extend
from sugarbush.methods.interface import Initial
from sugarbush.pipeline.method_stages import first_candidates
from tests.synthesized import synthesize_frame

SCHEMA = {
    "subject": "letters",
    "attributes": [{"name": "item", "column": "item", "values": ["lamp", "chair"]}],
}
SUM = "sum:test"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_encoder")]


def release(state: Path, method: extend.Method, **changes: Any) -> sb.Release:
    items = ["lamp", "chair"] * 80
    frame = pd.DataFrame(
        {"message": [f"My {x} of order {i} is broken" for i, x in enumerate(items)], "item": items}
    )
    arguments: dict[str, Any] = {
        "text": "message",
        "schema": SCHEMA,
        "method": method,
        "generator": sb.Simulator(any_texts=True),
        "privacy": sb.Privacy(epsilon=1, dataset="letters"),
        "texts": 6,
        "state": state,
        "accept_poor": True,
        "settings": {"evaluate": {"public": False}},
    }
    return synthesize_frame(frame, **(arguments | changes))


class Forgetful(extend.OneStageMethod):
    """Draws once, and names no charge."""

    name: ClassVar[str] = "forgetful"

    def budget_requests(self) -> tuple[extend.BudgetRequest, ...]:
        return (extend.BudgetRequest(name=SUM, count=1),)

    def evolve(self, inputs: extend.MethodInputs, first: Any, *, forced: bool) -> extend.FinalSet:
        private = inputs.private
        with private.open_store("evolve-forgetful", {"v": 1}, forced=forced) as store:
            counts = store.array("counts", lambda: one_count(private, "forgetful", store.run))
        codes = np.zeros((len(counts.value), 1), dtype=np.int64)
        texts = [f"text {i}" for i in range(len(counts.value))]
        lineage = extend.Lineage(
            final=extend.Population.first(texts, codes=codes), usage=extend.Usage(), ledger_ids=()
        )
        return extend.FinalSet(lineage=lineage, run=store.run)


class Charging(sb.Public):
    """A baseline that charges before its first texts, and names no charge."""

    name: ClassVar[str] = "charging"

    def budget_requests(self) -> tuple[extend.BudgetRequest, ...]:
        return (extend.BudgetRequest(name=SUM, count=1),)

    def initialise(self, inputs: extend.MethodInputs) -> Any:
        private = inputs.private
        with private.open_store("initialise-charging", {"v": 1}, forced=False) as store:
            store.array("counts", lambda: one_count(private, "charging", store.run))
        return super().initialise(inputs)


def one_count(private: Any, name: str, run: str) -> Any:
    return extend.noisy_histogram(
        private.codes(["item"]).map_batch(lambda table: table[:, 0]),
        size=3,
        stddev=private.budget.of(SUM).stddev,
        session=private.session(stage=f"evolve@{name}", run=run),
    )


@pytest.mark.parametrize("method", [Forgetful(), Charging(candidates=8)], ids=lambda m: m.name)
def test_a_charge_that_a_method_forgets_is_on_the_card(tmp_path: Path, method: Any) -> None:
    made = release(tmp_path, method)
    (entry,) = sb.open_ledger("letters", state=tmp_path).entries()
    assert made.ledger_ids == (entry.id,)
    assert made.card is not None
    assert 0.9 < made.epsilon <= 1


def test_first_candidates_name_the_charges_of_their_stage() -> None:
    population = extend.Population.first(["a"], codes=np.zeros((1, 1), dtype=np.int64))
    first = Initial(population=population, usage=extend.Usage(), ledger_ids=("table",), run="r")
    method: Any = SimpleNamespace(initialise=lambda inputs: first)
    inputs: Any = SimpleNamespace(private=SimpleNamespace(charged=["own"]))
    assert first_candidates(method, inputs).ledger_ids == ("table", "own")


def test_a_forgotten_charge_of_an_earlier_process_is_on_the_card_too(tmp_path: Path) -> None:
    first, again = (release(tmp_path, Forgetful()) for _ in range(2))
    assert len(sb.open_ledger("letters", state=tmp_path).entries()) == 1
    assert first.ledger_ids == again.ledger_ids != ()


def test_changed_parts_are_another_run(tmp_path: Path) -> None:
    """The settings are equal, but the class in the notebook was changed."""

    def voting(votes: int) -> extend.Method:
        class Voting(extend.PromptSettings):
            """One round of votes."""

            name: ClassVar[str] = "voting"

            def parts(self) -> extend.Parts:
                return extend.Parts(
                    start=extend.Open(self.prompts()),
                    scorer=extend.NearestVotes(votes=votes),
                    selector=extend.ByRank(),
                    varier=extend.FillIn(copies=1),
                    rounds=1,
                    enlarger=extend.MostVoted(),
                )

        return Voting(candidates=8, prompt="independent", examples=0)

    two, three, again = (release(tmp_path, voting(votes)) for votes in (2, 3, 2))
    entries = sb.open_ledger("letters", state=tmp_path).entries()
    assert len([entry for entry in entries if entry.stage != "look"]) == 2
    assert two.ledger_ids == again.ledger_ids != three.ledger_ids


def test_a_method_that_asks_the_generator_must_say_so(tmp_path: Path) -> None:
    class Silent(Forgetful):
        """Opens the generator without a word."""

        name: ClassVar[str] = "silent"

        def evolve(self, inputs: Any, first: Any, *, forced: bool) -> Any:
            inputs.tools.writer("evolve@silent")

    with pytest.raises(sb.ParamsError, match="its `facts` do not say so"):
        release(tmp_path, Silent())
    assert not sb.open_ledger("letters", state=tmp_path).entries()


def test_records_can_be_partitioned() -> None:
    embeddings = np.eye(4, dtype=np.float32)
    records = sb.Private[Any](extend.Records.without_codes(embeddings))
    parts = records.partition(sb.Private(np.array([0, 1, 0, 1])), size=2)
    seen: list[int] = []
    for part in parts:
        part.map_batch(lambda batch: (seen.append(len(batch)), batch)[1])
    assert seen == [2, 2]
