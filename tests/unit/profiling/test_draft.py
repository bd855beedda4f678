from dataclasses import replace

import numpy as np
import pytest

from sugarbush.data.quantities import Kind
from sugarbush.profiling.bins import NUMBERS, YEARS
from sugarbush.profiling.draft import draft_from_profile, schema_text
from sugarbush.profiling.layout import INTEGER, KINDS, NUMBER
from sugarbush.profiling.plan import STEPS
from sugarbush.profiling.refinement import FinerBins, of_numbers
from sugarbush.profiling.release import ProfiledColumn, ReleasedProfile

STDDEV = 1.0


def profile_of(values: list[float]) -> ReleasedProfile:
    """A profile of one column of numbers, whose counts are exact."""
    numbers = np.bincount([NUMBERS.of(value) for value in values], minlength=NUMBERS.size)
    whole = sum(float(value).is_integer() for value in values)
    kinds = dict.fromkeys(KINDS, 0) | {INTEGER: whole, NUMBER: len(values) - whole}
    found = of_numbers(numbers, total=len(values), stddev=STDDEV, whole=whole == len(values))
    for _ in STEPS:
        edges, parts = found.divided(stddev=STDDEV)
        bins = FinerBins(edges={0: edges}, histograms=1)
        counts = np.bincount(bins.cells(np.array(values)[:, None]).ravel(), minlength=bins.size)
        found = found.after(edges, parts, counts.astype(float), stddev=STDDEV)
    column = ProfiledColumn(
        name="number", kinds=kinds, numbers=tuple(numbers.tolist()), years=(0,) * YEARS.size,
        values={}, distribution=found.distribution,
    )  # fmt: skip
    return ReleasedProfile(
        records=len(values), lengths={}, records_per_user=None, style={}, languages={"English": 0},
        columns=(column,), terms={}, terms_column=None,
        stddev=dict.fromkeys(("sizes", "style", "columns", "values", "terms"), STDDEV),
        threshold={"values": 9, "terms": 9}, epsilon=1.0, delta=1e-6, unit="record", dataset="x",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "kind", "span"),
    [
        ([-3.0, -2.0, -1.0, 0.0], Kind.INTEGER, [-3, 0]),
        ([0.0, 1.0, 2.0], Kind.INTEGER, [0, 2]),
        ([-3.0, -2.0, -1.0], Kind.INTEGER, [-3, -1]),
        (
            [-1.0, -0.75, -0.5, -0.25, 0.0],
            Kind.NUMBER,
            [-0.99, 0],
        ),  # an end of a wider bin is inside
    ],
)
def test_the_span_of_a_column_contains_its_zeros(
    values: list[float], kind: Kind, span: list[int]
) -> None:
    draft = draft_from_profile(profile_of(values * 300), subject="letters")
    attribute = draft.schema.attribute("number")
    assert attribute.type is kind and attribute.span == tuple(span)
    assert f"span: {span}" in schema_text(draft, profile_of(values * 300))


@pytest.mark.parametrize(("of_count", "of_records"), [(0.0, 40.0), (30.0, 0.0), (30.0, 40.0)])
def test_the_interval_of_a_share_contains_the_noise_of_its_count_and_of_the_records(
    of_count: float, of_records: float
) -> None:
    """The true share is 0.8. At least 94% of 20,000 intervals contain it: four standard deviations
    of the expected 95% are 0.6%, and the seed is fixed."""
    rng, hits = np.random.default_rng(4), 0
    base = profile_of([1.0])
    for _ in range(20_000):
        records = round(1000 + rng.normal(0, of_records))
        noise = {**base.stddev, "values": of_count, "sizes": of_records}
        share = replace(base, records=records, stddev=noise).share(
            800 + rng.normal(0, of_count), group="values"
        )
        hits += share.low <= 0.8 <= share.high
    assert 0.94 < hits / 20_000 < 0.965
