"""Tests of chosen shares: what they mean, which are refused, and that weights undo them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.data.mix import Mix, mix_of, mix_sentence, require_mix
from sugarbush.data.schema import Schema, schema_of
from sugarbush.errors import ParamsError
from sugarbush.evolution.inputs import MetadataRelease, ReleaseSettings
from sugarbush.evolution.targets import targets_by_mix
from sugarbush.randomness import public_rng

RULE = {"if": {"product": "server"}, "then": {"year": "2026"}}


def schema(*rules: Any) -> Schema:
    attributes = [
        {"name": "product", "column": "p", "values": ["editor", "server", "app"]},
        {"name": "year", "column": "y", "values": ["2025", "2026"]},
        {"name": "mood", "column": "m", "values": ["good", "bad"]},
    ]
    return schema_of({"subject": "mail", "rules": rules, "attributes": attributes}, source="s")


def table(count: int = 400, *, app: bool = True) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(1)
    product = rng.choice(4, p=[0.7, 0.2, 0.05 * app, 0.1 - 0.05 * app], size=count)
    year = np.where(product == 1, 1, rng.choice(3, p=[0.6, 0.3, 0.1], size=count))
    return np.stack([product, year, rng.choice(3, size=count)], axis=1)


def mix(rows: np.ndarray[Any, Any], own: Schema, **shares: dict[str, float]) -> Mix:
    made = MetadataRelease(rows=rows).mix_of(ReleaseSettings(mix=shares), own)
    assert made is not None
    return made


def margin(made: Mix, own: Schema, place: int, *, rows: Any, count: int = 2000) -> list[float]:
    """Return the shares of the values of an attribute in requests."""
    targets = targets_by_mix(count, rows, own, mix=made, rng=public_rng(1))
    size = list(own.domain.values())[place]
    return [float(n) / count for n in np.bincount(targets.codes[:, place], minlength=size)]


def test_listed_shares_hold_and_the_rest_is_as_in_the_table() -> None:
    rows, own = table(), schema()
    shares = np.bincount(rows[:, 0], minlength=4) / len(rows)
    balanced = mix(rows, own, product={"editor": 0.5, "server": 0.5})
    assert margin(balanced, own, 0, rows=rows) == [0.5, 0.5, 0, 0]
    rare = margin(mix(rows, own, product={"app": 0.4}), own, 0, rows=rows)
    others = np.delete(shares, 2) / (1 - shares[2]) * 0.6
    assert rare[2] == 0.4
    np.testing.assert_allclose(np.delete(rare, 2), others, atol=5e-3)
    without = margin(mix(rows, own, product={"editor": 0}), own, 0, rows=rows)
    assert without[0] == 0 and sum(without) == 1
    assert margin(mix(rows, own, year={"2026": 1}), own, 1, rows=rows) == [0, 1, 0]


def test_joint_shares_have_both_margins_and_obey_the_rules() -> None:
    own = schema(RULE)
    shares = {"product": {"editor": 0.5, "server": 0.3}, "year": {"2025": 0.5}}
    require_mix(shares, own)
    rows = table()
    made = mix(rows, own, **shares)
    np.testing.assert_allclose(margin(made, own, 0, rows=rows)[:2], [0.5, 0.3], atol=1e-3)
    np.testing.assert_allclose(margin(made, own, 1, rows=rows)[0], 0.5, atol=1e-3)
    codes = targets_by_mix(500, rows, own, mix=made, rng=public_rng(1)).codes
    assert not ((codes[:, 0] == 1) & (codes[:, 1] != 1)).any()


def test_joint_shares_give_way_to_the_texts_that_exist() -> None:
    own, rows = schema(), table()
    made = mix(rows, own, product={"editor": 0.5, "server": 0.5}, year={"2025": 0.5, "2026": 0.5})
    assert made.cells.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    reached = made.reachable(np.array([50, 0, 3, 70]))
    np.testing.assert_allclose(reached.shares, [0.5, 0, 0, 0.5])
    one = mix(rows, own, product={"app": 0.5})
    np.testing.assert_allclose(one.reachable(np.array([3, 99])).shares, [0.5, 0.5])


@given(st.lists(st.floats(0.05, 1), min_size=3, max_size=3), st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_requests_have_the_shares_within_rounding_in_each_part(parts: Any, count: int) -> None:
    own, rows = schema(RULE), table(app=False)
    values = dict(zip(("editor", "server", "app"), np.array(parts) / sum(parts), strict=True))
    made = mix(rows, own, product={name: float(share) for name, share in values.items()})
    targets = targets_by_mix(count, rows, own, mix=made, rng=public_rng(1))
    for size in (count, count // 2):
        found = np.bincount(targets.codes[:size, 0], minlength=4)[:3]
        assert (np.abs(found - size * made.shares) < (1 if size == count else 2)).all()
    servers = targets.codes[targets.codes[:, 0] == 1]
    assert (servers[:, 1] == 1).all(), "a value that no row had gets values that obey"


def test_a_value_that_the_table_lacks_gets_rows_of_others() -> None:
    rows = np.array([[0, 0, 1], [0, 1, 2]])
    made = mix(rows, schema(RULE), product={"server": 1})
    targets = targets_by_mix(4, rows, schema(RULE), mix=made, rng=public_rng(1))
    assert targets.codes[:, :2].tolist() == [[1, 1]] * 4
    only_old = targets_by_mix(2, rows[:1], schema(RULE), mix=made, rng=public_rng(1))
    assert only_old.codes.tolist() == [[1, 1, 1]] * 2


def test_weights_undo_the_mix() -> None:
    rows, own = table(), schema()
    made = mix(rows, own, product={"editor": 0.25, "server": 0.25, "app": 0.25, "other": 0.25})
    codes = targets_by_mix(200, rows, own, mix=made, rng=public_rng(1)).codes
    weights = made.weights(codes)
    assert weights.mean() == pytest.approx(1)
    weighted = np.bincount(codes[:, 0], weights=weights, minlength=4) / len(codes)
    np.testing.assert_allclose(weighted, np.bincount(rows[:, 0], minlength=4) / len(rows))
    ratio = made.dp_shares / made.shares
    np.testing.assert_allclose(weights, ratio[made.cell_of(codes)])


def test_counts_for_labels_have_the_shares_of_the_mix() -> None:
    rows, own = table(), schema()
    made = mix(rows, own, product={"app": 0.5})
    counts = MetadataRelease(rows=rows, record_count=400).mixed_counts(own, made)
    assert counts["product"][2] == pytest.approx(200)
    apps = rows[rows[:, 0] == 2]
    assert counts["year"].sum() == pytest.approx(400, rel=0.01)
    assert counts["year"][0] > np.bincount(apps[:, 1], minlength=3)[0]


@pytest.mark.parametrize(
    "shares, message",
    [
        ({"colour": {"red": 1}}, "release.mix.colour: is no attribute"),
        ({"product": {"phone": 1}}, "'phone' is no value"),
        ({"product": {"editor": 0.5, "Editor": 0.2}}, "or is there twice"),
        ({"product": {"editor": 0.7, "server": 0.7}}, "sum 1.4, above 1"),
        ({"year": {"2025": 0.2, "2026": 0.2, "other": 0.2}}, "sum 0.6, below 1"),
        ({"product": {"server": 0.6}, "year": {"2025": 0.5}}, "no rows can have all"),
    ],
)
def test_refused_mixes(shares: Any, message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        require_mix(shares, schema(RULE))


def test_numbers_of_yaml_are_values_and_an_empty_mix_is_refused() -> None:
    assert ReleaseSettings.model_validate({"mix": {"year": {2026: 1}}}).mix == {
        "year": {"2026": 1.0}
    }
    for wrong in ({"year": {}}, {"year": {"2026": -1}}, {"year": 1}):
        with pytest.raises(ValueError, match="mix"):
            ReleaseSettings.model_validate({"mix": wrong})


def test_pages_say_that_shares_are_chosen() -> None:
    said = mix_sentence({"product": {"app": 0.3}, "year": {"2026": 1}})
    assert "product (app 0.3, others as in the DP table) and of year (2026 1)" in said
    assert "not the shares of the data" in said and "Counts of other attributes may not" in said
    assert mix_sentence({}) == ""


def test_the_counts_of_a_label_alone_make_a_mix() -> None:
    own = schema()
    made = mix_of({"product": {"app": 0.5}}, own, counts=np.array([60, 40, -3, 0]))
    assert made.shares.tolist() == [0.5, 0.5] and made.dp_shares.tolist() == [0, 1]
    metadata = MetadataRelease(labels=np.array([60, 40, -3, 0]), label="product")
    np.testing.assert_allclose(metadata.mixed_counts(own, made)["product"], [29.1, 19.4, 48.5, 0])
