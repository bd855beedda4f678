"""The same evolution without noise: the upper limit of quality, and the positive control of every
audit.

It has no guarantee. Each use of the data is recorded as not private in a separate ledger. The
settings allow the method only on data that are declared public.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

from sugarbush import versions
from sugarbush.evolution.initialisation import Targets, targets_by_rows
from sugarbush.evolution.population import Population
from sugarbush.evolution.voting import VotingSession
from sugarbush.methods.evolving import EvolvingMethod
from sugarbush.methods.interface import MethodInputs
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.events import NonPrivate
from sugarbush.privacy.results import ResultStore
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import Purpose
from sugarbush.randomness import public_rng


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

    def targets(self, inputs: MethodInputs, *, count: int | None, seed: int) -> Released[Targets]:
        """Real rows, opened after the use is noted."""
        with self.open_store(inputs, forced=False) as store:
            charge = self._session(inputs, store.run).charge(NonPrivate())
        real = inputs.corpus.real_texts(inputs.schema.names, seed=seed)
        wanted = self.first_count(len(real.texts)) if count is None else count
        rows = targets_by_rows(wanted, real.codes, rng=public_rng(seed, "rows"))
        return Released(rows, (charge,))

    def voting(self, inputs: MethodInputs, *, run: str) -> VotingSession:
        """The private records as voters, with exact votes."""
        return VotingSession(
            embeddings=self.private_embeddings(inputs),
            stddev=None,
            session=self._session(inputs, run),
        )

    def _session(self, inputs: MethodInputs, run: str) -> PrivacySession:
        return PrivacySession(ledger=inputs.uncapped_ledger(self.name), stage=self.name, run=run)

    def open_store(
        self, inputs: MethodInputs, first: Population | None = None, *, forced: bool
    ) -> AbstractContextManager[ResultStore]:
        """The finished rounds. They depend on the real rows, and so on no first candidates."""
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
