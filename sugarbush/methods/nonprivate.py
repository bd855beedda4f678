"""Private Evolution without noise: the ceiling of quality, and the positive control of audits.

The method has no guarantee, so it runs only on data that the settings declare public. A separate
ledger records each use of the data as not private.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import ClassVar

from sugarbush import versions
from sugarbush.evolution.initialisation import Targets, targets_by_rows
from sugarbush.evolution.population import Population
from sugarbush.evolution.voting import VotingSession
from sugarbush.methods.evolving import EvolvingMethod
from sugarbush.methods.interface import MethodContext, MethodInputs
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.events import NonPrivate
from sugarbush.privacy.results import ResultStore
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import Purpose
from sugarbush.randomness import public_rng


class NonPrivatePE(EvolvingMethod):
    """The method `maple` with real rows of metadata and exact votes.

    >>> NonPrivatePE(rounds=1).stays_private
    True
    """

    name: ClassVar[str] = "nonprivate"
    stays_private: ClassVar[bool] = True
    votes_with_noise: ClassVar[bool] = False

    def check(self, context: MethodContext) -> None:
        """Refuse data that the settings do not declare public. Prompts contain real metadata."""
        super().check(context)
        if context.purpose is Purpose.RELEASE:
            raise ValueError(
                "methods: nonprivate adds no noise and protects nobody. Remove nonprivate. If the "
                "data is public, you can set privacy.purpose: benchmark instead"
            )

    def targets(self, inputs: MethodInputs, *, count: int | None, seed: int) -> Released[Targets]:
        """Return rows of real metadata. The ledger records this use before the rows are read."""
        with self.open_store(inputs, forced=False) as store:
            charge = self._session(inputs, store.run).charge(NonPrivate())
        real = inputs.corpus.real_texts(inputs.schema.names, seed=seed)
        wanted = self.first_count(len(real.texts)) if count is None else count
        rows = targets_by_rows(wanted, real.codes, rng=public_rng(seed, "rows"))
        return Released(rows, (charge,))

    def voting(self, inputs: MethodInputs, *, run: str) -> VotingSession:
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
        """Open the store of the rounds.

        The cache key contains no first candidates, because first candidates depend on real rows.
        """
        key = {
            "version": versions.EVOLUTION,
            **inputs.cache_key_of_private_data(),
            "schema": inputs.schema.model_dump(mode="json"),
            "settings": self.key_settings(),
            "length": inputs.length.model_dump(mode="json"),
            "seed": inputs.seed,
            "generator": inputs.generator_identity,
            "embedding": inputs.embedding,
        }
        return inputs.open_store(self.name, key, forced=forced, dataset_prefix=self.name)
