"""Tests of smartnoise's AIM with our measurer. One run of its loop takes ten seconds to compile."""

import itertools
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.errors import ParamsError
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.gaussian_dp import bounded_range_mu, discrete_gaussian_mu
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.session import PrivacySession
from sugarbush.randomness import public_rng
from sugarbush.tables import smartnoise as engine
from sugarbush.tables.engines import run_engine, synthesize_table
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.tables.settings import Engine, SynthesizeMetadataSettings
from sugarbush.tables.synthesis import draw_rows

pytestmark = pytest.mark.xdist_group("jax")  # one worker loads it
SETTINGS = SynthesizeMetadataSettings(engine=Engine.SMARTNOISE)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_what_the_message_advises_makes_a_table(tmp_path: Path) -> None:
    """`make test-smartnoise` installs what the message about the missing package names."""
    pytest.importorskip("snsynth", reason="the extra 'smartnoise' is not installed")
    frame = pd.DataFrame({"product": [("lamp", "chair", "kettle")[i % 3] for i in range(300)]})
    attribute = {"name": "product", "values": ["lamp", "chair", "kettle"], "column": "product"}
    table = sb.dp_table(
        frame,
        schema={"subject": "letters", "attributes": [attribute]},
        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"),
        engine="smartnoise",
        state=tmp_path,
    )
    assert set(table.value["product"]) <= {"lamp", "chair", "kettle", "other"}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_smartnoise_reads_the_measurer_only(capsys):
    pytest.importorskip("snsynth", reason="the extra 'smartnoise' is not installed")
    domain = {"b": 4, "a": 3, "town": 6000}
    rng = public_rng(1, "smartnoise")
    a = rng.integers(0, 3, 4000)
    table = np.stack([a % 4, a, rng.integers(0, 2, 4000)], axis=1)
    measurer = MarginalMeasurer(Private(table), domain, mu=0.5)
    made = run_engine(measurer, SETTINGS, max_model_mb=80)

    assert capsys.readouterr().out == ""
    assert 0.97 * 0.25 <= measurer.mu_squared_spent <= 0.25
    assert {m.attributes for m in made.measurements} >= {("a",), ("b",), ("town",)}
    assert sum(m.mu**2 + m.selection_mu**2 for m in made.measurements) == pytest.approx(
        measurer.mu_squared_spent
    )
    assert made.record_count == pytest.approx(4000, rel=0.05)
    rows = draw_rows(made, public_rng(1))
    # Columns are in the order of the domain, and the dependence between columns is preserved.
    assert ((rows >= 0) & (rows < [4, 3, 6000])).all()
    assert (rows[:, 0] == rows[:, 1]).mean() > 0.9


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0, 6.0])
@pytest.mark.parametrize(("columns", "halvings"), list(itertools.product((2, 9), (0, 1, 3, 6))))
def test_its_rho_leaves_room_for_every_way_that_its_budget_may_be_spent(mu, columns, halvings):
    """The test repeats the arithmetic of smartnoise: it plans T = 16 d rounds, and then halves the
    noise any number of times.
    """
    rho = engine.rho_within(mu**2)
    sigma, epsilon = np.sqrt(16 * columns / (1.8 * rho)), np.sqrt(0.8 * rho / 16 / columns)
    spent = columns * discrete_gaussian_mu(float(sigma)) ** 2
    used = columns * 0.5 / sigma**2
    last, rounds = False, 0
    while not last:
        last = rho - used < 2 * (0.5 / sigma**2 + epsilon**2 / 8)
        if last:
            sigma, epsilon = np.sqrt(1 / 1.8 / (rho - used)), np.sqrt(0.8 * (rho - used))
        used += epsilon**2 / 8 + 0.5 / sigma**2
        spent += bounded_range_mu(float(epsilon)) ** 2 + discrete_gaussian_mu(float(sigma)) ** 2
        rounds += 1
        if rounds <= halvings:
            sigma, epsilon = sigma / 2, epsilon * 2
    assert 0.4 * mu**2 <= spent <= mu**2


def test_another_version_is_refused_before_anything_is_spent(monkeypatch):
    ledger = mock.create_autospec(Ledger, instance=True)
    monkeypatch.setattr(engine, "require_extra", lambda name: None)  # as if it were installed
    monkeypatch.setattr(engine.importlib.metadata, "version", lambda name: "1.0.9")
    with pytest.raises(ParamsError, match=r"needs smartnoise-synth 1\.0\.8, found 1\.0\.9"):
        synthesize_table(
            Private(np.zeros((1, 1), np.int64)),
            {"only": 3},
            mu=0.5,
            params=SETTINGS,
            session=PrivacySession(ledger=ledger, stage="synthesize_metadata", run="r"),
            rng=public_rng(1),
        )
    ledger.charge.assert_not_called()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("domain", "records", "changes"),
    [
        ({"constant": 1, "b": 2}, 0, {}),
        ({"only": 3}, 1, {}),
        ({"a": 3, "b": 2}, 10, {"max_cells": 1}),
    ],
    ids=["no record, one value", "one record, one column", "all cliques too large"],
)
def test_awkward_tables_give_a_row_at_least(domain, records, changes):
    pytest.importorskip("snsynth", reason="the extra 'smartnoise' is not installed")
    table = np.zeros((records, len(domain)), dtype=np.int64)
    measurer = MarginalMeasurer(Private(table), domain, mu=0.5)
    made = run_engine(measurer, SETTINGS, **changes)
    rows = draw_rows(made, public_rng(1))
    assert len(rows) == max(1, round(made.record_count))
    assert ((rows >= 0) & (rows < list(domain.values()))).all()
    assert measurer.mu_squared_spent <= 0.25
