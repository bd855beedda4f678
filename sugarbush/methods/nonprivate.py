"""The same evolution without noise: the upper limit of quality, and the positive control of every
audit.

It has no guarantee. Each use of the data is recorded as not private in a separate ledger. The
settings allow the method only on data that are declared public.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sugarbush import versions
from sugarbush.evolution.evolve import evolve
from sugarbush.evolution.initialisation import Targets, targets_by_rows
from sugarbush.evolution.population import Population
from sugarbush.evolution.voting import VotingSession
from sugarbush.methods.evolving import EvolvingMethod
from sugarbush.methods.interface import FinalSet, Initial, MethodInputs
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.events import NonPrivate
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import Purpose
from sugarbush.randomness import public_rng, seed_of


class NonPrivatePE(EvolvingMethod):
    """`maple` with real rows of metadata and exact votes.

    >>> NonPrivatePE(rounds=1).stays_private
    True
    """

    name: ClassVar[str] = "nonprivate"
    stays_private: ClassVar[bool] = True
    votes_with_noise: ClassVar[bool] = False

    def check(self, settings: Any) -> None:
        """Refuse data that are not declared public, because prompts contain real metadata."""
        super().check(settings)
        if settings.privacy.purpose is Purpose.RELEASE:
            raise ValueError(
                "methods: nonprivate adds no noise anywhere and protects nobody. It is for data "
                "that everybody may read: set privacy.purpose: benchmark if that is so, or leave "
                "it out"
            )

    def initialise(self, inputs: MethodInputs) -> Initial:
        """First candidates from real rows of metadata; the use is recorded before they are read."""
        return super().initialise(inputs)

    def targets(self, inputs: MethodInputs, *, seed: int) -> Released[Targets]:
        """Real rows, opened."""
        with self._store(inputs, forced=False) as store:
            charge = self._session(inputs, store.run).charge(NonPrivate())
        real = inputs.corpus.real_texts(inputs.schema.names, seed=seed)
        count = self.first_count(len(real.texts))
        rows = targets_by_rows(count, real.codes, rng=public_rng(seed, "rows"))
        return Released(rows, (charge,))

    def evolve(
        self, inputs: MethodInputs, first: Released[Population] | None, *, forced: bool
    ) -> FinalSet:
        """Rounds of exact votes."""
        assert first is not None
        with self._store(inputs, forced=forced) as store:
            evolution = evolve(
                first,
                params=self,
                schema=inputs.schema,
                writer=inputs.writer(self.name),
                encode=inputs.encode,
                voting=VotingSession(
                    embeddings=self.private_embeddings(inputs),
                    stddev=None,
                    session=self._session(inputs, store.run),
                ),
                store=store,
                seed=seed_of(inputs.evolve_seed, self.name),
                say=lambda line: inputs.report(f"evolve@{self.name}: {line}"),
            )
            return FinalSet(evolution=evolution, run=store.run)

    def _session(self, inputs: MethodInputs, run: str) -> PrivacySession:
        return PrivacySession(ledger=inputs.uncapped_ledger(self.name), stage=self.name, run=run)

    def _store(self, inputs: MethodInputs, *, forced: bool) -> Any:
        key = {
            "version": versions.EVOLUTION,
            **inputs.cache_key_of_private_data(),
            "schema": inputs.schema.model_dump(mode="json"),
            "settings": self.key_settings(),
            "first": {
                "length": inputs.length.model_dump(mode="json"),
                "seed": inputs.first_seed,
            },
            "seed": inputs.evolve_seed,
            "generator": inputs.generator_identity,
            "embedding": inputs.embedding,
        }
        return inputs.open_store(self.name, key, forced=forced, dataset_prefix=self.name)
