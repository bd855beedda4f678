"""Private elements in shards. This process or a worker of a cluster reads and processes a shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Function = Callable[[Any], Any]
Combine = Callable[[Any, Any], Any]


class MapShards(Protocol):
    """Calls a function on every shard, here or on a cluster. Combines the results in any order."""

    def __call__(self, function: Function, shards: Sequence[Any], combine: Combine) -> Any: ...


def map_shards(function: Function, shards: Sequence[Any], combine: Combine) -> Any:
    """Call `function` on every shard in this process, and combine the results.

    >>> map_shards(abs, [3, -4], int.__add__)
    7
    """
    return reduce(combine, map(function, shards))


def select(elements: Any, chosen: NDArray[np.bool_]) -> Any:
    """Return the elements for which `chosen` (n,) is true, as an array or a list.

    >>> select(["a", "b", "c"], np.array([True, False, True]))
    ['a', 'c']
    """
    if not isinstance(elements, (list, tuple)):  # an array, or a batch that is indexed like one
        return elements[chosen]
    return [element for element, keep in zip(elements, chosen, strict=True) if keep]


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Elements in shards. `read` returns the elements of a shard, and `sizes` their numbers.

    `shards` are small values that can be pickled, such as paths. `keep` is an object that the
    shards need, such as a temporary folder.
    """

    shards: tuple[Any, ...]
    sizes: tuple[int, ...]
    read: Callable[[Any], Any]
    map_shards: MapShards
    keep: Any = None

    def __len__(self) -> int:
        return sum(self.sizes)

    def then(self, function: Callable[[Any], Any]) -> Shards:
        """Apply `function` to the elements of each shard when the shard is read."""
        read = self.read

        def read_mapped(shard: Any) -> Any:
            elements = read(shard)
            mapped = function(elements)
            if len(mapped) != len(elements):
                raise ValueError("map_batch: the function did not return one element per unit")
            return mapped

        return replace(self, read=read_mapped)

    def zipped(self, other: Any, function: Callable[[Any, Any], Any]) -> Shards:
        """Apply `function` to the elements of each shard and the elements of `other` beside
        them."""
        ends = np.cumsum(self.sizes)
        slices = [
            _Slice(other[end - size : end]) for end, size in zip(ends, self.sizes, strict=True)
        ]
        read = self.read

        def read_zipped(shard: tuple[Any, _Slice]) -> Any:
            return function(read(shard[0]), shard[1].elements)

        return replace(self, shards=tuple(zip(self.shards, slices, strict=True)), read=read_zipped)

    def selected(self, chosen: NDArray[np.bool_]) -> Shards:
        """Keep the elements for which `chosen` (n,) is true."""
        ends = np.cumsum(self.sizes, dtype=np.int64)
        slices = [chosen[end - size : end] for end, size in zip(ends, self.sizes, strict=True)]
        read = self.read

        def read_selected(shard: tuple[Any, _Slice]) -> Any:
            return select(read(shard[0]), shard[1].elements)

        return replace(
            self,
            shards=tuple(zip(self.shards, map(_Slice, slices), strict=True)),
            sizes=tuple(int(each.sum()) for each in slices),
            read=read_selected,
        )

    def elements(self) -> Iterator[Any]:
        """Read the shards here, in order, and yield every element."""
        for shard in self.shards:
            yield from self.read(shard)

    def total(self, function: Callable[[Any], NDArray[np.int64]]) -> NDArray[np.int64]:
        read = self.read
        total: NDArray[np.int64] = self.map_shards(
            lambda shard: function(read(shard)), self.shards, np.add
        )
        return total


class _Slice:
    """Private elements inside a shard. A cluster may log the `repr`, so it shows no element."""

    def __init__(self, elements: Any) -> None:
        self.elements = elements

    def __repr__(self) -> str:
        return "Private(...)"
