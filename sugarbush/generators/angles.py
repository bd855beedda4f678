"""Public angles for prompts that would otherwise be alike.

A language model repeats itself if its prompts say the same. Each prompt without examples therefore
names one kind of case and one kind of writer. Both fit any subject, need no data and are drawn by
the request's public sample. They say nothing about mood or form, which attributes and the schema's
style decide. Without entries in CASES, no prompt has an angle.
"""

from __future__ import annotations

from typing import Final

from sugarbush.randomness import public_rng

CASES: Final[tuple[str, ...]] = (
    "an everyday case",
    "a case that is rarer than most",
    "a very particular case, with a detail that only its writer would know",
    "a case that few would think of first",
    "a simple case",
    "a case with several sides",
    "a case of another place or time than the first that comes to mind",
    "the most typical case",
)
WRITERS: Final[tuple[str, ...]] = (
    "somebody in a hurry",
    "somebody careful",
    "somebody with long experience of such texts",
    "somebody who writes such a text for the first time",
    "somebody who comes to the point at once",
    "somebody who likes plain words",
)


def angle_of(sample: int) -> str:
    """Return the angle of a request with this sample, or "" without angles.

    >>> angle_of(3)
    'an everyday case, as somebody in a hurry would'
    """
    if not CASES:
        return ""
    rng = public_rng(sample, "angle")
    case, writer = (some[int(rng.integers(len(some)))] for some in (CASES, WRITERS))
    return f"{case}, as {writer} would"


def longest_angle() -> str:
    """Return the longest angle, for a plan of prompts."""
    return f"{max(CASES, key=len)}, as {max(WRITERS, key=len)} would" if CASES else ""
