"""Audits a whole method (plan, mechanisms and accounting) on records of a corpus.

The records come from a benchmark or from the example. The attacker knows some of the records. The
other records are canaries. A coin decides for each canary whether the method sees the canary. The
attacker also knows every candidate, every model and every setting. From all noisy results, the
attacker computes the most likely coins. The claim is the total of the method's charges in the
ledger.

    mosaic, maple, augpe    the table or the label counts, and every round of votes or kernel
                            scores. Each canary equals one candidate
    dpft                    the table, and every noisy gradient sum of training on Poisson samples
    crt                     every noisy gradient sum. A coin chooses one of two secrets for each
                            record

The trained model is tiny, and each canary of training repeats one rare token. The audit writes no
file and charges no ledger of a project.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sugarbush.audits.canary_audit import Size
from sugarbush.audits.mechanism_runs import (
    CanaryRun,
    CanaryScores,
    Coins,
    epsilon_of_events,
    temporary_session,
)
from sugarbush.audits.noisy_sum_attack import Attacker, Seen, view_of
from sugarbush.audits.training_canaries import ALMOST_NONE, CLIP_NORM, MAX_LENGTH, canary_examples
from sugarbush.data.private_store import HELDOUT, TRAIN, RealTexts
from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError
from sugarbush.evolution.parts import Candidates, Encode, Records, Scorer
from sugarbush.evolution.starts import LABELS, METADATA
from sugarbush.methods.interface import TRAINING, Method, TrainedMethod
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.methods.plan import plan_for
from sugarbush.privacy.accounting import Relation, gaussian_mu
from sugarbush.privacy.budget import BudgetAllocation, Subsampling, with_subsampling
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import ConfidentialTraining, DpSgdGaussianBound, GaussianDp
from sugarbush.privacy.mechanisms import noisy_histogram
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import PrivacySettings, Purpose
from sugarbush.randomness import public_rng
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.training.crt.confidentiality import noise_for, uniform
from sugarbush.training.dpsgd.checkpoints import Checkpoints
from sugarbush.training.dpsgd.data import probe_examples
from sugarbush.training.dpsgd.train import Decay, Learning, Mechanism, Performance, Training, train

_KNOWN = 100
_RATE, _STEPS = 0.5, 8
# With learning rate 0, the weights do not change, so gradients are computed once. The guarantee is
# independent of the weights.
_LEARNING = Learning(learning_rate=0.0, decay=Decay.CONSTANT, warmup_steps=0, weight_decay=0.0)


@dataclass(frozen=True, kw_only=True)
class AuditCorpus:
    """The corpus of an audit. `privacy` are its privacy settings.

    `real_texts(part)` reads the records of `train` or `heldout`. `encode` embeds real texts.
    `label` is the attribute of the label counts.
    """

    schema: Schema
    privacy: PrivacySettings
    label: str
    real_texts: Callable[[str], RealTexts]
    encode: Encode


@dataclass(frozen=True, kw_only=True)
class AuditRecords:
    """The records of an audit. The first `canaries` records are canaries, and the attacker knows
    the other records. Shapes: `texts` (n,), `codes` (n, d), `vectors` (n, dim). Each vector has
    length 1."""

    texts: tuple[str, ...]
    codes: NDArray[np.int64]
    vectors: NDArray[np.float32]
    canaries: int

    def seen(self, coins: Coins) -> NDArray[np.int64]:
        known = np.arange(self.canaries, len(self.texts))
        return np.concatenate([np.flatnonzero(coins), known])


def audit_records(corpus: AuditCorpus, method: Method, *, seed: int = 0) -> AuditRecords:
    """Choose at most 200 canaries and 100 known records from the corpus, by a public seed. An audit
    of training has at most 100 canaries, because each canary needs its own token. Raises
    ParamsError if the corpus is private."""
    canaries = 100 if _trains(method) else 200
    if corpus.privacy.purpose is Purpose.RELEASE:
        raise ParamsError(
            "an audit of methods needs records that the attacker knows. If the data is public, set "
            "privacy.purpose: benchmark. Otherwise audit the example"
        )
    parts = [corpus.real_texts(part) for part in (TRAIN, HELDOUT)]
    texts, codes = parts[0].texts + parts[1].texts, np.concatenate([p.codes for p in parts])
    chosen = public_rng(seed, "audited").permutation(len(texts))[: canaries + _KNOWN]
    own = tuple(texts[place] for place in chosen)
    return AuditRecords(
        texts=own,
        codes=codes[chosen],
        vectors=corpus.encode(own),
        canaries=min(canaries, len(own) // 2),
    )


def is_auditable(method: Method) -> bool:
    """Return whether this module can attack the results of this method."""
    if method.facts.confidential_epsilon is not None:
        return True
    names = {request.name for request in method.budget_requests()}
    attacked = {METADATA, LABELS, TRAINING}
    if isinstance(method, PartsMethod | TrainedMethod) and method.record_scorer is not None:
        attacked.add(method.scores_name)
    return bool(names - {METADATA, LABELS}) and names <= attacked


def _trains(method: Method) -> bool:
    names = {request.name for request in method.budget_requests()}
    return TRAINING in names or method.facts.confidential_epsilon is not None


def target_epsilon(method: Method, privacy: PrivacySettings) -> float:
    """Return the epsilon of the method in the settings."""
    confidential = method.facts.confidential_epsilon
    return privacy.epsilon if confidential is None else confidential


def method_size(method: Method, records: AuditRecords, *, runs: int, coarse: bool = False) -> Size:
    """Choose the number of runs and guesses. For a large fault, `coarse`, few runs are enough."""
    share = 3 if coarse or _trains(method) else 10
    runs = min(runs, 20) if coarse else runs
    guesses = max(2, runs * records.canaries // share)
    return Size(canaries=records.canaries, guesses=guesses, runs=runs)


def method_run(method: Method, corpus: AuditCorpus, records: AuditRecords) -> CanaryRun:
    """Return a function that runs the method's mechanisms on the included canaries."""

    views: dict[Any, Any] = {}  # shared by all runs, because views do not depend on the coins

    def run(coins: Coins, *, epsilon: float, delta: float) -> CanaryScores:
        one = _Run(method, corpus, records, coins, epsilon, delta, views)
        return one.of_plan() if method.facts.confidential_epsilon is None else one.of_crt()

    return run


