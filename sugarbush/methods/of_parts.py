"""The base class of methods that are made of parts (`sugarbush.evolution.parts`)."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, is_dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sugarbush import versions
from sugarbush.data.drawn_values import broken_categories
from sugarbush.data.mix import Mix, counts_of_cells
from sugarbush.data.schema import Attribute
from sugarbush.errors import GeneratorError, ParamsError
from sugarbush.evolution.enlarge import BATCH, Requests, without_repeated_texts, write_further
from sugarbush.evolution.evolve import Rounds, Scoring, score_once
from sugarbush.evolution.initialisation import (
    contradicted,
    first_population,
    first_requests,
)
from sugarbush.evolution.parts import Lineage, Parts, Records, Scorer
from sugarbush.evolution.population import NO_PARENT, Population
from sugarbush.evolution.selection import apportion
from sugarbush.evolution.targets import Targets
from sugarbush.generators.interface import Answer, RandomRequest, Request, Usage, usage_of
from sugarbush.methods.interface import (
    FinalSet,
    Initial,
    MethodContext,
    MethodFacts,
    MethodInputs,
    OneStageMethod,
    PlannedCalls,
    Planning,
)
from sugarbush.privacy.budget import BudgetRequest
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.results import ResultStore, digest_of
from sugarbush.privacy.session import PrivacySession
from sugarbush.randomness import public_rng, seed_of

_TIMES_FOR_A_MIX = 3  # how often further texts are requested for a mix
_READINGS_FOR_A_MIX = 8  # how often texts are replaced because their labels changed


class PartsMethod(OneStageMethod):
    """A method in which a generator writes texts and private records score them.

    A subclass has settings and names its parts. All stages, the budget requests, the plan of
    requests and the card's remarks follow from them.
    """

    stages: ClassVar[tuple[str, ...]] = ("initialise", "evolve", "enlarge")
    version: ClassVar[int] = 1  # increase it if changed code gives other scores or candidates

    @abstractmethod
    def parts(self) -> Parts:
        """Return the parts, which the settings decide."""

    @property
    def facts(self) -> MethodFacts:
        return MethodFacts(
            asks_generator=True, uses_encoder=True, card_settings=self.model_dump(mode="json")
        )

    @property
    def record_scorer(self) -> Scorer | None:
        """How each record scores texts, or None if the records score none."""
        return self.parts().scorer

    @property
    def scores_name(self) -> str:
        """The name of the noisy sums of scores in the budget plan."""
        return f"votes:{self.name}"

    def budget_requests(self) -> tuple[BudgetRequest, ...]:
        parts = self.parts()
        if parts.scorer is None or not parts.draws:
            return parts.start.budget_requests()
        is_set = parts.rounds > 0 and "rounds" in type(self).model_fields
        sums = BudgetRequest(
            name=self.scores_name,
            count=parts.draws,
            record_l2_sensitivity=parts.scorer.unit,
            setting=f"methods.{self.name}.rounds={parts.rounds}" if is_set else None,
            remarks=parts.scorer.remarks,
        )
        return (*parts.start.budget_requests(), sums)

    def check(self, context: MethodContext) -> None:
        """Refuse a prompt with donated examples if the settings name no donated examples."""
        prompts = self.parts().start.prompts
        if prompts.shows_examples and not context.has_donated:
            raise ValueError(
                f"methods.{self.name}.prompt={prompts.content} shows donated examples. Set "
                "prepare.donated, or choose prompt: metadata"
            )

    # Stage initialise

    def initialise(self, inputs: MethodInputs) -> Initial:
        """Request the first candidates. Raises GeneratorError if no answer is usable."""
        first, answers = self._first_answers(inputs)
        targets, requests = first.value
        donated = inputs.public.donated
        population = first_population(targets, answers, requests=requests, donated=donated)
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
            run=digest_of(seed=self._seed(inputs), ids=list(ids)),
        )

    def first_requests(self, inputs: MethodInputs, *, count: int | None) -> Requests:
        """Return the targets and the requests of `count` first texts, or of all first candidates.

        The method reads only `inputs.public`. (A method that stays private may read more.)
        """
        seed = self._seed(inputs)
        targets = self._with_values(self.targets(inputs, count=count, seed=seed), inputs, seed=seed)
        return targets.map(lambda rows: (rows, self._requests(rows, inputs, seed=seed)))

    def targets(self, inputs: MethodInputs, *, count: int | None, seed: int) -> Released[Targets]:
        """Return the attribute values of `count` texts, or of all first candidates."""
        parts, public = self.parts(), inputs.public
        if count is None:
            candidates = parts.start.prompts.candidate_count(
                parts.start.record_count(public.metadata), texts=public.release.texts
            )
            count = parts.first_count(candidates)
        return parts.start.targets(public, count=count, seed=seed)

    def _with_values(
        self, targets: Released[Targets], inputs: MethodInputs, *, seed: int
    ) -> Released[Targets]:
        """Return the targets with the numbers and dates that the prompts show. They are drawn
        before the requests, so that a text and its released value agree."""
        rng = public_rng(seed, "values")
        return targets.map(lambda rows: rows.with_values(inputs.public.schema, rng=rng))

    def _first_answers(self, inputs: MethodInputs) -> tuple[Requests, tuple[Answer, ...]]:
        """Return the first requests and their answers. Raises GeneratorError if too many answers
        are unusable.

        If the texts are scored once and too few answers differ, further requests follow at once.
        Otherwise stage enlarge would have to add texts without a score.
        """
        parts, public = self.parts(), inputs.public
        first, answers = self._corrected_answers(inputs)
        asked, needed = len(answers), parts.enlarger.ratio * public.texts
        texts = [answer.text for answer in answers if answer.text is not None]
        missing = min(needed - len(without_repeated_texts(texts)), asked)
        if not parts.scores_once or asked < needed or missing <= 0:
            return first, answers
        further = self.first_requests(inputs, count=asked + missing).map(
            lambda both: (both[0].take(np.arange(asked, asked + missing)), both[1][asked:])
        )
        answers += self._answers(inputs, further.map(lambda both: both[1]))
        return first.map(
            lambda both: (both[0].join(further.value[0]), both[1] + further.value[1])
        ), answers

    def _corrected_answers(self, inputs: MethodInputs) -> tuple[Requests, tuple[Answer, ...]]:
        """Return the first requests and their answers.

        The last requests, a share of `again`, are held back. If a text of the other requests
        contradicts its requested values, a new request for the same row of the table replaces one
        of them. So the values of the texts stay near the DP table. Contradicting texts are
        candidates, too.
        """
        public = inputs.public
        first = self.first_requests(inputs, count=None)
        targets, requests = first.value
        reader, count = inputs.tools.label_reader(), len(requests)
        shows_metadata = self.parts().start.prompts.shows_metadata
        # Rows of a table are in random order. Rows by label are not, and their counts are a quota.
        may_wait = shows_metadata and reader.reads and len(set(targets.labels.tolist())) == 1
        waiting = int(count * public.again) if may_wait else 0
        answers = self._answers(inputs, first.map(lambda both: both[1][: count - waiting]))
        if not waiting:
            return first, answers
        indices = np.array([i for i, a in enumerate(answers) if a.text is not None], dtype=int)
        codes = targets.codes[indices]
        labels = reader.read(
            [str(answers[i].text) for i in indices], codes, targets.values[indices]
        )
        missed = contradicted(
            codes,
            labels.codes,
            labels.confidence,
            bucket=[size - 1 for size in public.schema.domain.values()],
        )
        again = indices[missed][:waiting]
        kept, seed = count - len(again), seed_of(self._seed(inputs), "again")
        repeated = self._requests(targets.take(again), inputs, seed=seed) if len(again) else ()
        rows = targets.take(np.concatenate([np.arange(kept), again]))
        sent = first.map(lambda both: (rows, (*both[1][:kept], *repeated)))
        late = sent.map(lambda both: both[1][count - waiting :])
        return sent, answers + self._answers(inputs, late)

    def _answers(
        self, inputs: MethodInputs, requests: Released[tuple[Request, ...]]
    ) -> tuple[Answer, ...]:
        writer = inputs.tools.writer(f"initialise@{self.name}")
        return writer.write(requests, what="first texts").value

    def _requests(
        self, targets: Targets, inputs: MethodInputs, *, seed: int
    ) -> tuple[RandomRequest, ...]:
        public = inputs.public
        return first_requests(
            targets,
            schema=public.schema,
            prompts=self.parts().start.prompts,
            length=public.length,
            donated=public.donated,
            seed=seed,
            example_sets=public.example_sets,
            run_seed=self._seed(inputs),
        )

    def _seed(self, inputs: MethodInputs) -> int:
        return seed_of(inputs.public.seed, self.name)

    # Stage evolve

    def evolve(
        self, inputs: MethodInputs, first: Released[Population] | None, *, forced: bool
    ) -> FinalSet:
        """Score the first candidates once, or run all rounds. Finished scores are restored.

        Raises BudgetExceededError before a charge if the cap does not allow all of them.
        """
        if first is None:
            raise ParamsError(f"method {self.name} needs first candidates. Run stage initialise")
        parts = self.parts()
        with self._open_store(inputs, first.value, forced=forced) as store:
            if parts.scorer is None or not parts.draws:
                lineage = Lineage(final=first.value, usage=Usage(), ledger_ids=first.ledger_ids)
                return FinalSet(lineage=lineage, run=store.run)
            scorer = parts.scorer.for_schema(inputs.public.schema)
            scoring = Scoring(
                scorer=scorer,
                records=self._records(inputs, reads_codes=scorer.reads_codes),
                stddev=self._stddev(inputs),
                session=self._session(inputs, store.run),
                store=store,
                encode=inputs.tools.encode,
            )
            if parts.selector is None or parts.varier is None:
                return FinalSet(lineage=score_once(first, scoring=scoring), run=store.run)
            rounds = Rounds(
                number=parts.rounds,
                selector=parts.selector,
                varier=parts.varier,
                scoring=scoring,
                schema=inputs.public.schema,
                writer=inputs.tools.writer(f"evolve@{self.name}"),
                seed=self._seed(inputs),
                scores_first=parts.scores_first,
                say=lambda line: inputs.tools.report(f"evolve@{self.name}: {line}"),
            )
            return FinalSet(lineage=rounds.run(first), run=store.run)

    def _records(self, inputs: MethodInputs, *, reads_codes: bool) -> Private[Records]:
        embeddings = inputs.private.embeddings
        if not reads_codes:
            return embeddings.map_batch(Records.without_codes)
        codes = inputs.private.corpus.codes(inputs.public.schema.names)  # int64 part by part
        label = inputs.public.label_column
        return embeddings.zip_batch(
            codes,
            lambda vectors, table: Records(
                vectors, table.astype(np.int64), table[:, label].astype(np.int64)
            ),
        )

    def _stddev(self, inputs: MethodInputs) -> float | None:
        """Return the noise of the scores, or None without noise."""
        return inputs.private.budget.of(self.scores_name).stddev

    def _session(self, inputs: MethodInputs, run: str) -> PrivacySession:
        return inputs.private.session(stage=f"evolve@{self.name}", run=run)

    def _open_store(
        self, inputs: MethodInputs, first: Population | None, *, forced: bool
    ) -> AbstractContextManager[ResultStore]:
        """Open the store of the scores of `first` and of its variations."""
        assert first is not None
        key = self.cache_key(inputs, first)
        return inputs.private.open_store(f"evolve-{self.name}", key, forced=forced)

    def cache_key(self, inputs: MethodInputs, first: Population) -> dict[str, Any]:
        """Return all values that affect a score. If a value changes, new scores are drawn."""
        plan, public = inputs.private.budget, inputs.public
        stddev = plan.of(self.scores_name).stddev if plan.holds(self.scores_name) else None
        return {
            "version": versions.EVOLUTION,
            "method": self.name,
            **inputs.private.cache_key(),
            "first": first.frame(public.schema.names).to_json(orient="split"),
            "schema": public.schema.model_dump(mode="json"),
            "settings": self.model_dump(mode="json"),
            "parts": self._identity_of_parts(),
            "seed": public.seed,
            "generator": public.generator,
            "embedding": public.embedding,
            "label": public.label,
            "privacy": public.privacy.promise,
            "stddev": stddev,
        }

    def _identity_of_parts(self) -> dict[str, Any]:
        """Return the class and the fields of the parts that decide a score or a candidate."""
        parts = self.parts()
        every: dict[str, Any] = {
            "scorer": parts.scorer,
            "selector": parts.selector,
            "varier": parts.varier,
        }
        described = {name: _identity(part) for name, part in every.items() if part is not None}
        return described | {"version": self.version}

    # Stage enlarge

    def enlarge(self, inputs: MethodInputs, final: FinalSet) -> FinalSet:
        """Return the release of `inputs.public.texts` texts, without reading a record.

        Guarantee: post-processing of released values.
        """
        lineage, stage, public = final.lineage, f"enlarge@{self.name}", inputs.public
        enlarger = self.parts().enlarger
        survivors = len(lineage.final) if lineage.scored is None else 0
        count = max(public.texts, survivors if public.release.texts is None else 0)
        if public.mix is not None:
            return self._enlarge_to_mix(inputs, final, public.mix, count=public.texts)
        texts = enlarger.kept(lineage, count=count, rng=public_rng(public.seed, "enlarge"))
        missing = enlarger.ratio * count - len(texts)
        usage, ids = Usage(), lineage.ledger_ids
        if public.release.texts is None:  # the DP record count sets the number of texts
            ids = tuple(dict.fromkeys((*ids, *public.metadata.ledger_ids)))
        if missing > 0:
            seed = seed_of(public.seed, self.name, "enlarge")

            @cache
            def likely(known: Population = texts) -> tuple[str, ...]:
                half = max(len(known) // 2, 1)
                chosen = enlarger.choose(lineage, known, count=half, encode=inputs.tools.encode)
                return known.take(chosen).texts

            further = write_further(
                missing,
                self._batches(inputs, ids, seed=seed, most=missing, like=likely),
                unlike=texts.texts,
                writer=inputs.tools.writer(stage),
                what="further texts",
                donated=public.donated,
            )
            usage, ids = further.usage, further.ledger_ids
            texts = texts.join(_after(lineage, further.population))
        if enlarger.uses_scores and len(texts) == count:
            inputs.tools.report(
                f"{stage}: the scores choose nothing, because there are only {count:,} different "
                "texts for a release of as many. Set release.texts lower, or give the generator "
                "more to write from"
            )
        encode = inputs.tools.encode
        texts = texts.take(enlarger.choose(lineage, texts, count=count, encode=encode))
        if len(texts) < count:
            inputs.tools.report(
                f"{stage}: {count:,} texts were requested, but the release has only "
                f"{len(texts):,}: the generator wrote no more different texts. Set release.texts "
                "lower, add texts to the pool, or use another generator"
            )
        enlarged = replace(lineage, final=texts, usage=usage, ledger_ids=ids)
        return FinalSet(lineage=enlarged, run=digest_of(run=final.run, texts=count))

    def _enlarge_to_mix(
        self, inputs: MethodInputs, final: FinalSet, mix: Mix, *, count: int
    ) -> FinalSet:
        """Return a release with the chosen shares, as far as the generator writes the texts.

        Further texts are requested for the cells with too few texts, up to three times. The labels
        that are read from the texts decide their cells. Within a cell, the enlarger chooses.
        """
        lineage, public, enlarger = final.lineage, inputs.public, self.parts().enlarger
        quotas = apportion(mix.shares, total=count)
        everything = max(count, len(lineage.final))
        kept = enlarger.kept(lineage, count=everything, rng=public_rng(public.seed, "enlarge"))
        texts, usage = kept, Usage()
        ids = tuple(dict.fromkeys((*lineage.ledger_ids, *public.metadata.ledger_ids)))
        further: Population | None = None
        have = counts_of_cells(self._cells_of(texts, inputs, mix), len(quotas))
        short = np.maximum(enlarger.ratio * quotas - have, 0)
        chosen = np.empty(0, dtype=np.int64)
        for number in range(_TIMES_FOR_A_MIX):
            if short.any():
                asked = replace(public, asked=mix.with_shares(short))
                written = write_further(
                    int(short.sum()),
                    self._batches(
                        replace(inputs, public=asked),
                        ids,
                        seed=seed_of(public.seed, self.name, "enlarge", number),
                        most=0,
                        like=lambda: (),
                    ),
                    unlike=texts.texts,
                    writer=inputs.tools.writer(f"enlarge@{self.name}"),
                    what="further texts of the mix",
                    donated=public.donated,
                )
                usage, ids = _added(usage, written.usage), written.ledger_ids
                more = written.population
                further = more if further is None else further.join(more)
                texts = kept.join(_after(lineage, further))
            chosen, have = self._chosen_in_cells(texts, lineage, inputs, mix, quotas)
            short = quotas - have
            if not short.any():
                break
        if short.any():
            counts = counts_of_cells(self._cells_of(texts, inputs, mix), len(quotas))
            shares = mix.reachable(counts).shares
            quotas = np.minimum(apportion(shares, total=count), counts)
            chosen, _ = self._chosen_in_cells(texts, lineage, inputs, mix, quotas)
        if len(chosen) < count:
            inputs.tools.report(
                f"enlarge@{self.name}: the mix needs {count:,} texts, but the generator wrote only "
                f"{len(chosen):,} with its values. The release will be smaller"
            )
        enlarged = replace(lineage, final=texts.take(chosen), usage=usage, ledger_ids=ids)
        return FinalSet(
            lineage=enlarged, run=digest_of(run=final.run, texts=count, mix=public.release.mix)
        )

    def _chosen_in_cells(
        self,
        texts: Population,
        lineage: Lineage,
        inputs: MethodInputs,
        mix: Mix,
        quotas: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the indices of the chosen texts, and their number in each cell.

        Labels depend on all texts that are read together. So a text that is in another cell when
        the chosen texts are read alone is replaced.
        """
        cells = self._cells_of(texts, inputs, mix)
        for _ in range(_READINGS_FOR_A_MIX):
            chosen = np.sort(self._best_in_cells(texts, cells, lineage, inputs, quotas))
            moved = chosen[self._cells_of(texts.take(chosen), inputs, mix) != cells[chosen]]
            if not len(moved):
                break
            cells[moved] = -1
        chosen = chosen[cells[chosen] >= 0]
        return chosen, counts_of_cells(cells[chosen], len(quotas))

    def _best_in_cells(
        self,
        texts: Population,
        cells: NDArray[np.int64],
        lineage: Lineage,
        inputs: MethodInputs,
        quotas: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        chosen = [np.empty(0, dtype=np.int64)]
        for cell in np.flatnonzero(quotas):
            rows = np.flatnonzero(cells == cell)
            if len(rows):
                best = self.parts().enlarger.choose(
                    lineage,
                    texts.take(rows),
                    count=int(min(quotas[cell], len(rows))),
                    encode=inputs.tools.encode,
                )
                chosen.append(rows[best])
        return np.concatenate(chosen)

    def _cells_of(self, texts: Population, inputs: MethodInputs, mix: Mix) -> NDArray[np.int64]:
        """Return the cells of texts by their labels, or -1 also if the labels break a rule."""
        if not len(texts):
            return np.empty(0, dtype=np.int64)
        codes = inputs.tools.label_reader().read(texts.texts, texts.codes, texts.values).codes
        broken = broken_categories(inputs.public.schema, codes)
        return np.where(broken, -1, mix.cell_of(codes))

    def _batches(
        self,
        inputs: MethodInputs,
        ids: tuple[str, ...],
        *,
        seed: int,
        most: int,
        like: Callable[[], tuple[str, ...]],
    ) -> Callable[[int], Requests]:
        """Return a function that returns batch i of further requests, in random order.

        A pool repeats the texts near the donated examples. If the first `most` requests returned
        too few different texts, and the records scored some, each further request shows one of the
        texts `like()`, which have good scores. These requests name no attribute values.
        """
        uses_scores = self.parts().enlarger.uses_scores
        repeats = uses_scores and not inputs.tools.label_reader().requests_tell

        @cache
        def batch(number: int) -> Requests:
            batch_seed = seed_of(seed, number)
            targets = self._with_values(
                self.targets(inputs, count=BATCH, seed=batch_seed), inputs, seed=batch_seed
            )
            order = public_rng(batch_seed, "order").permutation(BATCH)
            # The order of a mix has the chosen shares in each part.
            has_mix = inputs.public.asked is not None
            mixed = targets.value if has_mix else targets.value.take(order)
            paid = tuple(dict.fromkeys((*ids, *targets.ledger_ids)))
            requests = self._requests(mixed, inputs, seed=batch_seed)
            late = max(most - number * BATCH, 0)
            if not repeats or has_mix or late >= BATCH or not (examples := like()):
                return Released((mixed, requests), paid)
            start = number * BATCH
            changed = (
                replace(
                    requests[i].without_attributes,
                    examples=(examples[(start + i) % len(examples)],),
                    example_attributes=(),
                )
                for i in range(late, BATCH)
            )
            return Released((mixed.open_from(late), (*requests[:late], *changed)), paid)

        return batch

    # The plan of requests

    def planned_calls(self, planning: Planning) -> tuple[PlannedCalls, ...]:
        parts = self.parts()
        request = self.longest_request(planning)
        candidates = parts.start.prompts.planned_count(
            planning.record_count, texts=planning.texts_setting
        )
        first = parts.first_count(candidates)
        batches: list[tuple[str, str, int, Request]] = [
            ("initialise", "first texts", first, request)
        ]
        kept = first
        if parts.varier is not None and parts.rounds:
            survivors = parts.survivor_count(candidates)
            calls, vary = survivors * parts.varier.copies, parts.varier.longest_request(request)
            for number in range(1 + parts.scores_first, parts.rounds + 1):
                batches.append(("evolve", f"round {number}", calls, vary))
            if parts.enlarger.uses_scores:
                kept = survivors * parts.candidates_per_text
        further = parts.enlarger.ratio * planning.texts - kept
        batches.append(("enlarge", "further texts", further, request))
        return tuple(
            PlannedCalls(stage=f"{stage}@{self.name}", what=what, calls=calls, request=longest)
            for stage, what, calls, longest in batches
            if calls > 0
        )

    def longest_request(self, planning: Planning) -> RandomRequest:
        """Return the longest first request that the settings and the donated examples allow."""
        prompts, schema = self.parts().start.prompts, planning.schema
        longest = [_longest(a) for a in schema.attributes] if prompts.shows_metadata else []
        examples = sorted(planning.donated, key=len, reverse=True) if prompts.shows_examples else []
        shape = schema.shape
        lengths = () if shape is None else shape.longest
        words = None if shape is None else shape.words_of(lengths)
        return RandomRequest(
            subject=schema.subject,
            style=schema.style,
            language=schema.language,
            attributes=tuple((name, value) for name, value, _ in longest),
            descriptions=tuple((name, described) for name, _, described in longest),
            examples=tuple(examples[: prompts.examples]),
            words=words or planning.length.longest,
            lengths=lengths,
        )


def _longest(attribute: Attribute) -> tuple[str, str, str]:
    """Return the name of an attribute and its value with the longest line in a prompt."""
    values = {value: value for value in attribute.domain}
    values[attribute.other] = ", ".join((attribute.other, *attribute.excluded))
    lines = [(shown, attribute.descriptions.get(value, "")) for value, shown in values.items()]
    return attribute.name, *max(lines, key=lambda line: len("".join(line)))


def _added(one: Usage, other: Usage) -> Usage:
    fields = {
        name: getattr(one, name) + value
        for name, value in vars(other).items()
        if name != "problems"
    }
    return Usage(**fields, problems=dict(Counter(one.problems) + Counter(other.problems)))


def _identity(part: Any) -> dict[str, Any]:
    fields = asdict(part) if is_dataclass(part) and not isinstance(part, type) else {}
    return {"class": f"{type(part).__module__}.{type(part).__qualname__}", **fields}


def _after(lineage: Lineage, further: Population) -> Population:
    """Give the further texts the next ids and the next round."""
    scored = [snapshot.population for snapshot in lineage.rounds]
    if lineage.scored is not None:
        scored.append(lineage.scored.population)
    start = 1 + max(int(texts.ids.max(initial=0)) for texts in (lineage.final, *scored))
    return replace(
        further,
        ids=start + np.arange(len(further), dtype=np.int64),
        parents=np.full(len(further), NO_PARENT, dtype=np.int64),
        rounds=np.full(len(further), len(lineage.rounds) + 1, dtype=np.int64),
    )
