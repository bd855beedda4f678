"""The base class of methods that request texts from a generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from sugarbush import versions
from sugarbush.data.schema import Schema
from sugarbush.errors import GeneratorError, ParamsError
from sugarbush.evolution.enlarge import (
    BATCH,
    RATIO,
    Requests,
    choose_by_scores,
    predicted_scores,
    without_repeats,
    write_further,
)
from sugarbush.evolution.evolve import Evolution, evolve
from sugarbush.evolution.initialisation import (
    Targets,
    candidate_count,
    contradicted,
    first_population,
    first_requests,
    open_targets,
)
from sugarbush.evolution.population import NO_PARENT, Population
from sugarbush.evolution.selection import select_by_rank
from sugarbush.evolution.settings import (
    CandidateSettings,
    EvolutionSettings,
    FirstLength,
    PromptContent,
)
from sugarbush.evolution.voting import PrivateEmbeddings, VotingSession
from sugarbush.generators.interface import Answer, RandomRequest, Request, Usage, usage_of
from sugarbush.methods.interface import (
    FinalSet,
    Initial,
    Method,
    MethodContext,
    MethodInputs,
    PlannedCalls,
    PromptParts,
)
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.results import ResultStore, digest_of
from sugarbush.randomness import public_rng, seed_of
from sugarbush.report.remarks import EMBEDDINGS


class GeneratingMethod(CandidateSettings, Method):
    """A method in which a generator writes the first candidates and the further texts."""

    stages: ClassVar[tuple[str, ...]] = ("initialise", "evolve", "enlarge")
    asks_generator: ClassVar[bool] = True
    uses_encoder: ClassVar[bool] = True

    def in_project(self, context: MethodContext) -> Self:
        """Return the method with metadata alone in its prompts if there are no donated examples."""
        if context.has_donated or self.prompt is not PromptContent.BOTH:
            return self
        return self.model_copy(update={"prompt": PromptContent.METADATA})

    def check(self, context: MethodContext) -> None:
        """Refuse a prompt with donated examples if the settings name no donated examples."""
        if self.shows_examples and not context.has_donated:
            raise ValueError(
                f"methods.{self.name}.prompt={self.prompt} shows donated examples. Set "
                "prepare.donated, or choose prompt: metadata"
            )

    def card_remarks(self, schema: Schema) -> tuple[str, ...]:
        """Add the remark on embeddings if the method has votes or scores, which use embeddings."""
        own = super().card_remarks(schema)
        votes = any(request.name == self.vote_part for request in self.share_requests())
        return (*own, EMBEDDINGS) if votes else own

    def targets(self, inputs: MethodInputs, *, count: int | None, seed: int) -> Released[Targets]:
        """Return targets that allow any attribute values, for `count` texts.

        With `count=None`, there is one target per first candidate.
        """
        wanted = self.first_count(None) if count is None else count
        return Released(open_targets(wanted, inputs.schema))

    def first_count(self, record_count: float | None) -> int:
        return candidate_count(self, record_count=record_count)

    def initialise(self, inputs: MethodInputs) -> Initial:
        """Request the first candidates. Raises GeneratorError if no answer is usable."""
        first, answers = self.first_answers(inputs)
        targets, requests = first.value
        population = first_population(targets, answers, requests=requests, donated=inputs.donated)
        if not len(population):
            raise GeneratorError(
                f"initialise@{self.name}: the generator returned no usable text. Check the "
                "generator's settings"
            )
        ids = first.ledger_ids
        return Initial(
            population=population,
            usage=usage_of(answers),
            ledger_ids=ids,
            run=digest_of(seed=self._first_seed(inputs), ids=list(ids)),
        )

    def first_answers(self, inputs: MethodInputs) -> tuple[Requests, tuple[Answer, ...]]:
        """Return the first requests and their answers. Raises GeneratorError if too many answers
        are unusable.

        A share of the requests (`inputs.again`) waits. If texts of the others contradict the value
        that was requested, their rows of the table are requested again, so that the values of the
        texts stay near the DP table. Every text is a candidate, also a contradicting one.
        """
        first = self.first_requests(inputs, count=None)
        targets, requests = first.value
        reader, count = inputs.label_reader(), len(requests)
        # Rows of a table are in random order. Rows by label are not, and their counts are a quota.
        may_wait = self.shows_metadata and reader.reads and len(set(targets.labels.tolist())) == 1
        waiting = int(count * inputs.again) if may_wait else 0
        answers = self._answers(inputs, first.map(lambda both: both[1][: count - waiting]))
        if not waiting:
            return first, answers
        places = np.array([i for i, a in enumerate(answers) if a.text is not None], dtype=int)
        codes = targets.codes[places]
        labels = reader.read([str(answers[i].text) for i in places], codes)
        missed = contradicted(
            codes,
            labels.codes,
            labels.confidence,
            bucket=[size - 1 for size in inputs.schema.domain.values()],
        )
        again = places[missed][:waiting]
        kept, seed = count - len(again), seed_of(self._first_seed(inputs), "again")
        repeated = self._requests(targets.take(again), inputs, seed=seed) if len(again) else ()
        rows = targets.take(np.concatenate([np.arange(kept), again]))
        sent = first.map(lambda both: (rows, (*both[1][:kept], *repeated)))
        late = sent.map(lambda both: both[1][count - waiting :])
        return sent, answers + self._answers(inputs, late)

    def _answers(
        self, inputs: MethodInputs, requests: Released[tuple[Request, ...]]
    ) -> tuple[Answer, ...]:
        writer = inputs.writer(f"initialise@{self.name}")
        return writer.write(requests, what="first texts")

    def first_requests(self, inputs: MethodInputs, *, count: int | None) -> Requests:
        """Return the targets and the requests of `count` first texts.

        With `count=None`, there is one request per first candidate. The method reads only the
        schema, the metadata, the donated examples and the length of `inputs`.
        """
        seed = self._first_seed(inputs)
        targets = self.targets(inputs, count=count, seed=seed)
        return targets.map(lambda wanted: (wanted, self._requests(wanted, inputs, seed=seed)))

    def _first_seed(self, inputs: MethodInputs) -> int:
        return seed_of(inputs.seed, self.name)

    def _requests(
        self, targets: Targets, inputs: MethodInputs, *, seed: int
    ) -> tuple[Request, ...]:
        return first_requests(
            targets,
            schema=inputs.schema,
            params=self,
            length=inputs.length,
            donated=inputs.donated,
            seed=seed,
        )

    def evolved(
        self,
        inputs: MethodInputs,
        first: Released[Population] | None,
        params: EvolutionSettings,
        *,
        forced: bool,
        survivors: int | None = None,
    ) -> FinalSet:
        """Run the rounds of `params`. Finished rounds are restored."""
        if first is None:
            raise ParamsError(f"method {self.name} needs first candidates. Run stage initialise")
        with self.open_store(inputs, first.value, forced=forced) as store:
            evolution = evolve(
                first,
                params=params,
                schema=inputs.schema,
                writer=inputs.writer(f"evolve@{self.name}"),
                encode=inputs.encode,
                voting=self.voting(inputs, run=store.run),
                store=store,
                seed=seed_of(inputs.seed, self.name),
                say=lambda line: inputs.report(f"evolve@{self.name}: {line}"),
                survivors=survivors,
            )
            return FinalSet(evolution=evolution, run=store.run)

    def open_store(
        self, inputs: MethodInputs, first: Population, *, forced: bool
    ) -> AbstractContextManager[ResultStore]:
        """Open the store of the rounds that start from `first`."""
        key = self.cache_key(inputs, first)
        return inputs.open_store(f"evolve-{self.name}", key, forced=forced)

    def voting(self, inputs: MethodInputs, *, run: str) -> VotingSession | None:
        """Open a voting session, or return None if the method has no votes."""
        if not inputs.budget.holds(self.vote_part):
            return None
        return VotingSession(
            embeddings=self.private_embeddings(inputs),
            stddev=inputs.budget.of(self.vote_part).stddev,
            session=inputs.session(stage=f"evolve@{self.name}", run=run),
        )

    def private_embeddings(self, inputs: MethodInputs) -> Private[PrivateEmbeddings]:
        """Embed the private records. All records get the label 0."""
        return inputs.corpus.embeddings(inputs.encode_private).map_batch(
            lambda own: PrivateEmbeddings(own, np.zeros(len(own), dtype=np.int64))
        )

    def cache_key(self, inputs: MethodInputs, first: Population) -> dict[str, Any]:
        """Return all values that affect a round. If a value changes, new rounds start."""
        plan, part = inputs.budget, self.vote_part
        return {
            "version": versions.EVOLUTION,
            "method": self.name,
            **inputs.cache_key_of_private_data(),
            "first": first.frame(inputs.schema.names).to_json(orient="split"),
            "schema": inputs.schema.model_dump(mode="json"),
            "settings": self.settings_in_use(),
            "seed": inputs.seed,
            "generator": inputs.generator_identity,
            "embedding": inputs.embedding,
            "label": inputs.label,
            "privacy": inputs.privacy.promise,
            "stddev": plan.of(part).stddev if plan.holds(part) else None,
        }

    def settings_in_use(self) -> dict[str, Any]:
        """Return the settings for cache keys."""
        return self.model_dump(mode="json")

    def enlarge(self, inputs: MethodInputs, final: FinalSet) -> FinalSet:
        """Return the release of `inputs.texts` texts. Guarantee: post-processing.

        After votes, the release contains all survivors and further texts. A smaller release
        contains the survivors with the most votes. After kernel scores, herding chooses the release
        from 2 * `inputs.texts` texts. Candidates have noisy scores; further texts have predicted
        scores.
        """
        evolution, stage = final.evolution, f"enlarge@{self.name}"
        least = len(evolution.final) if inputs.release.texts is None else 0
        count = max(inputs.texts, least)
        scored = self.vote_unit > 1 and bool(evolution.rounds)
        if scored:
            texts = without_repeats(evolution.rounds[-1].population)
        else:
            texts = self._most_voted(evolution, count, seed=inputs.seed)
        wanted = (RATIO * count if scored else count) - len(texts)
        usage, ids = Usage(), evolution.ledger_ids
        if inputs.release.texts is None:  # the DP record count sets the number of texts
            ids = tuple(dict.fromkeys((*ids, *inputs.metadata.ledger_ids)))
        if wanted > 0:
            seed = seed_of(inputs.seed, self.name, "enlarge")
            batches = self._batches(inputs, ids, seed=seed)
            further = write_further(
                wanted,
                batches,
                unlike=texts.texts,
                writer=inputs.writer(stage),
                what="further texts",
                donated=inputs.donated,
            )
            usage, ids = further.usage, further.ledger_ids
            texts = texts.join(_after(evolution, further.population))
        if scored and len(texts) == count:
            inputs.report(
                f"{stage}: the scores choose nothing, because there are only {count:,} different "
                "texts for a release of as many. Set release.texts lower, or give the generator "
                "more to write from"
            )
        if scored:
            texts = texts.take(self._by_scores(inputs, evolution, texts, count=count))
        if len(texts) < count:
            inputs.report(
                f"{stage}: {count:,} texts were requested, but the release has only "
                f"{len(texts):,}: the generator wrote no more different texts. Set release.texts "
                "lower, add texts to the pool, or use another generator"
            )
        enlarged = replace(evolution, final=texts, usage=usage, ledger_ids=ids)
        return FinalSet(evolution=enlarged, run=digest_of(run=final.run, texts=count))

    def _batches(
        self, inputs: MethodInputs, ids: tuple[str, ...], *, seed: int
    ) -> Callable[[int], Requests]:
        """Return a function that returns batch i of further requests, in random order."""

        @cache
        def batch(number: int) -> Requests:
            own = seed_of(seed, number)
            targets = self.targets(inputs, count=BATCH, seed=own)
            order = public_rng(own, "order").permutation(BATCH)
            mixed = Targets(codes=targets.value.codes[order], labels=targets.value.labels[order])
            paid = tuple(dict.fromkeys((*ids, *targets.ledger_ids)))
            return Released((mixed, self._requests(mixed, inputs, seed=own)), paid)

        return batch

    def _most_voted(self, evolution: Evolution, count: int, *, seed: int) -> Population:
        """Choose the `count` final texts with the most votes. Without votes, choose the first."""
        final = evolution.final
        if len(final) <= count:
            return final
        if not evolution.rounds:
            return final.take(np.arange(count))
        last = evolution.rounds[-1]
        votes, rng = last.votes.value[last.survivors], public_rng(seed, "enlarge")
        return final.take(select_by_rank(votes, count=count, rng=rng))

    def _by_scores(
        self, inputs: MethodInputs, evolution: Evolution, texts: Population, *, count: int
    ) -> NDArray[np.int64]:
        """Choose at most `count` texts by kernel herding. Returns indices."""
        last = evolution.rounds[-1]
        embeddings = inputs.encode(texts.texts)
        scores = predicted_scores(
            embeddings,
            inputs.encode(last.population.texts),
            last.votes.value,
            stddev=inputs.budget.of(self.vote_part).stddev,
        )
        return choose_by_scores(
            scores, embeddings, width=self.score_width, count=min(count, len(texts))
        )

    def planned_further_calls(
        self, *, record_count: float | None, texts: int, **prompt: Unpack[PromptParts]
    ) -> tuple[PlannedCalls, ...]:
        wanted = RATIO * texts if self.vote_unit > 1 else texts
        further = wanted - self.texts_before(self.planned_first(record_count))
        request = self.longest_request(**prompt)
        return self._planned(("enlarge", "further texts", further), request=request)

    def planned_calls(
        self, *, record_count: float | None, **prompt: Unpack[PromptParts]
    ) -> tuple[PlannedCalls, ...]:
        first = self.planned_first(record_count)
        request = self.longest_request(**prompt)
        return self._planned(("initialise", "first texts", first), request=request)

    def planned_first(self, record_count: float | None) -> int:
        """Return the number of first requests, or the maximum without a DP record count."""
        if record_count is None:
            record_count = self.max_candidates / self.candidates_per_record + 1
        return self.first_count(record_count)

    def texts_before(self, first: int) -> int:
        """Return the number of texts before `enlarge`, given `first` first candidates."""
        return first

    def _planned(
        self, *batches: tuple[str, str, int], request: Request
    ) -> tuple[PlannedCalls, ...]:
        return tuple(
            PlannedCalls(stage=f"{stage}@{self.name}", what=what, calls=calls, request=request)
            for stage, what, calls in batches
            if calls > 0
        )

    def longest_request(
        self, schema: Schema, donated: Sequence[str], length: FirstLength
    ) -> RandomRequest:
        """Return the longest first request that the settings and the donated examples allow."""
        attributes = schema.attributes if self.shows_metadata else ()
        examples = sorted(donated, key=len, reverse=True) if self.shows_examples else []
        return RandomRequest(
            subject=schema.subject,
            attributes=tuple((a.name, max(a.domain, key=len)) for a in attributes),
            examples=tuple(examples[: self.examples]),
            words=length.longest,
        )


def _after(evolution: Evolution, further: Population) -> Population:
    """Give the further texts the next ids and the next round."""
    own = (evolution.final, *(one.population for one in evolution.rounds))
    start = 1 + max(int(population.ids.max(initial=0)) for population in own)
    return replace(
        further,
        ids=start + np.arange(len(further), dtype=np.int64),
        parents=np.full(len(further), NO_PARENT, dtype=np.int64),
        rounds=np.full(len(further), len(evolution.rounds) + 1, dtype=np.int64),
    )
