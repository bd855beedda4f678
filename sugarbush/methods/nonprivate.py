"""Private Evolution without noise: the ceiling of quality, and the positive control of audits.

The method has no guarantee, so it runs only on data that the settings declare public. A separate
ledger records each use of the data as not private.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import ClassVar

from sugarbush import versions
from sugarbush.evolution.population import Population
from sugarbush.evolution.targets import Targets, targets_by_rows
from sugarbush.methods.interface import MethodContext, MethodInputs
from sugarbush.methods.maple import Maple
from sugarbush.privacy.budget import BudgetRequest
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.events import NonPrivate
from sugarbush.privacy.results import ResultStore
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import Purpose
from sugarbush.randomness import public_rng


class NonPrivatePE(Maple):
    """The method `maple` with real rows of metadata and exact votes.

    >>> NonPrivatePE(rounds=1).stays_private
    True
    """

    name: ClassVar[str] = "nonprivate"
    stays_private: ClassVar[bool] = True

    def budget_requests(self) -> tuple[BudgetRequest, ...]:
        """Return no request, because nothing is drawn with noise."""
        return ()

    def check(self, context: MethodContext) -> None:
        """Refuse data that the settings do not declare public. Prompts contain real metadata."""
        super().check(context)
        if context.purpose is Purpose.RELEASE:
            raise ValueError(
                "methods: nonprivate adds no noise and protects nobody. Remove nonprivate. If the "
                "data is public, you can set privacy.purpose: benchmark instead"
            )

    def targets(self, inputs: MethodInputs, *, count: int | None, seed: int) -> Released[Targets]:
        """Return rows of real metadata. The ledger records this use before the rows are read.

        With `count=None`, there is one row per first candidate.
        """
        with self._open_store(inputs, None, forced=False) as store:
            charge = self._session(inputs, store.run).charge(NonPrivate())
        real = inputs.private.corpus.real_texts(inputs.public.schema.names, seed=seed)
        if count is None:
            parts = self.parts()
            count = parts.first_count(self.prompts().candidate_count(len(real.texts)))
        rows = targets_by_rows(
            count, real.codes, inputs.public.schema, rng=public_rng(seed, "rows")
        )
        return Released(rows, (charge,))

    def _stddev(self, inputs: MethodInputs) -> float | None:
        return None

    def _session(self, inputs: MethodInputs, run: str) -> PrivacySession:
        ledger = inputs.private.uncapped_ledger(self.name)
        return PrivacySession(ledger=ledger, stage=self.name, run=run)

    def _open_store(
        self, inputs: MethodInputs, first: Population | None, *, forced: bool
    ) -> AbstractContextManager[ResultStore]:
        """Open the store of the rounds.

        The cache key contains no first candidates, because first candidates depend on real rows.
        """
        public = inputs.public
        key = {
            "version": versions.EVOLUTION,
            **inputs.private.cache_key(),
            "schema": public.schema.model_dump(mode="json"),
            "settings": self.model_dump(mode="json"),
            "length": public.length.model_dump(mode="json"),
            "seed": public.seed,
            "generator": public.generator,
            "embedding": public.embedding,
        }
        return inputs.private.open_store(self.name, key, forced=forced, dataset_prefix=self.name)
