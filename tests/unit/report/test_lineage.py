import numpy as np
import pytest

from sugarbush.errors import InvariantError
from sugarbush.report.model import SyntheticText
from sugarbush.report.tables import synthetic_projection, with_ancestors


def text(id_: int, parent: int | None) -> SyntheticText:
    return SyntheticText(id=id_, text=f"text {id_}", codes=(), round=0, parent=parent)


def test_every_ancestor_follows_the_final_texts_once() -> None:
    final = [text(9, 5), text(8, 5), text(2, None)]
    found = with_ancestors(final, [text(1, None), text(5, 1), text(5, 1), text(7, None)])
    assert [(t.id, t.final) for t in found] == [
        (9, True),
        (8, True),
        (2, True),
        (1, False),
        (5, False),
    ]


def test_a_final_text_that_is_itself_a_parent_is_not_repeated() -> None:
    assert len(with_ancestors([text(2, 1), text(1, None)], [text(1, None)])) == 2


def test_a_lost_parent_and_a_circle_end_a_line() -> None:
    assert len(with_ancestors([text(2, 77)], [])) == 1
    assert len(with_ancestors([text(3, 1)], [text(1, 2), text(2, 1)])) == 3


def test_the_map_is_fixed_by_the_synthetic_texts() -> None:
    rng = np.random.default_rng(1)
    synthetic = rng.normal(size=(50, 6)) * [9, 4, 1, 1, 1, 1]
    place = synthetic_projection(synthetic)
    assert place(synthetic).shape == (50, 2)
    assert place(synthetic).var(axis=0)[0] > place(synthetic).var(axis=0)[1] > 5
    assert (place(synthetic + 1) != place(synthetic)).any()
    with pytest.raises(InvariantError):
        synthetic_projection(synthetic[:1])
