"""Gives every request the shape of a record, and parses every answer.

A generator is opened through `in_shape`, so no answer of any generator is used unparsed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sugarbush.data.shapes.interface import Shape, ShapeError
from sugarbush.generators.interface import (
    Answer,
    Generator,
    Problem,
    Request,
    released_requests,
)
from sugarbush.privacy.data_types import Released


def in_shape(generator: Generator, shape: Shape | None) -> Generator:
    """Return a generator whose texts are canonical texts of `shape`. None means any text."""
    return generator if shape is None else _Shaped(generator, shape)


def requests_in_shape(requests: Iterable[Request], shape: Shape | None) -> tuple[Request, ...]:
    """Return the requests with the shape that their texts must have."""
    return tuple(replace(request, shape=shape) for request in requests)


class _Shaped(Generator):
    """Parses the answers of another generator. An answer without the shape has a problem."""

    def __init__(self, generator: Generator, shape: Shape) -> None:
        self._generator, self._shape = generator, shape

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        released_requests(requests)
        asked = requests.map(lambda each: requests_in_shape(each, self._shape))
        answers = self._generator.generate(asked, what=what)
        return answers.map(lambda each: tuple(map(self._parsed, each)))

    def with_released(self, **numbers: Released[Any]) -> Generator:
        return _Shaped(self._generator.with_released(**numbers), self._shape)

    def _parsed(self, answer: Answer) -> Answer:
        if answer.text is None:
            return answer
        try:
            return replace(answer, text=self._shape.of_answer(answer.text))
        except ShapeError:
            return replace(answer, text=None, problem=Problem.WRONG_FORM)
