"""The types of private and of released data.

`Private[T]` contains one element per privacy unit. The `repr` of a `Private` shows no content.
`Private` refuses pickling, comparison and iteration. `Private` also refuses `len`, because the
number of records is private. Only modules on the audit list may read `._per_unit`. The audit list
is in pyproject.toml: the per-file exceptions to ruff's SLF001.

`Released[T]` is a public value, or the result of a mechanism with the ids of its ledger entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError, ParamsError
from sugarbush.html_table import html_with_note
from sugarbush.privacy.shards import Shards, select

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


@dataclass(frozen=True, eq=False)
class Block:
    """Says which block of a partition a private value is. Two partitions have different blocks.

    A block contains nothing private. Its number comes from the code that made the partition.
    """

    partition: object
    number: int

    def __repr__(self) -> str:
        return f"block {self.number}"


class Private(Generic[T_co]):
    """Private elements, one per privacy unit. Only modules on the audit list may read an element.

    If the unit is a user, there is one element per record until `joined_by` makes one element per
    user.

    >>> ages = Private([34, 51, 29])
    >>> ages, ages.map_batch(lambda rows: [age // 10 for age in rows])
    (Private(...), Private(...))
    """

    __slots__ = ("_block", "_per_unit")

    def __init__(self, per_unit: Sequence[T_co] | Sized) -> None:
        self._per_unit: Any = per_unit
        self._block: Block | None = None

    @property
    def block(self) -> Block | None:
        """The block of a partition that contains all units of this value, or None."""
        return self._block

    def _with(self, per_unit: Any, *, block: Block | None = None) -> Private[Any]:
        """Return other elements of the same units."""
        private: Private[Any] = Private(per_unit)
        private._block = block or self._block
        return private

    def map_batch(self, function: Callable[[Any], Sized]) -> Private[Any]:
        """Apply a vectorised function, for example embedding or nearest neighbours.

        Element i of the result must depend on element i alone, so that one unit changes only its
        own elements. The result must have one element per unit. If the elements are in `Shards`,
        the function runs when a mechanism reads a shard.
        """
        if isinstance(self._per_unit, Shards):
            return self._with(self._per_unit.then(function))
        mapped = function(self._per_unit)
        if len(mapped) != len(self._per_unit):
            raise ValueError("map_batch: the function did not return one element per unit")
        return self._with(mapped)

    def zip_batch(self, other: Private[Any], function: Callable[[Any, Any], Any]) -> Private[Any]:
        """Apply a function as in `map_batch` to two private values with the same order of units."""
        self._require_same_units(other, "zip_batch")
        if isinstance(self._per_unit, Shards):
            return self._with(self._per_unit.zipped(other._per_unit, function))
        return self.map_batch(lambda elements: function(elements, other._per_unit))

    def partition(
        self, bins: Private[int] | Callable[[Any], Sized], *, size: int
    ) -> tuple[Private[T_co], ...]:
        """Divide the elements into `size` disjoint blocks, in the order of `bins`.

        `bins` contains one integer in [0, size) per record, or is a function that computes these
        integers from a batch, as in `map_batch`. The integer of a record must depend on this record
        alone, and not on its position, other records or their number. So one more record changes
        one block. `size` and the number of a block are public. The number of records in a block is
        private, like that of every private value.

        `PrivacySession.parallel` runs one mechanism on every block for one charge, and states the
        guarantee. Raises InvariantError if a record has no bin, without its value.

        >>> words = Private(["a", "bb", "c"])
        >>> words.partition(lambda batch: [len(word) - 1 for word in batch], size=2)
        (Private(...), Private(...))
        """
        if size < 1:
            raise ParamsError(f"a partition has at least one block (got size={size})")
        private = bins if isinstance(bins, Private) else self.map_batch(bins)
        self._require_same_units(private, "partition")
        numbers = private._per_unit
        chosen = np.asarray(list(numbers.elements()) if isinstance(numbers, Shards) else numbers)
        is_valid = chosen.ndim == 1 and chosen.dtype.kind in "iu"
        if len(chosen) and not (is_valid and chosen.min() >= 0 and chosen.max() < size):
            raise InvariantError("every record must have one bin between 0 and size-1")
        elements, partition = self._per_unit, object()
        choose = elements.selected if isinstance(elements, Shards) else partial(select, elements)
        return tuple(
            self._with(choose(chosen == number), block=Block(partition, number))
            for number in range(size)
        )

    def _require_same_units(self, other: Private[Any], what: str) -> None:
        # A block has only the records of its bin, so other values may come from other records.
        if other._block is not self._block or len(other._per_unit) != len(self._per_unit):
            raise ValueError(f"{what}: the private values do not contain the same units")

    def joined_by(self, owners: Private[Any]) -> Private[Any]:
        """Return one element per owner: the owner's tuples, concatenated in order."""
        self._require_same_units(owners, "joined_by")
        joined: dict[Any, tuple[Any, ...]] = {}
        for owner, element in zip(owners._per_unit, self._per_unit, strict=True):
            joined[owner] = joined.get(owner, ()) + element
        return self._with(list(joined.values()))

    def one_of_each(self, owners: Private[Any], *, keys: Private[Any]) -> Private[Any]:
        """Return one element per owner: that with the smallest key, or the first of equal keys.

        `keys` are keyed digests of the records. Adding or removing an owner adds or removes one
        element, and does not change the element of another owner.

        >>> Private([10, 11, 12]).one_of_each(Private(["a", "b", "a"]), keys=Private([5, 1, 3]))
        Private(...)
        """
        self._require_same_units(owners, "one_of_each")
        self._require_same_units(keys, "one_of_each")
        chosen: dict[Any, int] = {}
        order = list(keys._per_unit)
        for index, owner in enumerate(owners._per_unit):
            if owner not in chosen or order[index] < order[chosen[owner]]:
                chosen[owner] = index
        mask = np.zeros(len(order), dtype=np.bool_)
        mask[list(chosen.values())] = True
        elements = self._per_unit
        if isinstance(elements, Shards):
            return self._with(elements.selected(mask))
        return self._with(select(elements, mask))

    def __repr__(self) -> str:
        return "Private(...)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("Private data cannot be counted, iterated, compared, copied or pickled")

    __len__ = __iter__ = __getitem__ = __contains__ = __bool__ = _refuse
    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse

    def __eq__(self, other: object) -> bool:
        self._refuse()

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Released(Generic[T_co]):
    """A value that may be published, with the ids of its ledger entries.

    >>> Released([4, 9], ("entry-1",)).map(sum)
    Released(value=13, ledger_ids=('entry-1',))
    """

    value: T_co
    ledger_ids: tuple[str, ...] = ()

    def map(self, function: Callable[[T_co], U]) -> Released[U]:
        """Apply post-processing, which costs no budget. The ledger ids stay the same."""
        return Released(function(self.value), self.ledger_ids)

    def _repr_html_(self) -> str:
        """Show a table in a notebook, with the ledger entries that paid for it."""
        paid = ", ".join(self.ledger_ids) or "none, because it is public"
        return html_with_note(self.value, f"Released. Ledger entries: {paid}")


def merge_ids(*released: Released[Any]) -> tuple[str, ...]:
    """Return the distinct ledger ids of several values, in order."""
    return tuple(dict.fromkeys(i for r in released for i in r.ledger_ids))


def as_released_array(values: NDArray[Any], ledger_ids: tuple[str, ...]) -> Released[NDArray[Any]]:
    """Return a read-only copy of an array, so that no caller can change a released array."""
    copy = np.array(values)
    copy.setflags(write=False)
    return Released(copy, ledger_ids)
