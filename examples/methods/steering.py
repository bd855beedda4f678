"""Steers a local language model by one noisy sum of activation differences.

The vector is computed in these steps:

1. The model reads each record after the prompt of a request (`ActivationReader`).
2. The mean for the model's own texts is subtracted.
3. Each layer is divided by the median distance of the model's own texts from their mean.
4. All layers together are clipped to norm 1 and written as integers in units of 1/2^20.
5. The rows of all records are added up, and the sum gets noise.

The steering uses only the direction of each layer, so it needs no number of records.

The method `steered` asks the local model of the generator twice: for texts of its own, and for the
release with the vector added to its hidden states.

Guarantee: one discrete Gaussian mechanism of L2 sensitivity 2^20 for one record. The centre and the
scale come from texts of the model. The texts of the steered generator have the id of the charge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import sugarbush as sb
from sugarbush import extend
from sugarbush.generators import ActivationReader, Generator

ONE = 2**20
_SUM = "steering:steered"
_STAGE = "evolve@steered"
_REMARK = (
    "The sum for steering assumes that the activations of a record do not depend on other records. "
    "They are computed in float32, in passes of one shape."
)


class Steered(extend.OneStageMethod):
    """Writes texts with a local language model that is steered towards the records.

    The generator must be `sb.HuggingFace(model=...)` with the same model.

    >>> [request.record_l2_sensitivity for request in Steered(model="gpt2").budget_requests()]
    [1048576]
    """

    name: ClassVar[str] = "steered"

    model: str = "gpt2"
    """The model of the generator, by name or path."""
    layers: tuple[int, ...] = (0, 1)
    """Layers whose hidden states are shifted."""
    alpha: float = 0.5
    """Length of the vector, in distances of the model's own texts from their mean."""
    own_texts: extend.AtLeastOne = 64
    """Number of texts without steering, for the centre and the scale."""

    @property
    def facts(self) -> extend.MethodFacts:
        settings = self.model_dump(mode="json") | {"model": self.model.rpartition("/")[2]}
        return extend.MethodFacts(
            asks_generator=True, reads_codes=False, card_settings=settings, remarks=(_REMARK,)
        )

    def budget_requests(self) -> tuple[extend.BudgetRequest, ...]:
        return (extend.BudgetRequest(name=_SUM, count=1, record_l2_sensitivity=ONE),)

    def planned_calls(self, planning: extend.Planning) -> tuple[extend.PlannedCalls, ...]:
        request = extend.RandomRequest(
            subject=planning.schema.subject, words=planning.length.longest
        )
        batches = (("own texts", self.own_texts), ("texts", planning.texts))
        return tuple(
            extend.PlannedCalls(stage=_STAGE, what=what, calls=calls, request=request)
            for what, calls in batches
        )

    def evolve(
        self,
        inputs: extend.MethodInputs,
        first: sb.Released[extend.Population] | None,
        *,
        forced: bool,
    ) -> extend.FinalSet:
        private, public, writer = inputs.private, inputs.public, inputs.tools.writer(_STAGE)
        settings, stddev = sb.HuggingFace(model=self.model), private.budget.of(_SUM).stddev
        reader = ActivationReader(settings, self.layers, prompt=f"{public.schema.subject}:")
        # A generator that cannot be steered is refused here, before any cost.
        zeros = dict.fromkeys(self.layers, np.zeros(reader.read([]).shape[2], np.float32))
        writer.with_released(steering=sb.Released(zeros))
        asked = sb.Released(self._requests(public, self.own_texts, "own"))
        own = [str(a.text) for a in writer.write(asked, what="own texts").value if a.text]
        key = {
            "version": 1,
            **private.cache_key(),
            "settings": self.model_dump(mode="json"),
            "generator": public.generator,
            "length": public.length.model_dump(mode="json"),
            "seed": public.seed,
            "privacy": public.privacy.promise,
            "stddev": stddev,
        }
        centre, scale = own_states(own, reader)
        with private.open_store("evolve-steered", key, forced=forced) as store:

            def draw() -> sb.Released[NDArray[np.int64]]:
                texts = private.corpus.records().map_batch(lambda records: records.texts)
                session = private.session(stage=_STAGE, run=store.run)
                return noisy_direction(texts, reader, centre, scale, stddev=stddev, session=session)

            total = store.array("direction", draw)
        direction = Direction(layers=self.layers, total=total, scale=scale)
        steered_writer = writer.with_released(steering=direction.vectors(self.alpha))
        requests = sb.Released(self._requests(public, public.texts, "steered"))
        answers = steered_writer.write(requests, what="texts")
        texts = [str(answer.text) for answer in answers.value if answer.text is not None]
        codes = np.full((len(texts), len(public.schema.names)), -1)
        lineage = extend.Lineage(
            final=extend.Population.first(texts, codes=codes),
            usage=extend.usage_of(answers.value),
            ledger_ids=answers.ledger_ids,
        )
        return extend.FinalSet(lineage=lineage, run=store.run)

    def _requests(
        self, public: extend.PublicInputs, count: int, what: str
    ) -> tuple[extend.Request, ...]:
        return tuple(
            extend.RandomRequest(
                subject=public.schema.subject,
                words=public.length.of(i),
                sample=extend.seed_of(public.seed, what, i) >> 1,
            )
            for i in range(count)
        )


