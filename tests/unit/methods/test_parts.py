"""Tests that the budget, the plan of requests and the card of a method follow from its parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sugarbush.data.private_store import TRAIN, CorpusInMemory
from sugarbush.data.schema import Attribute, Schema
from sugarbush.evolution.enlargers import ByPredictedScores, MostVoted
from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.evolution.parts import Parts, Records
from sugarbush.evolution.scorers import KernelScorer, NearestVotes, ScoresAndClassSums
from sugarbush.evolution.selectors import ByHerding, ByRank
from sugarbush.evolution.settings import FirstLength
from sugarbush.evolution.starts import (
    LABEL_COUNTS,
    TABLE,
    FromLabels,
    FromTable,
    Open,
)
from sugarbush.evolution.variation import FillIn
from sugarbush.methods import method_class
from sugarbush.methods.augpe import AugPE
from sugarbush.methods.crt import CRT
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.interface import (
    TRAINING,
    Method,
    MethodInputs,
    Planning,
    PrivateInputs,
    card_remarks,
)
from sugarbush.methods.maple import Maple
from sugarbush.methods.mosaic import Mosaic
from sugarbush.methods.nonprivate import NonPrivatePE
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.methods.public import Public
from sugarbush.privacy.budget import BudgetRequest
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.remarks import (
    CLASS_SUMS,
    DPSGD_NOISE,
    EMBEDDINGS,
    INTEGER_NOISE,
    METADATA_TABLE,
)
from sugarbush.privacy.unit import ContributionBounds
from sugarbush.registry import METHODS, plugin_names
from tests.settings import ROOT

SCHEMA = Schema(
    subject="letters",
    attributes=tuple(
        Attribute(name=name, column=name, values=("a", "b")) for name in ("first", "second")
    ),
)
TABLE_REMARKS = {INTEGER_NOISE, METADATA_TABLE}


def sums(name: str, count: int, unit: int, rounds: int | None = None) -> BudgetRequest:
    return BudgetRequest(
        name=f"votes:{name}",
        count=count,
        record_l2_sensitivity=unit,
        setting=None if rounds is None else f"methods.{name}.rounds={rounds}",
        remarks=(EMBEDDINGS,),
    )


def in_rounds(method: Mosaic) -> Mosaic:
    """Return the method in a project with a pool and without donated examples."""
    context: Any = SimpleNamespace(texts=300, has_donated=False, follows_requests=False)
    return method.in_project(context)


# Per method: its parts, budget requests, remarks, and the calls of a run that releases 300 texts.
CASES: dict[str, tuple[Method, list[type] | None, list[BudgetRequest], set[str], list[int]]] = {
    "mosaic": (
        Mosaic(candidates=500),
        [FromTable, ScoresAndClassSums, ByPredictedScores],
        [TABLE, sums("mosaic", 1, RESOLUTION)],
        TABLE_REMARKS | {EMBEDDINGS, CLASS_SUMS},
        [500, 100],
    ),
    "mosaic in rounds": (
        in_rounds(Mosaic(candidates=500)),
        [FromTable, ScoresAndClassSums, ByHerding, FillIn, ByPredictedScores],
        [TABLE, sums("mosaic", 4, RESOLUTION)],
        TABLE_REMARKS | {EMBEDDINGS, CLASS_SUMS},
        [500, 375, 375, 375, 100],
    ),
    "maple": (
        Maple(candidates=400),
        [FromTable, NearestVotes, ByRank, FillIn, MostVoted],
        [TABLE, sums("maple", 2, 1, 2)],
        TABLE_REMARKS | {EMBEDDINGS},
        [100, 300, 300, 200],
    ),
    "maple with votes for the nearest few": (
        Maple(candidates=400, rounds=3, votes=5, variations=2),
        [FromTable, NearestVotes, ByRank, FillIn, MostVoted],
        [TABLE, sums("maple", 3, RESOLUTION, 3)],
        TABLE_REMARKS | {EMBEDDINGS},
        [200, 200, 200, 200, 100],
    ),
    "maple with kernel scores": (
        Maple(candidates=400, rounds=1, scorer="kernel"),
        [FromTable, KernelScorer, ByHerding, FillIn, ByPredictedScores],
        [TABLE, sums("maple", 1, RESOLUTION, 1)],
        TABLE_REMARKS | {EMBEDDINGS},
        [100, 300, 200],
    ),
    "maple without rounds": (
        Maple(candidates=400, rounds=0),
        [FromTable, NearestVotes, ByRank, FillIn, MostVoted],
        [TABLE],
        TABLE_REMARKS,
        [100, 200],
    ),
    "augpe": (
        AugPE(candidates=700, rounds=3),
        [FromLabels, NearestVotes, ByRank, FillIn, MostVoted],
        [LABEL_COUNTS, sums("augpe", 3, 1, 3)],
        {INTEGER_NOISE, EMBEDDINGS},
        [100, 600, 600, 600, 200],
    ),
    "augpe without labels": (
        AugPE(candidates=700, rounds=1, by_label=False),
        [Open, NearestVotes, ByRank, FillIn, MostVoted],
        [sums("augpe", 1, 1, 1)],
        {INTEGER_NOISE, EMBEDDINGS},
        [100, 600, 200],
    ),
    "public": (Public(candidates=100), [Open, MostVoted], [], set(), [100, 200]),
    "nonprivate": (
        NonPrivatePE(candidates=400, rounds=1),
        [FromTable, NearestVotes, ByRank, FillIn, MostVoted],
        [],
        set(),
        [100, 300, 200],
    ),
    "dpft": (
        DPFT(),
        None,
        [TABLE, BudgetRequest(name=TRAINING, count=0, remarks=(DPSGD_NOISE,))],
        TABLE_REMARKS | {DPSGD_NOISE},
        [],
    ),
    "crt": (CRT(), None, [], set(), []),
}


def test_every_method_has_a_case() -> None:
    assert {method.name for method, *_ in CASES.values()} == set(plugin_names(METHODS))


@pytest.mark.parametrize("case", CASES)
def test_requests_draws_calls_and_remarks_of_a_method_follow_from_its_parts(case: str) -> None:
    method, kinds, requests, remarks, calls = CASES[case]
    assert list(method.budget_requests()) == requests
    assert set(card_remarks(method, SCHEMA)) == remarks
    planning = Planning(
        schema=SCHEMA, donated=["a letter"], length=FirstLength(), texts=300, texts_setting=300
    )
    assert [batch.calls for batch in method.planned_calls(planning)] == calls
    assert isinstance(method, PartsMethod) == (kinds is not None)
    if kinds is None or not isinstance(method, PartsMethod):
        return
    parts = method.parts()
    named = (parts.start, parts.scorer, parts.selector, parts.varier, parts.enlarger)
    assert [type(part) for part in named if part is not None] == kinds
    assert method.facts.asks_generator and method.facts.uses_encoder
    if not method.stays_private:
        assert parts.draws == sum(r.count for r in requests if r.name == method.scores_name)


@pytest.mark.parametrize(
    ("method", "reads_codes"),
    [(AugPE(), True), (AugPE(by_label=False), False), (Maple(), False), (Mosaic(), False)],
)
def test_records_have_the_codes_that_the_scorer_reads(
    method: PartsMethod, reads_codes: bool
) -> None:
    """The label is the second attribute. Each record keeps its own label."""
    vectors = np.eye(3, dtype=np.float32)
    table = np.array([[0, 1], [1, 0], [1, 2]])
    corpus = SimpleNamespace(codes=lambda names: Private[Any](table))
    private = SimpleNamespace(embeddings=Private[Any](vectors), corpus=corpus)
    public = SimpleNamespace(schema=SCHEMA, label_column=1)
    inputs: Any = SimpleNamespace(private=private, public=public)
    scorer = method.parts().scorer
    assert scorer is not None and scorer.reads_codes is reads_codes
    records = method._records(inputs, reads_codes=scorer.reads_codes)._per_unit
    assert isinstance(records, Records)
    assert np.array_equal(records.embeddings, vectors)
    assert records.labels.tolist() == ([1, 0, 2] if reads_codes else [0, 0, 0])
    assert records.codes.tolist() == (table.tolist() if reads_codes else [[], [], []])


def test_codes_of_a_method_are_int64() -> None:
    """A plug-in may compute the cells of a table, such as 100 * 100, which int8 cannot hold."""
    frame = pd.DataFrame({"a": [100, -1], "b": [100, 0]}, dtype=np.int8)
    corpus = CorpusInMemory({}, {TRAIN: frame}, fingerprint=(), bounds=ContributionBounds())
    others: Any = {field.name: None for field in fields(PrivateInputs)}
    codes = PrivateInputs(**{**others, "corpus": corpus}).codes(["b", "a"])._per_unit
    assert isinstance(codes, np.ndarray) and codes.dtype == np.int64
    assert codes.tolist() == [[100, 100], [0, -1]]
    assert corpus.real_codes(["a"], split=TRAIN).dtype == np.int8


def test_parts_derive_the_number_of_sums_and_of_first_texts() -> None:
    prompts = Maple().prompts()
    varier = FillIn(copies=3)
    without = Parts(start=Open(prompts), enlarger=MostVoted())
    assert (without.scores_once, without.draws, without.first_count(400)) == (False, 0, 400)
    once = replace(without, scorer=KernelScorer())
    assert (once.scores_once, once.draws, once.first_count(400)) == (True, 1, 400)
    rounds = replace(once, selector=ByRank(), varier=varier, rounds=5)
    assert (rounds.scores_once, rounds.draws, rounds.first_count(400)) == (False, 5, 100)
    assert rounds.first_count(2) == 1
    scored = replace(rounds, scores_first=True)
    assert (scored.draws, scored.first_count(400), scored.survivor_count(400)) == (5, 400, 100)


def test_the_interface_of_a_method_is_small() -> None:
    """An author of a method reads these names. A name more is a concept more."""
    inherited = {name for base in Method.__mro__[1:] for name in vars(base)}
    members = {name for name in vars(Method) | Method.__annotations__ if not name.startswith("_")}
    members -= inherited & {"model_config", "model_fields", "model_computed_fields"}
    assert len(members) <= 10, sorted(members)
    assert [field.name for field in fields(MethodInputs)] == ["private", "public", "tools"]


CONCRETE = {method_class(name).__name__ for name in plugin_names(METHODS)} | {"PrivateEvolution"}
PARTS_OF_PRODUCT = {
    kind.__name__
    for kind in (
        FromTable,
        FromLabels,
        Open,
        NearestVotes,
        KernelScorer,
        ByRank,
        ByHerding,
        FillIn,
        MostVoted,
        ByPredictedScores,
    )
}


def questions_of_kind(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield where a value is asked whether it is of a concrete method, part, or name of a method.

    These are `isinstance`, `issubclass`, `type(...) is`, patterns of `match`, and comparisons of
    the attribute `name` with the name of a method.
    """
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in {"isinstance", "issubclass"}:
                asked = [*node.args[1:]]
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        elif isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
            if any(isinstance(side, ast.Attribute) and side.attr == "name" for side in asked):
                for side in asked:
                    if isinstance(side, ast.Constant) and side.value in plugin_names(METHODS):
                        yield node.lineno, str(side.value)
        for part in asked:
            for inner in ast.walk(part):
                name = inner.attr if isinstance(inner, ast.Attribute) else None
                name = inner.id if isinstance(inner, ast.Name) else name
                if name in CONCRETE | PARTS_OF_PRODUCT:
                    yield node.lineno, name


@pytest.mark.slow
def test_no_code_asks_whether_a_method_is_a_certain_method() -> None:
    """A method of another package could not answer yes. Facts are in `MethodFacts` and `Parts`."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "sugarbush").rglob("*.py"))
        for line, name in questions_of_kind(ast.parse(path.read_text()))
    ]
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(method, Maple)",
        "isinstance(method, (int, mosaic.Mosaic))",
        "issubclass(kind, AugPE | DPFT)",
        "type(method) is Public",
        "scorer.__class__ == KernelScorer",
        "match method:\n    case CRT():\n        pass",
        "method.name == 'nonprivate'",
    ],
)
def test_the_walk_sees_questions(line: str) -> None:
    assert list(questions_of_kind(ast.parse(line)))
