"""Tests that the card shows the remarks that methods and mechanisms declare, and no others."""

from __future__ import annotations

from typing import ClassVar, NoReturn

import pytest

from sugarbush.data.schema import Attribute, Schema
from sugarbush.evolution.enlargers import MostVoted
from sugarbush.evolution.parts import Candidates, Parts, Scorer, Scores
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import PromptContent
from sugarbush.evolution.starts import Open
from sugarbush.methods.augpe import AugPE
from sugarbush.methods.crt import CRT
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.interface import Method, MethodFacts, OneStageMethod, card_remarks
from sugarbush.methods.maple import Maple
from sugarbush.methods.mosaic import Mosaic
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.methods.public import Public
from sugarbush.privacy.budget import BudgetRequest
from sugarbush.privacy.remarks import (
    CLASS_SUMS,
    DPSGD_NOISE,
    EMBEDDINGS,
    INTEGER_NOISE,
    LABELS_BY_LLM,
    METADATA_TABLE,
)
from sugarbush.report.card_values import release_card
from tests.unit.report.sample import SCHEMA, release


def schema_with(**source: object) -> Schema:
    return Schema(
        subject="letters",
        attributes=(Attribute(name="mood", values=("angry", "calm"), **source),),  # type: ignore[arg-type]
    )


BY_LLM = schema_with(source="llm")
BY_ZERO_SHOT = schema_with(zero_shot={"angry": ("an angry text",), "calm": ("a calm text",)})


class Counts(OneStageMethod):
    """A method of another package that embeds nothing. Its stage has the name `evolve`."""

    name: ClassVar[str] = "counts"

    def budget_requests(self) -> tuple[BudgetRequest, ...]:
        return (BudgetRequest(name="counts:counts", count=1),)

    def evolve(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError


class WithItsOwnMechanism(Counts):
    name: ClassVar[str] = "own"

    @property
    def facts(self) -> MethodFacts:
        return MethodFacts(reads_codes=False, remarks=("The sample is secret.",))

    def budget_requests(self) -> tuple[BudgetRequest, ...]:
        remarks = ("Laplace noise is sampled exactly.",)
        return (BudgetRequest(name="own:own", count=0, remarks=remarks),)


class Lengths(Scorer):
    """A scorer of another package, with a remark of its own."""

    remarks: ClassVar[tuple[str, ...]] = ("Lengths are counted in words.",)

    def scores(self, candidates: Candidates) -> Scores:
        raise NotImplementedError


class ByLength(PartsMethod):
    """A method of another package that is made of parts."""

    name: ClassVar[str] = "lengths"

    def parts(self) -> Parts:
        prompts = Prompts(content=PromptContent.INDEPENDENT, examples=0, candidates=5)
        return Parts(start=Open(prompts), scorer=Lengths(), enlarger=MostVoted())


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (Mosaic(), {INTEGER_NOISE, METADATA_TABLE, EMBEDDINGS, CLASS_SUMS}),
        (Maple(), {INTEGER_NOISE, METADATA_TABLE, EMBEDDINGS}),
        (AugPE(), {INTEGER_NOISE, EMBEDDINGS}),
        (AugPE(rounds=0), {INTEGER_NOISE}),
        (Public(), set()),
        (DPFT(), {INTEGER_NOISE, METADATA_TABLE, DPSGD_NOISE}),
        (CRT(), set()),
        (Maple(votes=5), {INTEGER_NOISE, METADATA_TABLE, EMBEDDINGS}),
        (Maple(scorer="kernel"), {INTEGER_NOISE, METADATA_TABLE, EMBEDDINGS}),
        (ByLength(), {INTEGER_NOISE, "Lengths are counted in words."}),
        (Counts(), {INTEGER_NOISE}),
        (WithItsOwnMechanism(), {"Laplace noise is sampled exactly.", "The sample is secret."}),
    ],
    ids=lambda value: value.name if isinstance(value, Method) else "",
)
def test_a_method_declares_the_remarks_of_its_mechanisms(
    method: Method, expected: set[str]
) -> None:
    declared = card_remarks(method, SCHEMA)
    assert set(declared) == expected
    assert len(declared) == len(expected)


def test_a_card_speaks_of_sums_by_class_only_if_an_attribute_has_them() -> None:
    assert CLASS_SUMS in card_remarks(Mosaic(), BY_LLM)
    assert CLASS_SUMS not in card_remarks(Mosaic(), BY_ZERO_SHOT)


@pytest.mark.parametrize("method", [Mosaic(), Counts(), DPFT()])
def test_attributes_that_a_model_reads_have_a_remark_with_its_assumption(method: Method) -> None:
    assert LABELS_BY_LLM not in card_remarks(method, SCHEMA)
    assert LABELS_BY_LLM not in card_remarks(method, BY_ZERO_SHOT)
    assert LABELS_BY_LLM in card_remarks(method, BY_LLM)
    assert EMBEDDINGS in card_remarks(method, BY_ZERO_SHOT)
    assert "does not depend on other records" in LABELS_BY_LLM


@pytest.mark.parametrize("method", [Public(), CRT(), WithItsOwnMechanism()])
def test_attributes_that_no_mechanism_uses_have_no_remark(method: Method) -> None:
    for schema in (BY_LLM, BY_ZERO_SHOT):
        assert not {LABELS_BY_LLM, EMBEDDINGS} & set(card_remarks(method, schema))


def test_the_card_shows_declared_remarks_only() -> None:
    """The stage of these entries has the name `evolve`, but no method declares embeddings."""
    remarks = release_card(release(remarks=card_remarks(Counts(), SCHEMA))).remarks
    assert remarks[0] == INTEGER_NOISE
    assert EMBEDDINGS not in remarks
    own = release_card(release(remarks=card_remarks(WithItsOwnMechanism(), SCHEMA))).remarks
    assert own[0] == "Laplace noise is sampled exactly."
