"""The product is right where other libraries do what one would not guess.

Each test names the behaviour of the other library, which findings/ or docs/log/as_it_is.md shows.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sqlite3
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sugarbush as sb
from sugarbush.data.cells import text_of
from sugarbush.data.reading import read_rows, rows_of_frame
from sugarbush.data.remote import source_of
from sugarbush.embedding.nearest import nearest
from sugarbush.generators.openai.failures import retry_after_s
from sugarbush.privacy.accounting import Relation, epsilon, gaussian_epsilon
from sugarbush.privacy.events import DiscreteGaussian, GaussianDp, PoissonGaussian
from sugarbush.privacy.noise import report_noisy_max
from sugarbush.tables.model_fit import NoisyMarginal, fit_model
from sugarbush.training.dpsgd.sampling import make_schedule
from tests.publication import COMPLETE
from tests.settings import ROOT
from tests.synthesized import synthesize_frame
from tests.unit.publication.test_dataset_folder import run_in_process

# Texts that loaders of json or csv turn into numbers, timestamps or missing values.
CODES = ["007", "7", "2024-05-01T10:00:00+02:00", "1e5", "true"]


@pytest.fixture(scope="module")
def folder(quick_encoder: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("codes")
    frame = pd.DataFrame(
        {
            "message": [f"Order {i} of my lamp arrived late" for i in range(150)],
            "code": [CODES[i % 5] for i in range(150)],
        }
    )
    release = synthesize_frame(
        frame,
        text="message",
        schema={
            "subject": "letters to a shop",
            "attributes": [{"name": "code", "column": "code", "values": CODES}],
        },
        method=sb.Mosaic(candidates=30, prompt="metadata"),
        generator=sb.Pool(texts=[f"2024-05-{1 + i % 28:02d} of parcel {i}" for i in range(60)]),
        texts=20,
        state=base / "state",
        accept_poor=True,
        privacy=sb.Privacy(epsilon=4, dataset="codes"),
    )
    return release.publish(base / "out", publication=COMPLETE)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("datasets") is None, reason="datasets is not installed: `dev`")
@pytest.mark.skipif(find_spec("mlcroissant") is None, reason="mlcroissant is not installed: `dev`")
def test_texts_that_look_like_numbers_and_dates_are_published_as_texts(
    folder: Path, tmp_path: Path
) -> None:
    """datasets makes timestamps of such texts in JSON, and mlcroissant 7 of 007 in csv."""
    program = """
        import json, sys
        import mlcroissant, pandas, polars
        from datasets import load_dataset
        base = sys.argv[1]
        file = base + "/data/train-00000-of-00001.parquet"
        names = ("text", "requested_code")
        croissant = list(mlcroissant.Dataset(base + "/croissant.json").records("default"))
        plain = lambda value: value.decode() if isinstance(value, bytes) else value
        found = [
            [[row[n] for n in names] for row in load_dataset(base, split="train")],
            [[plain(row["default/" + n]) for n in names] for row in croissant],
            [[None if v != v else v for v in row]
             for row in pandas.read_parquet(file)[list(names)].astype(object).to_numpy().tolist()],
            [list(row) for row in polars.read_parquet(file)[list(names)].rows()],
        ]
        print(json.dumps(found))
    """
    printed = run_in_process(program, str(folder), cache=tmp_path)
    first, *others = json.loads(printed.splitlines()[-1])
    for other in others:
        assert other == first
    assert len(first) == 20 and all(re.match(r"2024-05-\d\d of", text) for text, _ in first)
    assert {code for _, code in first} <= {*CODES, "other", None}
    assert len({code for _, code in first} & set(CODES)) >= 3


def test_the_description_has_the_version_of_croissant_that_it_uses(folder: Path) -> None:
    """mlcroissant 1.1.1 accepts the version 9.9."""
    fields = json.loads((folder / "croissant.json").read_text())
    assert fields["conformsTo"] == [
        "http://mlcommons.org/croissant/1.0",
        "http://mlcommons.org/croissant/RAI/1.0",
    ]
    assert re.fullmatch(r"[1-9]\d*\.0\.0", fields["version"])
    assert {file["encodingFormat"] for file in fields["distribution"]} == {"application/x-parquet"}


def test_no_page_advises_to_load_a_release_as_json_or_csv() -> None:
    """datasets 5.2 makes timestamps of texts in JSON, and missing values of texts in csv."""
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("sugarbush/**/*.jinja"), ROOT / "README.md"]
    advice = re.compile(r"""load_dataset\(\s*["'](json|csv|text)["']""")
    logs = ROOT / "docs" / "log"
    assert len(pages) > 100
    assert not [
        page for page in pages if logs not in page.parents and advice.search(page.read_text())
    ]


@pytest.mark.parametrize("before", range(-3, 4))
def test_a_quoted_line_break_at_the_edge_of_a_block_is_one_row(tmp_path: Path, before: int) -> None:
    """pyarrow 26 reads one row more if a block of a file with one column ends there."""
    block = 2**20
    first = "x" * (block - len('text\n"') + before)
    texts = [first + "\nlast line", "second", 'a "quoted"\nword', "third"]
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([[t] for t in texts])
    path = tmp_path / "letters.csv"
    path.write_text("text\n" + file.getvalue(), newline="")
    wanted = {"text": "--text"}
    assert [row.fields["text"] for row in read_rows(path, wanted=wanted, setting="s")] == texts


def test_gaussian_noise_for_a_replaced_unit_costs_twice_the_sensitivity() -> None:
    """The RDP accountant of dp-accounting 0.6 gives 4.73 here, and its PLD the right 9.997."""
    event = PoissonGaussian(noise_multiplier=1.0, rate=1.0, count=1)
    replaced = epsilon([event], delta=1e-5, relation=Relation.REPLACE_ONE)
    assert replaced == pytest.approx(gaussian_epsilon(2.0, delta=1e-5), abs=1e-3)
    assert replaced == pytest.approx(9.997, abs=0.005)


@pytest.mark.parametrize("delta", [1e-9, 1e-13, 1e-14])
def test_thirty_steps_one_by_one_cost_what_thirty_steps_at_once_cost(delta: float) -> None:
    """In dp-accounting 0.6, thirty composed steps have an infinite epsilon at 1e-14."""
    one = PoissonGaussian(noise_multiplier=1.0, rate=0.01, count=1)
    all_at_once = PoissonGaussian(noise_multiplier=1.0, rate=0.01, count=30)
    together = epsilon([all_at_once], delta=delta)
    assert epsilon([one] * 30, delta=delta) == together < math.inf


@pytest.mark.parametrize("delta", [1e-5, 1e-9, 1e-12, 1e-15])
@pytest.mark.parametrize(("stddev", "count"), [(1.0, 1), (5.0, 10), (50.0, 1), (1000.0, 1)])
def test_epsilon_is_not_below_the_truth_and_hardly_above_it(
    stddev: float, count: int, delta: float
) -> None:
    """Opacus' RDP stops at an epsilon of 0.1, and its GDP accountant is 37% above for stddev 1."""
    mu = math.sqrt(count) / stddev
    exact = _exact_epsilon(mu, delta)
    found = epsilon([GaussianDp(mu=1 / stddev, count=count)], delta=delta)
    assert exact <= found * (1 + 1e-12) and found <= exact * (1 + 1e-6) + 2e-9


def _exact_epsilon(mu: float, delta: float) -> float:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):

        def excess(x: Any) -> Any:
            return (
                mpmath.ncdf(mu / 2 - x / mu) - mpmath.exp(x) * mpmath.ncdf(-mu / 2 - x / mu) - delta
            )

        mu, low, high = mpmath.mpf(mu), mpmath.mpf(0), mpmath.mpf(64)
        for _ in range(150):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return float(low)


def test_integer_noise_costs_less_than_its_zcdp_bound() -> None:
    """OpenDP's conversion of zCDP gives 1.02 to 1.56 times the exact epsilon."""
    rho, delta = 1 / (2 * 10**2), 1e-6
    standard = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert epsilon([DiscreteGaussian(stddev=10.0)], delta=delta) < standard / 1.2


def test_a_tie_of_the_noisy_maximum_favours_no_index() -> None:
    """OpenDP gives the last of equal scores if there is no noise. Noise has no ties."""
    found = [report_noisy_max(np.zeros(3), epsilon=1.0, sensitivity=1.0) for _ in range(600)]
    # Each index is chosen with probability 1/3: fewer than 100 of 600 has a probability of 1e-20.
    assert min(found.count(index) for index in range(3)) > 100


def test_rare_counts_of_a_large_table_stay_rare_in_the_model() -> None:
    """mbi 2.0 fits in float32: 3 of a million become 77, and 16,777,217 records one less."""
    for rare, total in ((3.0, 1e6), (1.0, 2.0**24 + 1)):
        counts = np.array([total - rare, rare])
        seen = NoisyMarginal(attributes=("a",), counts=counts, variance=np.ones(2))
        model = fit_model({"a": 2}, [seen], total=total, enough=1e-12, calibrations=500)
        assert model.marginal(("a",)) == pytest.approx(counts, abs=0.01)
        assert model.marginal(("a",)).sum() == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize(("size", "batch"), [(98, 2), (392, 8)])
def test_the_expected_batch_is_the_number_of_records_times_the_rate(size: int, batch: int) -> None:
    """Opacus 1.6 truncates it: 98 records in batches of 2 give 1."""
    schedule = make_schedule(unit_count=size, batch_size=batch, epochs=1)
    assert schedule.expected_batch_size == pytest.approx(batch)


@pytest.mark.parametrize("seconds", [120, 121, 3600])
def test_a_retry_after_is_honoured_however_long_it_is(seconds: int) -> None:
    """openai 3.52 honours 120 s, and ignores 121."""
    headers = {"retry-after": str(seconds)}
    assert retry_after_s(headers, now=datetime.now(UTC)) == seconds


def test_the_nearest_candidate_depends_on_the_record_alone() -> None:
    """Distances of torch and vectors of quantised networks depend on the batch (findings/)."""
    rng = np.random.default_rng(0)
    candidates = (1000 + rng.normal(size=(300, 64))).astype(np.float32)
    queries = np.concatenate([candidates[:26], 50 * candidates[26:40]])
    whole = nearest(queries, candidates)
    assert whole[:26].tolist() == list(range(26))
    for size in (1, 7, 25, 26):
        blocks = [nearest(queries[i : i + size], candidates) for i in range(0, len(queries), size)]
        assert np.array_equal(np.concatenate(blocks), whole)


def typed() -> dict[str, list[Any]]:
    return {
        "text": ["one letter", "two letters"],
        "code": ["007", "7"],
        "big": [2**53 + 1, 2**53],
        "price": [Decimal("0.10"), Decimal("12345678901234567.89")],
        "ok": [True, False],
        "day": [date(2026, 1, 1), None],
        "at": [datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 3, 1, 0, tzinfo=UTC)],
        "share": [0.1, 1.0],
    }