@dataclass(frozen=True)
class _Run:
    method: Method
    corpus: AuditCorpus
    records: AuditRecords
    coins: Coins
    epsilon: float
    delta: float
    views: dict[Any, Any]

    def of_plan(self) -> CanaryScores:
        """Run every mechanism of the method's plan. At infinite epsilon, leave out the table and
        the label counts, because AIM cannot run without noise."""
        attacker = Attacker(self.records.canaries)
        finite = math.isfinite(self.epsilon)
        with temporary_session(self.delta) as session:
            for name, allocation in self._allocations().items():
                if name == METADATA:
                    if finite:
                        self._table(attacker, allocation.mu, session)
                elif name == LABELS:
                    if finite:
                        self._labels(attacker, allocation.stddev, session)
                elif name == TRAINING:
                    training = allocation.subsampled
                    assert not isinstance(training, DpSgdGaussianBound)  # no profile was drawn
                    noise = 0.0 if training is None else training.noise_multiplier
                    self._training(attacker, noise, session)
                else:
                    stddev = allocation.stddev if finite else None
                    self._votes(attacker, stddev, allocation.count, session)
            events = tuple(entry.event for entry in session.ledger.entries())
        return CanaryScores(
            scores=attacker.scores,
            epsilon=epsilon_of_events(events, self.delta),
            mu=gaussian_mu(events),
        )

    def of_crt(self) -> CanaryScores:
        """Train on records with one of two secrets each, with the noise of the method's epsilon."""
        noise, relation = 0.0, Relation.REPLACE_ONE
        if math.isfinite(self.epsilon):
            noise = noise_for(self.epsilon, gamma=1.0, delta=self.delta, rate=_RATE, steps=_STEPS)
        attacker = Attacker(self.records.canaries)
        with temporary_session(self.delta) as session:
            event = self._training(attacker, noise, session, relation=relation)
        claimed = math.inf
        if isinstance(event, ConfidentialTraining):
            claimed = _uniform(event, self.delta)
        return CanaryScores(scores=attacker.scores, epsilon=claimed, mu=math.inf)

    def _allocations(self) -> dict[str, BudgetAllocation]:
        privacy = self.corpus.privacy
        target = self.epsilon if math.isfinite(self.epsilon) else 1.0
        plan = plan_for(
            privacy.model_copy(update={"epsilon": target, "delta": self.delta}), [self.method]
        )
        if plan.holds(TRAINING) and math.isfinite(self.epsilon):
            parts = {TRAINING: Subsampling(rate=_RATE, steps=_STEPS)}
            plan = with_subsampling(plan, parts, epsilon=self.epsilon)
        return {allocation.name: allocation for allocation in plan.allocations}

    def _kept(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self.views:
            self.views[key] = make()
        return self.views[key]

    def _observe(
        self,
        attacker: Attacker,
        kind: Any,
        rows: Callable[[], NDArray[np.float64]],
        sums: NDArray[Any],
        stddev: float,
    ) -> None:
        """Pass noisy `sums` to the attacker. Record i adds row i of `rows()` to the sums."""

        def make() -> Seen:
            both, m = rows(), self.records.canaries
            view = view_of(both[:m], canaries=m, stddev=stddev)
            return Seen(view, without=both[m:].sum(axis=0), half=both[:m].sum(axis=0) / 2)

        self._add(attacker, self._kept((kind, stddev), make), sums)

    def _add(self, attacker: Attacker, seen: Seen, sums: NDArray[Any]) -> None:
        """Pass noisy sums to the attacker. A run without canaries measures the noise of a known
        seed. In such a run, `half` is not subtracted."""
        attacker.add(seen.view, sums - seen.without - (seen.half if self.coins.any() else 0))

    def _table(self, attacker: Attacker, mu: float, session: PrivacySession) -> None:
        schema, codes = self.corpus.schema, self.records.codes
        session.charge(GaussianDp(mu=mu))
        seen: Private[tuple[int, ...]] = Private(codes[self.records.seen(self.coins)])
        measurer = MarginalMeasurer(seen, schema.domain, mu=mu)
        pairs: list[tuple[int, ...]] = [*combinations(range(len(schema.names)), 2)] or [(0,)]
        for number, places in enumerate(pairs):
            answer = measurer.measure(
                tuple(schema.names[place] for place in places),
                mu=mu / math.sqrt(len(pairs)) * (1 - 1e-9),
                round=number,
            )
            shape = answer.counts.shape

            def rows(places: Sequence[int] = places, shape: Any = shape) -> NDArray[np.float64]:
                cells = np.ravel_multi_index(tuple(codes[:, list(places)].T), shape)
                return np.asarray(np.eye(math.prod(shape))[cells])

            self._observe(attacker, places, rows, answer.counts.ravel(), answer.stddev)

    def _labels(self, attacker: Attacker, stddev: float, session: PrivacySession) -> None:
        labels, size = self._label_codes()
        seen: Private[int] = Private(labels[self.records.seen(self.coins)])
        counts = noisy_histogram(seen, size=size, stddev=stddev, session=session)
        self._observe(attacker, LABELS, lambda: np.eye(size)[labels], counts.value, stddev)

    def _label_codes(self) -> tuple[NDArray[np.int64], int]:
        schema, name = self.corpus.schema, self.corpus.label
        return self.records.codes[:, schema.names.index(name)], schema.domain[name]

    def _votes(
        self, attacker: Attacker, stddev: float | None, rounds: int, session: PrivacySession
    ) -> None:
        assert isinstance(self.method, PartsMethod | TrainedMethod)
        assert self.method.record_scorer is not None
        scorer = self.method.record_scorer.for_schema(self.corpus.schema)
        records = Records(self.records.vectors, self.records.codes, self._label_codes()[0])
        audited = records[slice(self.records.canaries)]
        candidates = Candidates(audited.embeddings, audited.codes, audited.labels)
        included = Private[Records](records[self.records.seen(self.coins)])
        unit = float(scorer.unit)
        noise = ALMOST_NONE if stddev is None else stddev / unit
        for _ in range(rounds):
            sums = scorer.total(included, candidates, stddev=stddev, session=session)
            self._observe(
                attacker,
                "votes",
                lambda: _rows_of(scorer, records, candidates),
                sums.value / unit,
                noise,
            )

    def _training(
        self,
        attacker: Attacker,
        noise_multiplier: float,
        session: PrivacySession,
        relation: Relation = Relation.ADD_OR_REMOVE_ONE,
    ) -> Any:
        m, replaced = self.records.canaries, relation is Relation.REPLACE_ONE
        examples = self._kept(
            relation,
            lambda: canary_examples(self.records.texts[m:], canaries=m, replaced=replaced),
        )
        canaries, known = examples.included, examples.known
        included = [(example,) for example, coin in zip(canaries, self.coins, strict=True) if coin]
        if examples.replaced:
            others = zip(examples.replaced, self.coins, strict=True)
            included += [(example,) for example, coin in others if not coin]
        model = examples.new_model()
        mechanism = Mechanism(
            rate=_RATE,
            steps=_STEPS,
            repeatable_steps=0,
            noise_multiplier=noise_multiplier,
            clip_norm=CLIP_NORM,
            expected_batch_size=_RATE * len(examples.known),
            relation=relation,
        )
        seen = self._kept((relation, noise_multiplier), lambda: examples.seen(model, mechanism))

        def read_noisy_sum(done: int) -> None:
            """Pass the last step to the attacker. `grad` contains its noisy mean gradient."""
            if done:
                means = [p.grad.double().flatten() for p in model.parameters()]
                sums = torch.cat(means).numpy() * mechanism.expected_batch_size
                self._add(attacker, seen, sums)

        with tempfile.TemporaryDirectory() as folder:
            train(
                model,
                Private([*included, *((example,) for example in known)]),
                training=Training(
                    mechanism=mechanism,
                    learning=_LEARNING,
                    performance=Performance(micro_batch_tokens=2**14, checkpoint_every=_STEPS),
                ),
                probe=probe_examples(examples.vocabulary, max_length=MAX_LENGTH),
                checkpoints=Checkpoints(Path(folder)),
                session=session,
                before_step=read_noisy_sum,
            )
        read_noisy_sum(_STEPS)
        return mechanism.event


def _rows_of(scorer: Scorer, records: Records, candidates: Candidates) -> NDArray[np.float64]:
    """Return what each record adds to a sum of scores, in votes."""
    blocks = [np.array(block) for block in scorer.scores(candidates)(records)]
    return np.concatenate(blocks) / float(scorer.unit)


@cache
def _uniform(event: ConfidentialTraining, delta: float) -> float:
    return uniform(event, delta=delta).epsilon
