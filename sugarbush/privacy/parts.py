"""Private elements in parts. This process or a worker of a cluster reads and processes a part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Function = Callable[[Any], Any]
Combine = Callable[[Any, Any], Any]


class MapParts(Protocol):
    """Calls a function on every part, here or on a cluster. Combines the results in any order."""

    def __call__(self, function: Function, parts: Sequence[Any], combine: Combine) -> Any: ...


def map_parts(function: Function, parts: Sequence[Any], combine: Combine) -> Any:
    """Call `function` on every part in this process, and combine the results.

    >>> map_parts(abs, [3, -4], int.__add__)
    7
    """
    return reduce(combine, map(function, parts))


def select(elements: Any, chosen: NDArray[np.bool_]) -> Any:
    """Return the elements for which `chosen` (n,) is true, as an array or a list.

    >>> select(["a", "b", "c"], np.array([True, False, True]))
    ['a', 'c']
    """
    if not isinstance(elements, (list, tuple)):  # an array, or a batch that is indexed like one
        return elements[chosen]
    return [element for element, keep in zip(elements, chosen, strict=True) if keep]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Elements in parts. `read` returns the elements of a part, and `sizes` their numbers.

    `parts` are small values that can be pickled, such as paths. `keep` is an object that the parts
    need, such as a temporary folder.
    """

    parts: tuple[Any, ...]
    sizes: tuple[int, ...]
    read: Callable[[Any], Any]
    map_parts: MapParts
    keep: Any = None

    def __len__(self) -> int:
        return sum(self.sizes)

    def then(self, function: Callable[[Any], Any]) -> Parts:
        """Apply `function` to the elements of each part when the part is read."""
        read = self.read

        def read_mapped(part: Any) -> Any:
            elements = read(part)
            mapped = function(elements)
            if len(mapped) != len(elements):
                raise ValueError("map_batch: the function did not return one element per unit")
            return mapped

        return replace(self, read=read_mapped)

    def zipped(self, other: Any, function: Callable[[Any, Any], Any]) -> Parts:
        """Apply `function` to the elements of each part and the elements of `other` beside them."""
        ends = np.cumsum(self.sizes)
        slices = [
            _Slice(other[end - size : end]) for end, size in zip(ends, self.sizes, strict=True)
        ]
        read = self.read

        def read_zipped(part: tuple[Any, _Slice]) -> Any:
            return function(read(part[0]), part[1].elements)

        return replace(self, parts=tuple(zip(self.parts, slices, strict=True)), read=read_zipped)

    def selected(self, chosen: NDArray[np.bool_]) -> Parts:
        """Keep the elements for which `chosen` (n,) is true."""
        ends = np.cumsum(self.sizes, dtype=np.int64)
        slices = [chosen[end - size : end] for end, size in zip(ends, self.sizes, strict=True)]
        read = self.read

        def read_selected(part: tuple[Any, _Slice]) -> Any:
            return select(read(part[0]), part[1].elements)

        return replace(
            self,
            parts=tuple(zip(self.parts, map(_Slice, slices), strict=True)),
            sizes=tuple(int(each.sum()) for each in slices),
            read=read_selected,
        )

    def elements(self) -> Iterator[Any]:
        """Read the parts here, in order, and yield every element."""
        for part in self.parts:
            yield from self.read(part)

    def total(self, function: Callable[[Any], NDArray[np.int64]]) -> NDArray[np.int64]:
        read = self.read
        total: NDArray[np.int64] = self.map_parts(
            lambda part: function(read(part)), self.parts, np.add
        )
        return total


class _Slice:
    """Private elements inside a part. A cluster may log the `repr`, so it shows no element."""

    def __init__(self, elements: Any) -> None:
        self.elements = elements

    def __repr__(self) -> str:
        return "Private(...)"
