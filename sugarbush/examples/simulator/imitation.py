"""Writes a text with the structure of one example, sentences of other examples, and new identities.

The turns, openings and jargon come only from the examples in the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from sugarbush.examples.simulator.context import TextContext
from sugarbush.examples.simulator.insertion import insert_targets, is_dialogue
from sugarbush.examples.simulator.knowledge import SPOKEN_CHANNELS, AttributeKind, shown_values
from sugarbush.examples.simulator.rewording import IdentityReplacer, reword
from sugarbush.examples.simulator.targets import Target
from sugarbush.examples.simulator.utterances import Importance, Utterance, parse, role_of

_CONTENT = (AttributeKind.PRODUCT, AttributeKind.ISSUE)
# A sentence may replace another sentence if their relative positions differ by less than this.
_NEAR = 0.15
_MIXING_RATE = 0.55
_REWORDING_RATE = 0.15


@dataclass(frozen=True)
class PlacedUtterance:
    """An utterance, with the number of utterances before and after it in the text."""

    utterance: Utterance
    before: int
    after: int

    def is_like(self, other: PlacedUtterance) -> bool:
        """Return whether one utterance may replace the other, by speaker, position and form.

        The first two and the last two utterances of a text match only the same utterances of other
        texts.
        """
        here, there = (min(s.before, 2) - min(s.after, 2) for s in (self, other))
        share, other_share = (s.before / max(s.before + s.after, 1) for s in (self, other))
        return (
            self.utterance.speaker == other.utterance.speaker
            and here == there
            and abs(share - other_share) < _NEAR
            and _shape(self.utterance.text) == _shape(other.utterance.text)
        )


class SourceSentences:
    """Contains sentences of some texts, which may replace sentences of another text."""

    def __init__(self, texts: Sequence[str], context: TextContext) -> None:
        self._placed = [placed for text in texts for placed in place_utterances(text)]
        self._context = context

    def replace(self, placed: PlacedUtterance, used: Sequence[Utterance]) -> Utterance | None:
        """Replace the text of `placed` by a sentence from a similar position. Return None if no
        sentence fits.

        The sentence must show all targets that `placed` shows.
        """
        targets = [t for t in self._context.targets if t.is_shown(placed.utterance.text)]
        text = self._choose(
            lambda source: (
                placed.is_like(source) and all(t.is_shown(source.utterance.text) for t in targets)
            ),
            used,
        )
        return None if text is None else replace(placed.utterance, text=text)

    def imitate(self, placed: PlacedUtterance, said: Sequence[Utterance]) -> list[Utterance]:
        """Replace or remove `placed`. `said` is the new text so far."""
        utterance, context = placed.utterance, self._context
        conflict = next((t for t in context.targets if t.conflicts(utterance.text)), None)
        if conflict is not None:
            return self._without_conflict(utterance, conflict, said)
        if (text := self._about_product(utterance, said)) is not None:
            return [replace(utterance, text=text)]
        if context.rng.chance(_MIXING_RATE):
            return [self.replace(placed, said) or utterance]
        return [utterance]

    def _without_conflict(
        self, utterance: Utterance, target: Target, said: Sequence[Utterance]
    ) -> list[Utterance]:
        """Replace an utterance that conflicts with `target` by an utterance that shows the target.

        The new text comes from a source. If no source fits and an earlier utterance shows the
        target, drop the utterance. Otherwise write the simulator's own sentence.
        """
        text = self._choose(
            lambda source: (
                source.utterance.speaker == utterance.speaker
                and target.is_shown(source.utterance.text)
                and (target.phrases.cues or len(source.utterance.text) <= len(utterance.text))
            ),
            said,
        )
        if text is None and any(target.is_shown(earlier.text) for earlier in said):
            return []
        if text is None:
            everybody = [utterance, *(source.utterance for source in self._placed)]
            text = self._context.say_target(target, role_of(utterance.speaker, everybody))
        return [replace(utterance, text=text, importance=Importance.REQUIRED)]

    def _about_product(self, utterance: Utterance, said: Sequence[Utterance]) -> str | None:
        target = self._context.target(AttributeKind.PRODUCT)
        if target is None or target.is_shown(utterance.text):
            return None
        if not shown_values(AttributeKind.PRODUCT, utterance.text):
            return None
        return self._choose(
            lambda source: (
                source.utterance.speaker == utterance.speaker
                and _shape(source.utterance.text) == _shape(utterance.text)
                and target.is_shown(source.utterance.text)
            ),
            said,
        )

    def _choose(
        self, fits: Callable[[PlacedUtterance], object], used: Sequence[Utterance]
    ) -> str | None:
        used_texts = {utterance.text for utterance in used}
        texts = [source.utterance.text for source in self._placed if fits(source)]
        fitting = [
            text
            for text in texts
            if text not in used_texts and not any(t.conflicts(text) for t in self._context.targets)
        ]
        return self._context.rng.choice(fitting) if fitting else None


def imitate(examples: Sequence[str], context: TextContext) -> list[Utterance]:
    """Write a text that shows the targets and looks like the nonempty `examples`."""
    rng = context.rng
    weights = [_weight(text, context.targets) for text in examples]
    chosen = rng.weighted_choice(range(len(examples)), weights)
    sources = SourceSentences([t for i, t in enumerate(examples) if i != chosen], context)
    utterances: list[Utterance] = []
    for placed in place_utterances(examples[chosen]):
        utterances += sources.imitate(placed, utterances)
    identities = IdentityReplacer(rng)
    for index, said in enumerate(utterances):
        text = reword(identities.apply(said.text), rng, rate=_REWORDING_RATE)
        utterances[index] = replace(said, text=text)
    return insert_targets(_with_importance(utterances), context, examples)


@lru_cache(maxsize=8192)
def place_utterances(text: str) -> tuple[PlacedUtterance, ...]:
    """Return the utterances of a text with their positions."""
    utterances = parse(text)
    last = len(utterances) - 1
    return tuple(PlacedUtterance(said, i, last - i) for i, said in enumerate(utterances))


def _weight(text: str, targets: Sequence[Target]) -> float:
    """Return the weight of an example in the choice of the structure.

    The weight is larger if the example shows targets and has the form of the target channel.
    """
    weight = 1.0
    for target in targets:
        if target.kind is AttributeKind.CHANNEL and target.listed_name is not None:
            spoken = is_dialogue([placed.utterance for placed in place_utterances(text)])
            weight *= 8.0 if spoken == (target.listed_name in SPOKEN_CHANNELS) else 1.0
        elif target.is_shown(text):
            weight *= 6.0 if target.kind in _CONTENT else 2.0
    return weight


def _with_importance(utterances: Sequence[Utterance]) -> list[Utterance]:
    """Turn steps into details, except the first and last utterance and utterances with a code."""
    ends = {0, len(utterances) - 1}
    return [
        replace(said, importance=Importance.DETAIL)
        if said.importance is Importance.STEP and i not in ends and not _shape(said.text)[1]
        else said
        for i, said in enumerate(utterances)
    ]


def _shape(text: str) -> tuple[bool, bool]:
    """Return whether the text is a question, and whether it contains a long number or code."""
    return text.rstrip().endswith("?"), sum(c.isdigit() for c in text) > 3
