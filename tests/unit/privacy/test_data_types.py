import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from sugarbush.privacy.data_types import Private, Released, as_released_array, merge_ids

SECRET = "the canary sings"


@pytest.mark.parametrize(
    "use",
    [
        len, iter, bool, list, hash, pickle.dumps, copy.copy, copy.deepcopy,
        lambda p: p[0], lambda p: SECRET in p, lambda p: p == [SECRET], sorted,
    ],
)  # fmt: skip
def test_private_data_gives_nothing_away(use: Callable[[Private[str]], object]) -> None:
    with pytest.raises(TypeError) as refusal:
        use(Private([SECRET]))
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r:>40}".format, "%s".__mod__])
def test_private_data_shows_nothing(show: Callable[[object], str]) -> None:
    assert SECRET not in show(Private([SECRET]))
    assert SECRET not in show([Private([SECRET])])


def test_private_data_has_no_dict() -> None:
    with pytest.raises(TypeError):
        vars(Private([SECRET]))


def test_maps_keep_one_element_a_unit() -> None:
    lengths = (
        Private(["a", "bcd"]).map_batch(lambda units: [len(u) for u in units]).map_batch(np.asarray)
    )
    assert list(lengths._per_unit) == [1, 3]
    with pytest.raises(ValueError, match="one element per unit"):
        Private(["a", "b"]).map_batch(lambda units: units[:1])


def test_post_processing_keeps_its_ledger_ids() -> None:
    votes = Released(3, ("x",)).map(str)
    assert votes == Released("3", ("x",))
    assert merge_ids(votes, Released(0, ("y", "x"))) == ("x", "y")


def test_a_released_array_cannot_be_altered() -> None:
    source = np.arange(3)
    released = as_released_array(source, ())
    source[0] = 9
    assert released.value[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        released.value[0] = 1
