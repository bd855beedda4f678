"""What a run will spend, from its settings alone, and the ledger it will charge."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path

from sugarbush.data.private_store import load_dataset_fingerprint
from sugarbush.errors import ParamsError
from sugarbush.paths import Roots
from sugarbush.pipeline.settings import Method, ProjectSettings
from sugarbush.pipeline.state import state_of
from sugarbush.privacy.budget import BudgetPlan, BudgetRequest, make_plan, mu_of
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.session import PrivacySession

METADATA = "metadata"
LABELS = "labels"
TRAINING = "training"
_VOTES = "votes:"

# A vote whose noise is this many records cannot be seen in any corpus that fits on one machine.
_HOPELESS_STDDEV = 1000.0


def votes_of(method: Method) -> str:
    """The name of a method's votes in the plan."""
    return _VOTES + method.value


def record_l2_sensitivity(params: ProjectSettings, method: Method) -> int:
    """By how much a record moves what a round of the method counts, in L2: the unit of its votes.

    One vote is 1; scores are whole numbers of that norm (`sugarbush.evolution.kernel_scores`).
    """
    return params.evolve.of(method).selection.record_l2_sensitivity if method.votes else 1


def plan_for(params: ProjectSettings) -> BudgetPlan:
    """Every mechanism of the run with its share, fixed before the first draw.

    The metadata share goes to AIM, to augpe's label counts, or in equal parts to both; the
    synthesis share in equal parts to the methods that vote or train. A share that nobody claims
    goes to the other. The noise of votes is final here, that of training is not yet: its steps
    wait for the DP record count (`sugarbush.pipeline.training`). Raises ParamsError when the
    rounds asked for would leave nothing but noise.
    """
    metadata = [METADATA] if any(m.uses_metadata for m in params.methods) else []
    if any(m.uses_labels and params.evolve.of(m).by_label for m in params.methods):
        metadata.append(LABELS)
    voting = [m for m in params.methods if m.votes and params.evolve.of(m).rounds > 0]
    synthesis = [votes_of(m) for m in voting] + ([TRAINING] if params.trains else [])
    weights = dict.fromkeys(metadata, params.privacy.shares.metadata / max(len(metadata), 1))
    weights |= {name: params.privacy.shares.synthesis / len(synthesis) for name in synthesis}
    claimed = sum(weights.values())
    counts = {METADATA: 0, LABELS: 1, TRAINING: 0}
    counts |= {votes_of(m): params.evolve.of(m).rounds for m in voting}
    norms = {votes_of(m): record_l2_sensitivity(params, m) for m in voting}
    parts = [
        BudgetRequest(
            name=name,
            share=weight / claimed,
            count=counts[name],
            record_l2_sensitivity=norms.get(name, 1),
        )
        for name, weight in weights.items()
    ]
    _refuse_hopeless(params, parts)
    return make_plan(
        parts,
        epsilon=params.privacy.epsilon,
        delta=params.privacy.delta,
        records_per_unit=params.privacy.records_per_user,
    )


def _refuse_hopeless(params: ProjectSettings, parts: Sequence[BudgetRequest]) -> None:
    """Before any distribution is computed: for very many rounds that alone would take minutes."""
    mu = mu_of(epsilon=params.privacy.epsilon, delta=params.privacy.delta)
    for part in parts:
        stddev = params.privacy.records_per_user * math.sqrt(part.count / part.share) / mu
        if stddev > _HOPELESS_STDDEV:
            raise ParamsError(
                f"params.yaml: {_settings_of(part, params)} leaves every count a noise of "
                f"{stddev:.0f} records (at most {_HOPELESS_STDDEV:.0f} make sense). Lower the "
                "rounds or the records of a person, or raise epsilon."
            )


def _settings_of(part: BudgetRequest, params: ProjectSettings) -> str:
    """The settings that the noise of a part of several counts follows from."""
    privacy, method = params.privacy, part.name.removeprefix(_VOTES)
    rounds = [] if part.name == LABELS else [f"evolve.{method}.rounds={part.count}"]
    several = privacy.records_per_user > 1
    person = [f"privacy.records_per_user={privacy.records_per_user}"] if several else []
    return " with ".join([*rounds, *person, f"privacy.epsilon={privacy.epsilon:g}"])


def open_ledger(params: ProjectSettings, base: Path) -> Ledger:
    """The ledger of `privacy.dataset`. A benchmark's is its own."""
    return Ledger(
        state_of(params, base),
        dataset=params.privacy.dataset,
        purpose=params.privacy.purpose.value,
        unit=params.privacy.unit,
        user_column=params.prepare.user_column,
        cap=params.privacy.cap,
        delta=params.privacy.delta,
    )


def open_session(params: ProjectSettings, base: Path, *, stage: str, run: str) -> PrivacySession:
    """A stage's session on the ledger of `privacy.dataset`."""
    return PrivacySession(
        ledger=open_ledger(params, base),
        stage=stage,
        run=run,
        dataset_fingerprint=load_dataset_fingerprint(
            Roots(base).private / "prepared" / "sketch.json"
        ),
        records_per_unit=params.privacy.records_per_user,
    )


def refuse_beyond_cap(
    params: ProjectSettings,
    base: Path,
    *,
    finished: Collection[str],
    dataset_fingerprint: tuple[str, ...],
) -> None:
    """Raise BudgetExceededError unless the cap carries the whole plan but for the parts `finished`.

    For the first stage that draws. All others stand on what it draws and will draw anew too: one
    that was refused later would have let the first one spend for nothing.
    """
    waiting = [p.event for p in plan_for(params).allocations if p.name not in finished]
    open_ledger(params, base).check(waiting, dataset_fingerprint=dataset_fingerprint)


def open_uncapped_ledger(params: ProjectSettings, base: Path, *, kind: str) -> Ledger:
    """Where what has no DP epsilon is noted: beside the DP ledgers, and never added to them."""
    return Ledger(
        state_of(params, base),
        dataset=params.privacy.dataset,
        purpose=f"{params.privacy.purpose.value}-{kind}",
        unit=params.privacy.unit,
        cap=math.inf,
        delta=params.privacy.delta,
    )


def result_store_name(params: ProjectSettings) -> str:
    """The folder of a dataset's finished draws: a benchmark's and a release's are not the same."""
    return f"{params.privacy.purpose}-{params.privacy.dataset}"
