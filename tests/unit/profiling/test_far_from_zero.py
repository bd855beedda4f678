"""Tests that a profile resolves numbers and dates, whatever their size and spread.

Every profile is drawn with the noise of `profile.epsilon` 0.2 and 20,000 records, and alone by its
columns. A released value is a value of the drafted bins in the exact shares of the records, so what
lies outside the real range comes from the span alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sugarbush.data.quantities import Kind
from sugarbush.data.records import Record
from sugarbush.data.schema import Attribute, load_schema
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.results import open_result_store
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit
from sugarbush.profiling.bins import ZERO
from sugarbush.profiling.contributions import Contributions, Reader
from sugarbush.profiling.draft import Draft, draft_from_profile, schema_text
from sugarbush.profiling.measure import draw_profile
from sugarbush.profiling.plan import plan_profile
from sugarbush.profiling.refinement import Distribution
from sugarbush.profiling.release import ReleasedProfile
from sugarbush.profiling.view import share_tables

RECORDS = 17_000  # the training split of 20,000 records
Column = Callable[[np.random.Generator, int], Sequence[Any]]


def days(rng: np.random.Generator, n: int, *, first: date, count: int) -> list[date]:
    return [first + timedelta(int(day)) for day in rng.integers(0, count, n)]


NUMBERS: dict[str, Column] = {
    "birth years": lambda rng, n: rng.integers(1940, 2007, n),
    "years with a peak": lambda rng, n: np.clip(rng.normal(1970, 16, n).round(), 1920, 2020),
    "postal codes": lambda rng, n: rng.integers(90001, 90400, n),
    "order numbers": lambda rng, n: rng.integers(1_000_000, 1_010_000, n),
    "numbers like dates": lambda rng, n: rng.integers(20_100_000, 20_400_000, n),
    "epoch seconds": lambda rng, n: 1_700_000_000 + rng.integers(0, 30_000_000, n),
    "epoch milliseconds": lambda rng, n: 1_700_000_000_000 + rng.integers(0, 30_000_000_000, n),
    "phone numbers": lambda rng, n: rng.integers(4_915_100_000_000, 4_917_999_999_999, n),
    "heights": lambda rng, n: rng.normal(170, 20, n).round(),
    "kelvin": lambda rng, n: rng.normal(300, 5, n).round(2),
    "degrees below zero": lambda rng, n: rng.normal(-5000, 20, n).round(1),
    "around zero": lambda rng, n: rng.normal(0, 15, n).round(2),
    "ages": lambda rng, n: rng.integers(18, 95, n),
    "salaries": lambda rng, n: rng.lognormal(10.8, 0.4, n).round(2),
    "minutes": lambda rng, n: rng.exponential(35, n).round(1),
    "shares": lambda rng, n: rng.beta(2, 5, n).round(4),
    "latitudes": lambda rng, n: (48.137 + rng.normal(0, 0.03, n)).round(6),
    "pressures": lambda rng, n: (1013.25 + rng.normal(0, 0.05, n)).round(3),
    "two groups": lambda rng, n: np.where(
        rng.random(n) < 0.5, rng.normal(100, 3, n), rng.normal(10_000, 50, n)
    ).round(1),
    "with zeros": lambda rng, n: np.where(rng.random(n) < 0.4, 0, rng.lognormal(8, 1, n)).round(2),
    "with a code": lambda rng, n: np.where(rng.random(n) < 0.1, 999_999, rng.integers(18, 95, n)),
    "small numbers": lambda rng, n: rng.uniform(1e-6, 5e-4, n).round(9),
    "eight powers of ten": lambda rng, n: 10 ** rng.uniform(0, 8, n),
}  # fmt: skip
DATES: dict[str, Column] = {
    "numbers": lambda rng, n: [
        day.strftime("%Y%m%d") for day in days(rng, n, first=date(2023, 1, 1), count=700)
    ],
    "numbers of a quarter": lambda rng, n: [
        day.strftime("%Y%m%d") for day in days(rng, n, first=date(1999, 11, 20), count=90)
    ],
    "numbers in a column with missing ones": lambda rng, n: [
        f"{day:%Y%m%d}.0" for day in days(rng, n, first=date(2021, 2, 3), count=200)
    ],
    "dates": lambda rng, n: days(rng, n, first=date(2023, 3, 15), count=100),
    "births": lambda rng, n: days(rng, n, first=date(1941, 6, 1), count=25_000),
    "numbers and dates": lambda rng, n: [
        day.strftime("%Y%m%d") if at % 3 else str(day)
        for at, day in enumerate(days(rng, n, first=date(2020, 5, 5), count=900))
    ],
}  # fmt: skip


def drawn(
    columns: Mapping[str, Sequence[Any]], folder: Path, *, epsilon: float = 0.2
) -> ReleasedProfile:
    """Draw a profile of records with these columns and short texts."""
    ledger = Ledger(folder, dataset="x", purpose="release", unit=Unit.RECORD, cap=99.0, delta=1e-6)
    plan = plan_profile(
        epsilon=epsilon, delta=1e-6, slack=ledger.next_slack(), columns=len(columns), by_user=False
    )
    contributions = of_columns(columns)
    with open_result_store(folder, dataset="x", stage="profile", key={}, forced=False) as store:
        return draw_profile(
            contributions,
            plan,
            tuple(columns),
            store=store,
            session=PrivacySession(
                ledger=ledger, stage="profile", run=store.run, plan=plan.planned
            ),
            check_count=lambda records: None,
        )


def of_columns(columns: Mapping[str, Sequence[Any]]) -> Contributions:
    """Return the contributions of records with these columns. All have the same short text."""
    reader = Reader(tuple(columns), by_user=False, key=b"key")
    reader.read([Record(0, "0", "note", (None,) * len(columns), None)])
    one, rows = reader.contributions(), list(zip(*columns.values(), strict=True))
    raw = [tuple(map(str, row)) for row in rows]
    found = [reader._cells_of_columns(row) for row in raw]

    def same(private: Private[Any]) -> Private[Any]:
        (element,) = private._per_unit
        return Private(np.tile(element, (len(rows), 1)))

    return Contributions(
        sizes=same(one.sizes),
        style=same(one.style),
        columns=Private(np.array([cells for cells, _ in found], dtype=np.int32)),
        quantities=Private(np.array([quantities for _, quantities in found])),
        values=Private([reader._values(row) for row in raw]),
        terms=Private([()] * len(rows)),
    )


def drafted(profile: ReleasedProfile) -> Draft:
    return draft_from_profile(profile, subject="notes")


def released(attribute: Attribute, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a value of the bin of each number, as a table would release it without noise."""
    quantity = attribute.quantity
    assert quantity is not None
    codes = np.searchsorted(quantity.edges, values, side="right")
    return quantity.draw(codes, np.random.default_rng(5).random(len(codes)))