def test_a_frame_of_every_type_has_the_same_cells_in_each_library() -> None:
    """pandas, polars and pyarrow compute differently with decimals, large ids and zeros."""
    table = pa.table(typed())
    frames = {
        "pyarrow": table,
        "polars": pl.DataFrame(typed()),
        "pandas": table.to_pandas(types_mapper=pd.ArrowDtype),
        "objects": pd.DataFrame({name: pd.Series(v, dtype=object) for name, v in typed().items()}),
    }
    found = {
        name: [
            {key: text_of(cell) for key, cell in row.fields.items()}
            for row in rows_of_frame(_as_pandas(frame), wanted={})
        ]
        for name, frame in frames.items()
    }
    expected = [
        {"text": "one letter", "code": "007", "big": "9007199254740993", "price": "0.1",
         "ok": "true", "day": "2026-01-01", "share": "0.1"},
        {"text": "two letters", "code": "7", "big": "9007199254740992",
         "price": "12345678901234567.89", "ok": "false", "day": None, "share": "1"},
    ]  # fmt: skip
    for name, rows in found.items():
        moments = [row.pop("at") for row in rows]
        assert rows == expected, name
        assert all(str(moment).startswith(("2026-01-01", "2026-03-01")) for moment in moments)


def _as_pandas(frame: Any) -> pd.DataFrame:
    return frame if isinstance(frame, pd.DataFrame) else pd.DataFrame(frame.to_pandas())


@pytest.mark.skipif(find_spec("sqlalchemy") is None, reason="sqlalchemy is not installed: `sql`")
def test_cells_of_sqlite_are_read_as_the_file_has_them(tmp_path: Path) -> None:
    """SQLAlchemy drops offsets and digits by the declared types of columns (findings/)."""
    path = tmp_path / "letters.db"
    moment = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=5))).isoformat()
    with sqlite3.connect(path) as connection:
        connection.execute(
            "create table letters (text text, at timestamp, price text, amount numeric(20, 2), "
            "count integer, day date)"
        )
        connection.execute(
            "insert into letters values ('one letter', ?, '0.123456789012345', 0.25, "
            "9007199254740993, '2026-01-01')",
            [moment],
        )
    connection.close()
    wanted = dict.fromkeys(["text", "at", "price", "amount", "count", "day"], "s")
    source = source_of(tmp_path, f"sqlite:///{path}", setting="s")
    (row,) = read_rows(source, wanted=wanted, setting="s")
    assert {name: text_of(cell) for name, cell in row.fields.items()} == {
        "text": "one letter",
        "at": moment,
        "price": "0.123456789012345",
        "amount": "0.25",
        "count": "9007199254740993",
        "day": "2026-01-01",
    }
