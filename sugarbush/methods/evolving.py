"""Private Evolution as a method: first candidates, then rounds of votes and variation.

`maple`, `augpe`, `public` and `nonprivate` are this class with other defaults and another start.
Source: Xie et al. 2024, Algorithm 1; Chien et al. 2026 for the start from DP metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np

from sugarbush import versions
from sugarbush.data.schema import Schema
from sugarbush.errors import GeneratorError, ParamsError
from sugarbush.evolution.evolve import evolve
from sugarbush.evolution.initialisation import (
    Targets,
    candidate_count,
    first_population,
    first_requests,
    open_targets,
)
from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.evolution.population import Population
from sugarbush.evolution.settings import (
    EvolutionSettings,
    FirstLength,
    PromptContent,
    Selection,
)
from sugarbush.evolution.voting import PrivateEmbeddings, VotingSession
from sugarbush.generators.examples import choose_examples
from sugarbush.generators.interface import RandomRequest, Request, VariationRequest, usage_of
from sugarbush.methods import interface
from sugarbush.methods.interface import Initial, Method, MethodInputs, PlannedCalls, ShareRequest
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.results import ResultStore, digest_of
from sugarbush.randomness import public_rng, seed_of


class EvolvingMethod(EvolutionSettings, Method):
    """A method that requests candidates from a generator and lets private records vote on them."""

    asks_generator: ClassVar[bool] = True
    votes_with_noise: ClassVar[bool] = True  # whether its rounds spend budget

    def check(self, settings: Any) -> None:
        """Refuse a prompt with donated examples if none are donated."""
        shows = self.prompt in {PromptContent.EXAMPLES, PromptContent.BOTH}
        if shows and not settings.prepare.donated:
            raise ValueError(
                f"evolve.{self.name}.prompt={self.prompt} shows donated examples. Set "
                "prepare.donated, or choose prompt: metadata"
            )

    def targets(self, inputs: MethodInputs, *, seed: int) -> Released[Targets]:
        """What the first candidates should be: no required values, unless overridden."""
        return Released(open_targets(self.first_count(None), inputs.schema))

    def first_count(self, record_count: float | None) -> int:
        """How many first candidates to request.

        A round votes on `variations` texts per survivor, so the first candidates are that many
        times fewer.
        """
        return max(1, candidate_count(self, record_count=record_count) // self.variations)

    def share_requests(self) -> tuple[ShareRequest, ...]:
        """Its votes, if it has rounds with noise."""
        if not (self.votes_with_noise and self.rounds):
            return ()
        return (
            ShareRequest(
                name=self.vote_part,
                share="synthesis",
                count=self.rounds,
                record_l2_sensitivity=self.vote_unit,
                setting=f"evolve.{self.name}.rounds={self.rounds}",
            ),
        )

    @property
    def vote_unit(self) -> int:
        """1 for a vote, or RESOLUTION if records give kernel scores."""
        scored = self.votes_with_noise and self.selection is Selection.KERNEL_HERDING
        return RESOLUTION if scored else 1

    def initialise(self, inputs: MethodInputs) -> Initial:
        """Request the first candidates from the generator and keep the usable answers.

        Raises GeneratorError when none is usable.
        """
        seed = seed_of(inputs.first_seed, self.name)
        targets = self.targets(inputs, seed=seed)
        donated = inputs.donated
        requests: Released[tuple[Request, ...]] = targets.map(
            lambda wanted: first_requests(
                wanted,
                schema=inputs.schema,
                params=self,
                length=inputs.length,
                donated=donated,
                choose=lambda codes, k: choose_examples(
                    codes,
                    donated.codes if donated else codes[:0],
                    k=k,
                    rng=public_rng(seed, "near"),
                ),
                seed=seed,
            )
        )
        stage = f"initialise@{self.name}"
        answers = inputs.writer(stage).write(requests, what="first texts")
        population = first_population(targets.value, answers)
        if not len(population):
            raise GeneratorError(f"{stage}: the generator returned no usable text")
        ids = targets.ledger_ids
        return Initial(
            population=population,
            usage=usage_of(answers),
            ledger_ids=ids,
            run=digest_of(seed=seed, ids=list(ids)),
        )

    def evolve(
        self, inputs: MethodInputs, first: Released[Population] | None, *, forced: bool
    ) -> interface.FinalSet:
        """Rounds of votes; every round that was finished before is restored.

        Raises BudgetExceededError before a vote that the cap does not allow.
        """
        if first is None:
            raise ParamsError(f"method {self.name} needs first candidates")
        with self.open_store(inputs, first.value, forced=forced) as store:
            evolution = evolve(
                first,
                params=self,
                schema=inputs.schema,
                writer=inputs.writer(f"evolve@{self.name}"),
                encode=inputs.encode,
                voting=self.voting(inputs, run=store.run),
                store=store,
                seed=seed_of(inputs.evolve_seed, self.name),
                say=lambda line: inputs.report(f"evolve@{self.name}: {line}"),
            )
            return interface.FinalSet(evolution=evolution, run=store.run)

    def open_store(
        self, inputs: MethodInputs, first: Population, *, forced: bool
    ) -> AbstractContextManager[ResultStore]:
        """The finished rounds after these first candidates."""
        key = self.cache_key(inputs, first)
        return inputs.open_store(f"evolve-{self.name}", key, forced=forced)

    def voting(self, inputs: MethodInputs, *, run: str) -> VotingSession | None:
        """The private records for voting, and the noise of each vote; None without votes."""
        if not inputs.budget.holds(self.vote_part):
            return None
        return VotingSession(
            embeddings=self.private_embeddings(inputs),
            stddev=inputs.budget.of(self.vote_part).stddev,
            session=inputs.session(stage=f"evolve@{self.name}", run=run),
        )

    def private_embeddings(self, inputs: MethodInputs) -> Private[PrivateEmbeddings]:
        """The private records embedded, and labelled if votes are by label."""
        vectors = inputs.corpus.embeddings(inputs.encode_private)
        if not self.by_label:
            return vectors.map_batch(
                lambda own: PrivateEmbeddings(own, np.zeros(len(own), dtype=np.int64))
            )
        place = inputs.schema.names.index(inputs.label)
        codes = inputs.corpus.codes(inputs.schema.names)
        return vectors.zip_batch(codes, lambda own, table: PrivateEmbeddings(own, table[:, place]))

    def cache_key(self, inputs: MethodInputs, first: Population) -> dict[str, Any]:
        """Everything that a round's result depends on: only a change here draws it again."""
        plan, part = inputs.budget, self.vote_part
        return {
            "version": versions.EVOLUTION,
            "method": self.name,
            **inputs.cache_key_of_private_data(),
            "first": first.frame(inputs.schema.names).to_json(orient="split"),
            "schema": inputs.schema.model_dump(mode="json"),
            "settings": self.settings_in_use(),
            "seed": inputs.evolve_seed,
            "generator": inputs.generator_identity,
            "embedding": inputs.embedding,
            "label": inputs.label,
            "privacy": inputs.privacy.promise,
            "stddev": plan.of(part).stddev if plan.holds(part) else None,
        }

    def settings_in_use(self) -> dict[str, Any]:
        """The settings without those that were added later, because finished rounds were keyed
        without them.

        A setting that was added later is omitted at its default, so that rounds drawn before it
        existed are still found. The width of kernel scores is included only if there are scores.
        """
        fields = self.key_settings()
        added = {
            **self.removed_settings,
            "tones": [],
            "distinct": False,
            "score_width": 0.2,
        }
        if self.selection is not Selection.KERNEL_HERDING:
            del fields["score_width"]
        return {name: value for name, value in fields.items() if added.get(name, ...) != value}

    def planned_calls(
        self,
        *,
        schema: Schema,
        donated: Sequence[str],
        length: FirstLength,
        record_count: float | None,
    ) -> tuple[PlannedCalls, ...]:
        """Every batch of requests.

        Each request is as long as the settings and donated examples allow. Without a DP record
        count, the count is the most candidates that the settings allow.
        """
        words = max(length.words, *(length.words_by_value or {"": length.words}).values())
        known = self.candidates is not None or record_count is not None
        voted_on = candidate_count(self, record_count=record_count) if known else None
        survivors = max(1, (voted_on or self.max_candidates) // self.variations)
        first = RandomRequest(
            subject=schema.subject,
            attributes=self._longest_attributes(schema),
            examples=self._longest_examples(donated),
            words=words,
        )
        vary = VariationRequest(
            subject=schema.subject,
            parent="word " * words,
            mask_share=self.mask_share,
            words=words,
        )
        batches: list[tuple[str, str, int, Request]] = [
            ("initialise", "first texts", survivors, first)
        ]
        batches += [
            ("evolve", f"round {number}", survivors * (self.variations - 1), vary)
            for number in range(1, self.rounds + 1)
        ]
        batches.append(("evolve", "final set", survivors * (self.expansion - 1), vary))
        return tuple(
            PlannedCalls(stage=f"{stage}@{self.name}", what=what, calls=calls, request=request)
            for stage, what, calls, request in batches
            if calls
        )

    def _longest_attributes(self, schema: Schema) -> tuple[tuple[str, str], ...]:
        shown = self.by_label or self.prompt in {PromptContent.METADATA, PromptContent.BOTH}
        chosen = schema.attributes if shown else ()
        return tuple((a.name, max(a.domain, key=len)) for a in chosen)

    def _longest_examples(self, donated: Sequence[str]) -> tuple[str, ...]:
        if self.prompt not in {PromptContent.EXAMPLES, PromptContent.BOTH}:
            return ()
        return tuple(sorted(donated, key=len, reverse=True)[: self.examples])