@pytest.mark.slow
@pytest.mark.parametrize("name", NUMBERS)
def test_released_numbers_stay_in_the_real_range(name: str, tmp_path: Path) -> None:
    """In 285 simulated profiles of 12 kinds, noise put more than 5% outside once (7%).

    So one profile may be drawn again. The rate is below 1.7% (95%), so both are off in fewer than 1
    of 3,400 tests. A real fault is in every profile.
    """
    rng = np.random.default_rng(1)
    values = np.asarray(NUMBERS[name](rng, RECORDS), dtype=np.float64)
    cells = [int(v) if float(v).is_integer() else v for v in values.tolist()]
    shares = []
    for folder in ("first", "again"):
        outside, inside = shares_of_a_draft(cells, values, tmp_path / folder)
        shares.append((outside, inside))
        if outside <= 0.05 and inside >= 0.85:
            return
    pytest.fail(f"shares outside the real range, and inside the span: {shares}")


def shares_of_a_draft(
    cells: Sequence[Any], values: NDArray[np.float64], folder: Path
) -> tuple[float, float]:
    """Return the share of released numbers outside the real range, and of real ones in the span."""
    draft = drafted(drawn({"x": cells}, folder))
    assert draft.schema.names == ("x",), draft.left_out
    attribute = draft.schema.attribute("x")
    assert attribute.type is (Kind.INTEGER if (values % 1 == 0).all() else Kind.NUMBER)
    assert attribute.span is not None
    assert attribute.bins is not None and len(attribute.bins) >= 2
    low, high = map(float, attribute.span)  # type: ignore[arg-type]
    numbers = released(attribute, values)
    outside = (numbers < values.min()) | (numbers > values.max())
    inside = (values >= low) & (values <= high)
    return float(outside.mean()), float(inside.mean())


def test_zeros_beside_other_numbers_are_zeros_in_the_release(tmp_path: Path) -> None:
    values = np.asarray(NUMBERS["with zeros"](np.random.default_rng(1), RECORDS))
    profile = drawn({"x": list(values)}, tmp_path)
    draft = drafted(profile)
    found = released(draft.schema.attribute("x"), values)
    assert (found == 0).mean() == pytest.approx((values == 0).mean(), abs=0.01)
    path = tmp_path / "schema.yaml"
    path.write_text(schema_text(draft, profile), encoding="utf-8")
    assert load_schema(path) == draft.schema


@pytest.mark.slow
@pytest.mark.parametrize("name", DATES)
def test_dates_in_any_form_are_dates_in_the_real_range(name: str, tmp_path: Path) -> None:
    cells = DATES[name](np.random.default_rng(1), RECORDS)
    profile = drawn({"when": cells}, tmp_path)
    draft = drafted(profile)
    attribute = draft.schema.attribute("when")
    assert attribute.kind is Kind.DATE and attribute.quantity is not None
    values = np.array([attribute.quantity.number_of(cell) for cell in cells], dtype=np.float64)
    found = released(attribute, values)
    assert ((found < values.min()) | (found > values.max())).mean() <= 0.05
    assert attribute.span is not None
    first, last = attribute.span
    assert (last - first).days > 0.8 * (values.max() - values.min())  # type: ignore[operator]
    assert all(day.isoformat() in schema_text(draft, profile) for day in attribute.bins or ())  # type: ignore[union-attr]
    (table,) = [table for table in share_tables(profile) if table.title == "when"]
    assert all(date.fromisoformat(value) for _, value in table.quantiles)


