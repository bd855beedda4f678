"""Makes an invented release that is large enough to judge the report.

No value comes from real texts.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sugarbush.data.schema import Attribute, Schema
from sugarbush.evaluation.interface import FINAL, REAL, MetricValue
from sugarbush.generators.interface import Usage
from sugarbush.methods.interface import card_remarks
from sugarbush.methods.maple import Maple
from sugarbush.privacy.budget import BudgetPlan, BudgetRequest, make_plan
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.entries import Entry
from sugarbush.privacy.events import DiscreteGaussian, GaussianDp
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.spending import Spending
from sugarbush.privacy.unit import Unit
from sugarbush.report.downloads import downloads_beside
from sugarbush.report.model import (
    DpCounts,
    EmbeddingMap,
    GeneratorFacts,
    InternalData,
    MethodData,
    PublicData,
    ReleaseFacts,
    RoundData,
    Spend,
    SyntheticText,
)
from sugarbush.tables.dp_table import DpTable, Measurement

SCHEMA = Schema(
    subject="customer-service dialogues",
    attributes=(
        Attribute(
            name="product",
            description="what the customer calls about",
            values=("lamp", "armchair", "phone", "washing machine", "garden shed"),
            column="product",
        ),
        Attribute(
            name="problem",
            description="what went wrong",
            values=("late delivery", "broken on arrival", "wrong item", "refund not received"),
            column="problem",
        ),
        Attribute(name="stars", column="stars", bins=(2, 4)),
    ),
)
AIM_ID, VOTE_IDS = "a1b2c3d4e5f60718", ("b100000000000001", "b200000000000002")
LINES = (
    "Customer: Good morning, my {product} still has not come. Agent: I am sorry to hear that, may "
    "I have your order number? Customer: It is in the mail that I sent on Monday. Agent: Thank "
    "you, I see {problem} noted here, and I will send a courier before the end of the week.",
    "Agent: Welcome back, what can I do for you? Customer: The {product} that I ordered shows "
    "{problem}, and this is the second time. Agent: I can offer a full refund or a new one. "
    "Customer: A new one, please, and by Friday if that is at all possible.",
    "Customer: Hello? I was cut off. It was about {problem}. Agent: Of course, the {product}. I "
    "have it open in front of me. We can have it fetched from your door, there is no charge.",
)


def entry(id_: str, event: Any, stage: str) -> Entry:
    return Entry(
        id=id_,
        time="2026-11-20T09:30:00+00:00",
        unit=Unit.RECORD,
        stage=stage,
        run="secret-run-digest",
        event=event,
        delta=1e-6,
        dataset_fingerprint=("secret-sketch",),
        plan="abc.1",
    )


@cache
def the_plan() -> BudgetPlan:
    requests = [
        BudgetRequest(name="metadata", share=0.1, count=0),
        BudgetRequest(name="votes", share=0.9, count=2),
    ]
    return make_plan(requests, epsilon=1.0, delta=1e-6)


def release(**changes: Any) -> ReleaseFacts:
    plan = the_plan()
    vote = DiscreteGaussian(stddev=plan.of("votes").stddev)
    fields: dict[str, Any] = {
        "title": "Synthetic customer-service dialogues",
        "dataset": "calls-2026",
        "purpose": Purpose.RELEASE,
        "unit": Unit.RECORD,
        "delta": 1e-6,
        "entries": (
            entry(AIM_ID, GaussianDp(mu=plan.of("metadata").mu), "synthesize_metadata"),
            *(entry(i, vote, "evolve@maple") for i in VOTE_IDS),
        ),
        "before": (),
        "after": (),
        "total": 1.9,
        "ledger_head": "0123456789abcdef",
        "cap": 4.0,
        "plan": plan,
        "schema": SCHEMA,
        "donated": 50,
        "generator": GeneratorFacts(provider="simulator"),
        "encoder": "all-MiniLM-L6-v2 (bundled)",
        "methods": ("maple", "public"),
        "software": {"python": "3.11.7", "opendp": "0.14.1"},
        "created": "2026-11-20",
        "engine": "sugarbush",
        "settings": {"methods": {"maple": {"rounds": 2, "variations": 4}}},
        "remarks": card_remarks(Maple(), SCHEMA),
    }
    fields |= changes
    own, total = fields.pop("entries"), fields.pop("total")
    others = {name: fields.pop(name) for name in ("before", "after")}
    spending = Spending(own=own, total=total, delta=fields["delta"], **others)
    return ReleaseFacts(spending=spending, **fields)


def texts(count: int, *, seed: int, method: str, votes: bool) -> tuple[SyntheticText, ...]:
    """Return `count` // 2 ancestors, followed by `count` final texts."""
    rng = np.random.default_rng(seed)
    found: list[SyntheticText] = []
    for place in range(count + count // 2):
        codes = tuple(int(rng.integers(len(a.domain))) for a in SCHEMA.attributes)
        values = dict(SCHEMA.decode(codes))
        ancestor = place < count // 2
        found.append(
            SyntheticText(
                id=place,
                text=LINES[place % 3].format(**values),
                codes=codes if votes else (-1, -1, -1),
                round=0 if ancestor else int(rng.integers(1, 4)),
                parent=None if ancestor or not votes else int(rng.integers(count // 2)),
                votes=int(rng.normal(12, 9)) if votes and place % 5 else None,
                final=not ancestor,
            )
        )
    return tuple(found)


def public_data(*, count: int = 60, candidates: int = 600, **changes: Any) -> PublicData:
    rng = np.random.default_rng(7)
    ids = (AIM_ID, *VOTE_IDS)
    facts = release(**changes)
    stddev = facts.plan.of("votes").stddev
    rounds = []
    for number in (1, 2):
        signal = rng.pareto(1.6, candidates) * (4 + 3 * number)
        rounds.append(
            RoundData(
                name="votes",
                number=number,
                votes=Released(
                    np.round(signal + rng.normal(0, stddev, candidates)).astype(int),
                    (VOTE_IDS[number - 1],),
                ),
                stddev=stddev,
                written=rng.integers(0, number + 1, candidates),
                survivors=rng.choice(candidates, candidates // 4, replace=False),
            )
        )
    counts = {a.name: rng.integers(50, 900, len(a.domain)) for a in SCHEMA.attributes}
    asked = {n: np.maximum(0, c // 3 + rng.integers(-20, 20, len(c))) for n, c in counts.items()}
    spends = (
        Spend(
            step="first candidates",
            usage=Usage(
                calls=150,
                cached_calls=3,
                prompt_tokens=91_200,
                completion_tokens=20_140,
                problems={"refusal": 2},
            ),
            cost=0.0312,
        ),
        Spend(
            step="round 1",
            usage=Usage(calls=450, prompt_tokens=180_200, completion_tokens=61_300),
            cost=0.0871,
        ),
        Spend(
            step="round 2",
            usage=Usage(calls=450, prompt_tokens=181_000, completion_tokens=60_900),
            cost=0.0868,
        ),
    )
    points = rng.normal(size=(400, 2)) * [3, 1]
    written = np.sort(rng.integers(0, 3, 400))
    maple = MethodData(
        name="maple",
        final_texts=600,
        asked=Released(asked, ids),
        texts=Released(texts(count, seed=1, method="maple", votes=True), ids),
        rounds=tuple(rounds),
        spends=spends,
        map=Released(EmbeddingMap(points=points + 0.4 * written[:, None], written=written), ids),
    )
    public = MethodData(
        name="public",
        final_texts=500,
        asked=Released({}),
        texts=Released(texts(count // 2, seed=2, method="public", votes=False)),
        spends=(Spend(step="first candidates", usage=Usage(calls=500)),),
    )
    return PublicData(
        release=facts,
        methods=(maple, public),
        metadata=DpCounts(source="AIM", counts=Released(counts, (AIM_ID,)), stddev={"product": 30}),
        table=dp_table(rng),
        downloads=downloads_beside(facts.methods),
    )


def dp_table(rng: np.random.Generator) -> DpTable:
    """Return a DP table with measurements at the start and in fourteen rounds.

    One of the measured marginals is the pair of product and problem.
    """

    def marginal(names: str, cells: int, round_: int, stddev: float) -> Measurement:
        return Measurement(
            attributes=tuple(names.split()),
            counts=np.zeros(cells, dtype=np.int64),
            stddev=stddev,
            round=round_,
            selection_mu=0.005**0.5 if round_ else 0.0,
            mu=0.045**0.5 if round_ else 0.1**0.5,
        )

    rows = np.stack([rng.integers(0, len(a.domain), 400) for a in SCHEMA.attributes], axis=1)
    product, problem = (SCHEMA.names.index(name) for name in ("product", "problem"))
    rows[:, problem] = rows[:, product] % len(SCHEMA.attributes[problem].domain)
    return DpTable(
        rows=Released(rows, (AIM_ID,)),
        record_count=Released(4812.4, (AIM_ID,)),
        measurements=(
            marginal("product", 6, 0, 30.0),
            marginal("problem", 5, 0, 30.0),
            marginal("stars", 4, 0, 30.0),
            *(
                marginal("product problem" if n % 3 else "problem stars", 30, n, 41.5)
                for n in range(1, 15)
            ),
        ),
        merged={"product": (0, 1, 2, 3, 4, 4)},
        cliques=(("product", "problem"), ("problem", "stars")),
        engine="sugarbush",
        mu_spent=1.0,
    )


def internal_data() -> InternalData:
    figures = []
    for space in ("encoder", "tf-idf"):
        for round_, value in ((0, 0.41), (1, 0.78), (2, 0.86), (FINAL, 0.88)):
            figures.append(
                MetricValue(
                    method="maple",
                    round=round_,
                    space=space,
                    metric="mauve",
                    value=value,
                    low=value - 0.05,
                    high=value + 0.05,
                )
            )
        for round_ in (0, FINAL):
            figures.append(
                MetricValue(
                    method="public",
                    round=round_,
                    space=space,
                    metric="mauve",
                    value=0.12,
                    low=0.09,
                    high=0.15,
                )
            )
        figures.append(
            MetricValue(
                method=REAL,
                round=FINAL,
                space=space,
                metric="mauve",
                value=0.971,
                low=0.95,
                high=0.99,
            )
        )
        for metric, value in (("precision", 0.81), ("recall", 0.64), ("frechet", 0.0934)):
            for method, factor in (("maple", 1.0), ("public", 0.5), (REAL, 1.1)):
                figures.append(
                    MetricValue(
                        method=method, round=FINAL, space=space, metric=metric, value=value * factor
                    )
                )
    for metric, value in (("mean", 0.142), ("product", 0.09), ("problem", 0.21), ("stars", 0.12)):
        for round_, factor in ((0, 1.6), (1, 1.2), (FINAL, 1.0)):
            figures.append(
                MetricValue(
                    method="maple",
                    round=round_,
                    space="attribute",
                    metric=metric,
                    value=value * factor,
                    low=value * 0.9,
                    high=value * 1.7,
                )
            )
        figures.append(
            MetricValue(
                method="public", round=FINAL, space="attribute", metric=metric, value=value * 2.5
            )
        )
    rng = np.random.default_rng(3)
    counts = {a.name: rng.integers(40, 300, len(a.domain)) for a in SCHEMA.attributes}
    return InternalData(
        values=tuple(figures),
        heldout=counts,
        train={n: c * 6 + 11 for n, c in counts.items()},
        dependence={("product", "problem"): 0.4375, ("problem", "stars"): 0.21},
        read={"maple": {n: c + 17 for n, c in counts.items()}},
        heldout_map={"maple": rng.normal(size=(300, 2)) * [3, 1] + 1},
    )
