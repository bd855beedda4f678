"""Released numbers that change what a generator writes, such as a steering vector.

The numbers are results of mechanisms, so every answer depends on them. An answer therefore has
their ledger ids, and the cache key of an answer contains their digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import ParamsError, PrivacyError
from sugarbush.privacy.data_types import Released, merge_ids
from sugarbush.privacy.results import digest_of


@dataclass(frozen=True, kw_only=True)
class ReleasedNumbers:
    """Numbers by name, with the ids of their ledger entries.

    A value is a read-only array, or a mapping of names to arrays. Equal values have equal digests.
    """

    values: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    digest: str = ""
    ledger_ids: tuple[str, ...] = ()

    @classmethod
    def checked(
        cls, numbers: Mapping[str, object], *, names: Sequence[str], generator: str
    ) -> ReleasedNumbers:
        """Return a copy of `numbers`, which contain `Released` values only.

        Raises PrivacyError for other values. Raises ParamsError for a name that is not in `names`,
        and for values that are not finite numbers.
        """
        released: dict[str, Released[Any]] = {}
        for name, value in numbers.items():
            if name not in names:
                raise ParamsError(
                    f"generator {generator} accepts no released numbers '{name}'. It accepts "
                    f"{', '.join(names)}"
                )
            if not isinstance(value, Released):
                raise PrivacyError(
                    f"only released numbers may reach a generator; got {type(value).__name__} for "
                    f"'{name}'. Nothing was used."
                )
            released[name] = value
        values = {name: _copy(each.value, name) for name, each in sorted(released.items())}
        return cls(
            values=values,
            digest=digest_of(numbers=_described(values)) if values else "",
            ledger_ids=merge_ids(*released.values()),
        )


def _copy(value: object, name: str) -> Any:
    """Return read-only numbers, so that no caller can change them after the digest."""
    if isinstance(value, Mapping):
        return {key: _copy(each, name) for key, each in sorted(value.items())}
    try:
        numbers = np.array(value)
    except ValueError:  # rows of several lengths
        numbers = np.array([None])
    if numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
        raise ParamsError(f"the released value '{name}' does not contain finite numbers alone")
    copy = numbers.astype(np.float64)
    copy.setflags(write=False)
    return copy


def _described(value: Any) -> Any:
    """Return a value of JSON that is equal for equal numbers, on every machine."""
    if isinstance(value, Mapping):
        return [[str(key), _described(each)] for key, each in value.items()]
    numbers: NDArray[np.float64] = value + 0.0  # -0.0 becomes 0.0
    return [list(numbers.shape), hashlib.sha256(numbers.astype("<f8").tobytes()).hexdigest()]
