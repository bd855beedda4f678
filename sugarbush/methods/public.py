"""A baseline with epsilon 0, because it uses no private data. Useful methods must be better."""

from __future__ import annotations

from typing import ClassVar

from sugarbush.evolution.settings import PromptContent
from sugarbush.methods.evolving import EvolvingMethod
from sugarbush.settings import AtLeastOne, Count


class Public(EvolvingMethod):
    """The method `augpe` without labels and votes.

    >>> Public(candidates=100).share_requests()
    ()
    """

    name: ClassVar[str] = "public"
    votes_with_noise: ClassVar[bool] = False

    prompt: PromptContent = PromptContent.INDEPENDENT
    examples: Count = 0
    candidates: AtLeastOne | None = 500
    rounds: Count = 0
    variations: AtLeastOne = 1
