"""Asks the generator for texts, and refuses a batch with too many unusable answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sugarbush.errors import GeneratorError
from sugarbush.generators.interface import Answer, Generator, Problem, Request, usage_of
from sugarbush.privacy.data_types import Released


@dataclass(frozen=True, kw_only=True)
class Writer:
    """The generator, and the largest fraction of unusable answers that is tolerated."""

    generator: Generator
    max_dropped_share: float

    def write(
        self, requests: Released[tuple[Request, ...]], *, what: str
    ) -> Released[tuple[Answer, ...]]:
        """Return the answers in order, with the ledger ids of the requests and of the generator.

        Raises GeneratorError as in `require_usable`.
        """
        if not requests.value:
            return Released((), requests.ledger_ids)
        answers = self.generator.generate(requests, what=what)
        self.require_usable(answers.value, requested=len(requests.value), what=what)
        return answers

    def with_released(self, **numbers: Released[Any]) -> Writer:
        """Return a writer whose generator uses released numbers (`Generator.with_released`)."""
        return replace(self, generator=self.generator.with_released(**numbers))

    def require_usable(self, answers: Sequence[Answer], *, requested: int, what: str) -> None:
        """Raise GeneratorError if too many answers are missing or unusable.

        One unusable answer among several is always tolerated, unless `max_dropped_share` is 0.
        """
        dropped = sum(answer.text is None for answer in answers)
        allowance = min(1, len(answers) - 1) if self.max_dropped_share else 0
        if len(answers) != requested or dropped > max(
            allowance, self.max_dropped_share * len(answers)
        ):
            kinds = ", ".join(f"{k}: {n}" for k, n in usage_of(answers).problems.items())
            raise GeneratorError(
                f"{what}: {requested} texts requested, {len(answers) - dropped} usable"
                f"{' (' + kinds + ')' if kinds else ''}. The missing fraction is above "
                f"generator.max_dropped_share={self.max_dropped_share:g}. " + _advice(answers)
            )


def _advice(answers: Sequence[Answer]) -> str:
    """Return advice. A new run repeats failed calls only, because unusable answers are cached."""
    if all(a.problem is Problem.FAILED for a in answers if a.text is None):
        return "To continue, run again. Received answers are cached."
    return (
        "Answers are cached, so the same settings return the same answers. Change the generator's "
        "model, max_tokens or seed, or raise max_dropped_share."
    )
