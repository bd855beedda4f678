"""The requests for the first candidates (RANDOM_API).

`augpe` uses DP label counts. `maple` uses rows of the DP table and donated examples. `public` uses
no data. All values here are public or post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.drawn_values import broken_categories
from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError
from sugarbush.evolution.population import NO_CODE, Population
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import FirstLength, PromptContent
from sugarbush.evolution.targets import Donated, Targets
from sugarbush.generators.examples import choose_examples, draw_example_sets, nearest_sets
from sugarbush.generators.interface import Answer, Attributes, RandomRequest, Request
from sugarbush.randomness import public_rng, seed_of


def first_requests(
    targets: Targets,
    *,
    schema: Schema,
    prompts: Prompts,
    length: FirstLength,
    donated: Donated | None,
    seed: int,
    run_seed: int,
    example_sets: int = 0,
) -> tuple[RandomRequest, ...]:
    """Make one RANDOM_API request per target. `prompts.content` decides the content of the request.
    The lengths that the schema requests for the parts of a text come before `length`.

    Each request has the donated examples that are nearest to its target. With `example_sets`, it
    has the nearest of this number of sets, which `run_seed` draws, so that the prompts of a run
    share their beginning. An example shows no values if they break a rule. Raises
    ParamsError if the donated examples for the prompt are missing.
    """
    if prompts.shows_examples and (donated is None or not donated.texts):
        raise ParamsError(
            f"prompt: {prompts.content} shows donated examples. Set prepare.donated, or choose "
            "prompt: metadata"
        )
    example_texts: list[tuple[str, ...]] = [()] * len(targets.labels)
    attributes_of_examples: list[tuple[Attributes, ...]] = [()] * len(targets.labels)
    if prompts.shows_examples and donated is not None:
        shows_metadata = prompts.content is PromptContent.BOTH
        # Without metadata, the examples do not depend on codes, because all codes are equal.
        codes = donated.codes if shows_metadata else np.zeros_like(donated.codes)
        k, near = prompts.examples, public_rng(seed, "near")
        if example_sets:
            drawing = public_rng(run_seed, "example sets")
            sets = draw_example_sets(codes, count=example_sets, k=k, rng=drawing)
            indices = sets[nearest_sets(targets.codes, codes, sets, rng=near)]
        else:
            indices = choose_examples(targets.codes, codes, k=k, rng=near)
        example_texts = [tuple(donated.texts[i] for i in row) for row in indices]
        if shows_metadata:
            broken = broken_categories(schema, donated.codes)
            of_each = [
                () if breaks else _attributes(row, schema)
                for row, breaks in zip(donated.codes, broken.tolist(), strict=True)
            ]
            attributes_of_examples = [tuple(of_each[i] for i in row) for row in indices]
    shape = schema.shape
    samples = [seed_of(seed, "first", i) >> 1 for i in range(len(targets.labels))]
    lengths = [
        ()
        if shape is None
        else shape.lengths_for(shape.draw_lengths(sample), _numbers(row, schema, values))
        for sample, row, values in zip(samples, targets.codes, targets.values, strict=True)
    ]
    words = [None if shape is None else shape.words_of(drawn) for drawn in lengths]
    return tuple(
        RandomRequest(
            subject=schema.subject,
            style=schema.style,
            language=schema.language,
            **(_requested(row, schema, values) if prompts.shows_metadata else {}),
            examples=examples,
            example_attributes=attributes,
            words=words[i] or _words(samples[i], row, schema, length),
            lengths=lengths[i],
            sample=samples[i],
        )
        for i, (row, values, examples, attributes) in enumerate(
            zip(targets.codes, targets.values, example_texts, attributes_of_examples, strict=True)
        )
    )


def contradicted(
    requested: NDArray[np.int64],
    read: NDArray[np.int64],
    confidence: NDArray[np.float64],
    *,
    bucket: Sequence[int],
) -> NDArray[np.bool_]:
    """Return for each text whether it more likely than not lacks a requested value, `(n,)`.

    `requested` and `read` (n, d) are codes, and `confidence` (n, d) the probability of `read`.
    `bucket` (d,) are the codes of `other`, which no prompt requests.

    >>> contradicted(np.array([[0], [0], [1]]), np.array([[0], [1], [1]]), np.ones((3, 1)),
    ...              bucket=[2]).tolist()
    [False, True, False]
    """
    asked = (requested != NO_CODE) & (requested != np.asarray(bucket))
    return np.asarray((asked & (read != requested) & (confidence >= 0.5)).any(axis=1))


def first_population(
    targets: Targets,
    answers: Sequence[Answer],
    *,
    requests: Sequence[Request] = (),
    donated: Donated | None = None,
) -> Population:
    """Return the usable answers as candidates of round 0.

    With `requests` and `donated`, the candidates have the indices of their examples.
    """
    kept = np.array([i for i, answer in enumerate(answers) if answer.text is not None], dtype=int)
    index_by_text = {text: i for i, text in enumerate(donated.texts if donated else ())}
    example_texts = [requests[i].examples if donated and requests else () for i in kept]
    return Population.first(
        [str(answers[i].text) for i in kept],
        codes=targets.codes[kept],
        labels=targets.labels[kept],
        values=targets.values[kept],
        examples=tuple(
            tuple(index_by_text[text] for text in texts if text in index_by_text)
            for texts in example_texts
        ),
    )


def _attributes(
    row: NDArray[np.int64], schema: Schema, values: NDArray[np.float64] | None = None
) -> Attributes:
    """Return name and value of each requested attribute, except the value `other`.

    An attribute with a number or a date in `values` has this value, not its bin. Otherwise the text
    would say another number than the released row.
    """
    return tuple(
        (
            attribute.name,
            attribute.domain[code]
            if values is None or attribute.quantity is None or np.isnan(values[place])
            else attribute.quantity.spelled(float(values[place])),
        )
        for place, (attribute, code) in enumerate(zip(schema.attributes, row, strict=True))
        if code != NO_CODE and code != len(attribute.domain) - 1
    )


def _requested(
    row: NDArray[np.int64], schema: Schema, values: NDArray[np.float64]
) -> dict[str, Any]:
    """Return the fields of a request about attributes: values, descriptions, and what is open."""
    described, unlisted, unrequested = [], [], []
    for attribute, code in zip(schema.attributes, row, strict=True):
        value = "" if code == NO_CODE else attribute.domain[code]
        description = attribute.descriptions.get(value)
        is_said = value != attribute.other or attribute.excluded or description
        is_open = code == NO_CODE or not is_said
        if is_open:
            unrequested.append(attribute.name)
        elif value == attribute.other:
            unlisted.append((attribute.name, attribute.excluded))
        if description and not is_open:
            described.append((attribute.name, description))
    return {
        "attributes": _attributes(row, schema, values),
        "descriptions": tuple(described),
        "unlisted": tuple(unlisted),
        "unrequested": tuple(unrequested),
    }


def _numbers(
    row: NDArray[np.int64], schema: Schema, values: NDArray[np.float64]
) -> dict[str, float]:
    """Return the requested numbers by the column of their attribute."""
    numbers: dict[str, float] = {}
    for attribute, code, value in zip(schema.attributes, row, values, strict=True):
        if attribute.column is None:
            continue
        if not np.isnan(value):
            numbers[attribute.column] = float(value)
        elif attribute.numbers is not None and 0 <= code < len(attribute.numbers):
            numbers[attribute.column] = attribute.numbers[code]
    return numbers


def _words(sample: int, row: NDArray[np.int64], schema: Schema, length: FirstLength) -> int | None:
    share = public_rng(sample, "length").random()
    if length.attribute is None or length.words_by_value is None:
        return length.of(share)
    attribute = schema.attribute(length.attribute)
    code = row[schema.names.index(length.attribute)]
    return length.of(share, attribute.domain[code] if code != NO_CODE else attribute.other)