@dataclass(frozen=True, kw_only=True)
class Direction:
    """The noisy sum (l * h,) of all records after `layers` (l,), and the public scale (l,)."""

    layers: tuple[int, ...]
    total: sb.Released[NDArray[np.int64]]
    scale: NDArray[np.float32]

    def vectors(self, alpha: float) -> sb.Released[dict[int, NDArray[np.float32]]]:
        """Return a vector of length `alpha` times the scale for each layer."""

        def by_layer(total: NDArray[Any]) -> dict[int, NDArray[np.float32]]:
            rows = scaled(total, self.scale, alpha=alpha)
            return dict(zip(self.layers, rows, strict=True))

        return self.total.map(by_layer)


def steered(
    generator: Generator,
    texts: sb.Private[str],
    own_texts: Sequence[str],
    reader: ActivationReader,
    *,
    layers: Sequence[int],
    alpha: float,
    stddev: float,
    session: sb.PrivacySession,
) -> Generator:
    """Return `generator`, steered towards `texts`. The guarantee is that of `learn`."""
    direction = learn(texts, own_texts, reader, layers=layers, stddev=stddev, session=session)
    return generator.with_released(steering=direction.vectors(alpha))


def learn(
    texts: sb.Private[str],
    own_texts: Sequence[str],
    reader: ActivationReader,
    *,
    layers: Sequence[int],
    stddev: float,
    session: sb.PrivacySession,
) -> Direction:
    """Return the direction from the model's `own_texts`, public or released, to `texts`.

    Guarantee: one `noisy_sum` with noise `stddev` and L2 sensitivity ONE for one record. Raises
    BudgetExceededError before the draw.
    """
    centre, scale = own_states(own_texts, reader)
    total = noisy_direction(texts, reader, centre, scale, stddev=stddev, session=session)
    return Direction(layers=tuple(layers), total=total, scale=scale)


def own_states(
    own_texts: Sequence[str], reader: ActivationReader
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the mean (l, h) of the states of the model's own texts, and their spread (l,)."""
    own = reader.read(own_texts)
    centre = own.mean(axis=0)
    return centre, np.median(np.linalg.norm(own - centre, axis=-1), axis=0)


def noisy_direction(
    texts: sb.Private[str],
    reader: ActivationReader,
    centre: NDArray[np.float32],
    scale: NDArray[np.float32],
    *,
    stddev: float,
    session: sb.PrivacySession,
) -> sb.Released[NDArray[np.int64]]:
    """Return the noisy sum (l * h,) of what the records add. The guarantee is that of `learn`."""
    return extend.noisy_sum(
        texts.map_batch(lambda batch: contributions(reader.read(batch), centre, scale)),
        scores=lambda block: [block],
        size=centre.size,
        record_l2_sensitivity=ONE,
        stddev=stddev,
        session=session,
    )


def contributions(
    private: NDArray[np.float32], centre: NDArray[np.float32], scale: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Return one row per record, (n, l * h), of L2 norm at most ONE, rounded towards 0."""
    rows = ((private - centre) / scale[:, None]).astype(np.float64).reshape(len(private), -1)
    rows /= np.sqrt(private.shape[1])
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    return np.trunc(rows * ONE).astype(np.int64)


def scaled(
    direction: NDArray[Any], scale: NDArray[np.float32], *, alpha: float
) -> NDArray[np.float32]:
    """Return vectors (l, h) of length `alpha` times `scale` (l,) in the directions (l * h,)."""
    rows = np.asarray(direction, dtype=np.float64).reshape(len(scale), -1)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(alpha * scale[:, None] * rows, dtype=np.float32)