@pytest.mark.slow
@pytest.mark.parametrize(
    "value", ["42", "1013.25", "0", "-7", "1700000000", "2024-02-29", "20240229"]
)
def test_a_constant_column_is_no_attribute(value: str, tmp_path: Path) -> None:
    draft = drafted(drawn({"x": [value] * RECORDS}, tmp_path))
    ((name, why),) = draft.left_out
    assert name == "x" and "nearly all of its" in why


@pytest.mark.parametrize(
    "spread", [lambda rng, n: 1_700_000_000 + rng.integers(0, 600, n),
               lambda rng, n: (5e6 + rng.normal(0, 0.01, n)).round(4)],
)  # fmt: skip
def test_numbers_that_no_step_resolves_have_no_type(spread: Column, tmp_path: Path) -> None:
    draft = drafted(drawn({"x": list(spread(np.random.default_rng(1), RECORDS))}, tmp_path))
    ((name, why),) = draft.left_out
    assert name == "x" and "too close together" in why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("birth years", "these look like years"),
        ("epoch seconds", "seconds since 1970: from 2023-1"),
        ("epoch milliseconds", "milliseconds since 1970: from 2023-1"),
        ("ages", None),
        ("order numbers", None),
        ("phone numbers", None),
    ],
)
def test_the_schema_says_what_years_and_times_look_like(
    name: str, said: str | None, tmp_path: Path
) -> None:
    profile = drawn({"x": NUMBERS[name](np.random.default_rng(1), RECORDS)}, tmp_path)
    text = schema_text(drafted(profile), profile)
    assert ("look like" in text) == (said is not None)
    assert said is None or said in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["birth years", "kelvin", "with zeros", "order numbers"])
@pytest.mark.parametrize("records", [400, 1700, 4000])
def test_few_records_have_a_coarse_span_or_none(name: str, records: int, tmp_path: Path) -> None:
    """2 of 25 profiles of 4,000 birth years had more than 10% outside, the most 18%. So three more
    may be drawn, and all are off in about 1 of 24,000 tests (at the upper end of 95%, 26%: 1 of
    200). A real fault is in every profile.
    """
    values = np.asarray(NUMBERS[name](np.random.default_rng(1), records), dtype=np.float64)
    shares = []
    for number in range(4):
        draft = drafted(drawn({"x": [v.item() for v in values]}, tmp_path / str(number)))
        if "x" not in draft.schema.names:
            assert draft.left_out[0][0] == "x"
            return
        attribute = draft.schema.attribute("x")
        if attribute.span is None:
            return
        found = released(attribute, values)
        shares.append(float(((found < values.min()) | (found > values.max())).mean()))
        if shares[-1] <= 0.1:
            return
    pytest.fail(f"shares outside the real range: {shares}")


def test_an_end_at_the_bin_of_zero_is_zero() -> None:
    """The first bin may be the one below the bin of 0, if it has noise alone."""
    found = Distribution(
        edges=(-1.0, -ZERO, ZERO, 1.0, 10.0), counts=(3.0, 40.0, 57.0, 10.0), stddev=2.0,
        is_whole=False,
    )  # fmt: skip
    assert found.ends is not None and found.ends[0] == 0.0


def test_released_counts_do_not_change_what_a_profile_costs(tmp_path: Path) -> None:
    """They decide whether a column has finer bins, so the charge is that of the whole plan."""
    words = drawn({"color": ["red", "blue"] * 1000}, tmp_path / "words")
    numbers = drawn({"color": list(range(1940, 2000)) * 40}, tmp_path / "numbers")
    assert words.column("color").distribution is None
    assert numbers.column("color").distribution is not None
    assert len(words.ledger_ids) == len(numbers.ledger_ids) == 8
    assert words.epsilon == numbers.epsilon


@pytest.mark.slow
def test_one_column_of_numbers_among_others_has_less_noise(tmp_path: Path) -> None:
    """The other columns need no finer bins, so the numbers are counted in their place."""
    rng = np.random.default_rng(1)
    words = {f"word {n}": ["red"] * RECORDS for n in range(3)}
    cells = list(rng.integers(1940, 2007, RECORDS))
    one = drawn({**words, "x": cells}, tmp_path / "one").column("x").distribution
    four = {f"x{n}": cells for n in range(4)}
    each = drawn(four, tmp_path / "four").column("x0").distribution
    assert one is not None and each is not None
    assert one.stddev < 0.6 * each.stddev


@pytest.mark.slow
def test_a_profile_with_distributions_is_read_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    when = [str(day) for day in days(rng, 5000, first=date(2023, 1, 1), count=90)]
    profile = drawn({"x": list(rng.normal(300, 5, 5000)), "when": when}, tmp_path, epsilon=1.0)
    assert ReleasedProfile.from_json(profile.to_json()) == profile
