"""Groups prompts by the beginning that they share, so that it is computed or paid once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class SharedPrefix:
    """The beginning of a prompt that it shares with its group.

    `length` counts its elements, and is 0 without a group. `leader` is the index of the group's
    first prompt, which has the same beginning.
    """

    length: int
    leader: int


@dataclass
class _Neighbours:
    """Prompts that are neighbours in sorted order and share `length` elements."""

    length: int
    size: int = 0
    saved: int = 0
    groups: list[tuple[list[int], int]] = field(default_factory=list)

    def add(self, part: _Neighbours) -> None:
        self.size += part.size
        self.saved += part.saved
        self.groups += part.groups

    def closed(self) -> _Neighbours:
        """Make one group of all prompts if this saves more than the groups inside."""
        whole = (self.size - 1) * self.length
        if whole > 0 and whole >= self.saved:
            members = [index for indices, _ in self.groups for index in indices]
            self.saved, self.groups = whole, [(members, self.length)]
        return self


def shared_prefixes(prompts: Sequence[Sequence[Any]]) -> list[SharedPrefix]:
    """Divide prompts (texts or token ids) into groups that share a beginning.

    A group of n prompts with a common beginning of p elements saves (n - 1) p elements. All prompts
    with a common beginning are one group if this saves at least as much as their division by longer
    beginnings. At least the last element of a prompt is not shared.

    >>> [(each.length, each.leader) for each in shared_prefixes(["abcx", "q", "abcy", "abcz"])]
    [(3, 0), (0, 1), (3, 0), (3, 0)]
    """
    order: Any = sorted(range(len(prompts)), key=lambda index: (prompts[index], index))
    open_runs: list[_Neighbours] = []  # each shares more than the run before it
    for position, index in enumerate(order):
        common = _common(prompts[index], prompts[order[position + 1]]) if index != order[-1] else -1
        part = _Neighbours(length=len(prompts[index]), size=1, groups=[([index], 0)])
        while open_runs and open_runs[-1].length > common:
            open_runs[-1].add(part)
            part = open_runs.pop().closed()
        if not open_runs or open_runs[-1].length < common:
            open_runs.append(_Neighbours(length=common))
        open_runs[-1].add(part)
    prefixes = [SharedPrefix(length=0, leader=index) for index in range(len(prompts))]
    for members, length in open_runs[0].groups if open_runs else ():
        for index in members:
            prefixes[index] = SharedPrefix(length=length, leader=min(members))
    return prefixes


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the number of first elements that are equal, without the last element of each."""
    low, high = 0, max(min(len(one), len(other)) - 1, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
