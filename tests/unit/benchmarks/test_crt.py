"""The grid of confidential training: its points, every arm on every model, and its figures."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.crt import __main__ as laboratory
from benchmarks.crt import measure
from benchmarks.crt.figures import accounting, over_gamma, summarised, write_figures
from benchmarks.crt.grid import Arm, Grid, Model, load_grid, points
from sugarbush.attacks.canaries import CANDIDATES

SETTINGS = Path(__file__).parents[3] / "settings"


@pytest.fixture
def grid(tmp_path):
    texts = [f"SYS: how can I help, {n}?\nUSR: my phone is 555-010-{n:04d}." for n in range(60)]
    pd.DataFrame({"text": texts}).to_parquet(tmp_path / "texts.parquet")
    fields = load_grid(SETTINGS / "crt_figures_small.yaml").model_dump(mode="json")
    fields["sets"] = {
        "one": {"file": str(tmp_path / "texts.parquet"), "public": 20, "members": 20, "others": 20}
    }
    fields["arms"] = {"gpt2": [arm for arm in Arm if arm is not Arm.SDP], "lstm": list(Arm)}
    fields["shapes"] = {
        "vocabulary": 300, "context": 32, "gpt2_layers": 1, "gpt2_width": 8, "lstm_width": 8,
    }  # fmt: skip
    fields["training"] |= {"public_epochs": 0.5, "epochs": 0.5, "noisy_epochs": 0.5}
    fields |= {"seeds": 2, "repeats": 2, "groups": 8, "group_size": 3, "gammas": [0.0, 0.5]}
    return Grid.model_validate(fields)


@pytest.mark.parametrize("name", ["crt_figures", "crt_figures_small"])
def test_the_committed_grids_train_arms_without_a_policy_once_a_seed(name):
    grid = load_grid(SETTINGS / f"{name}.yaml")
    found = list(points(grid))
    assert len({point.key(grid) for point in found}) == len(found)
    ordinary = [p for p in found if (p.model, p.arm) == (Model.GPT2, Arm.NONPRIVATE)]
    assert len(ordinary) == grid.seeds * len(grid.sets)
    confidential = [p for p in found if (p.model, p.arm) == (Model.GPT2, Arm.CRT)]
    conditions = len(grid.gammas) + len(grid.epsilons) - 1
    assert len(confidential) == conditions * len(ordinary)
    own = [p.seed for p in found if (p.set_name, p.model) == ("multiwoz21", Model.LSTM)]
    assert own == sorted(own)


def test_a_point_is_another_one_when_anything_it_follows_from_has_changed(grid):
    point = next(points(grid))
    changed = grid.model_copy(update={"training": grid.training.model_copy(update={"epochs": 9.0})})
    more = grid.model_copy(update={"seeds": 9})
    assert point.key(grid) != point.key(changed)
    assert point.key(grid) == point.key(more)


def test_every_arm_trains_and_a_stopped_run_goes_on(grid, tmp_path, monkeypatch):
    losses = np.arange(CANDIDATES, dtype=float)
    monkeypatch.setattr(measure, "candidate_losses", lambda *_: losses)
    monkeypatch.setattr(laboratory, "candidate_tokens", lambda *_, **__: ())
    own = laboratory.Laboratory(grid, tmp_path / "kept")
    tried = {}
    for point in points(grid):
        if (point.model, point.arm) not in tried and point.gamma != 0:
            tried[point.model, point.arm] = own.measured(point)
    assert len(tried) == 11
    for (_, arm), found in tried.items():
        assert math.isfinite(found["perplexity"])
        assert (found["noise"] > 0) == (arm in (Arm.SDP, Arm.DPSGD, Arm.CRT))
        assert math.isfinite(found["promised"]) == (arm in (Arm.PUBLIC, Arm.DPSGD, Arm.CRT))
        assert len(found["exposure_missed"]) == (5 if found["gamma"] else 0)
    assert tried[Model.GPT2, Arm.CRT]["promised"] <= 1
    own.keep(tried[Model.GPT2, Arm.CRT])
    again = laboratory.Laboratory(grid, tmp_path / "kept")
    assert again.done() == [tried[Model.GPT2, Arm.CRT]]
    start = again.start("one", Model.LSTM).model.state_dict()
    for name, weight in own.start("one", Model.LSTM).model.state_dict().items():
        torch.testing.assert_close(start[name], weight)


def made_up(grid):
    rng = np.random.default_rng(1)
    return [
        {"key": point.key(grid), **point.model_dump(mode="json"), "noise": 1.0,
         "promised": math.inf, "start_perplexity": 9.0, "start_perplexity_outside": 5.0,
         "exposure_missed": [],
         **{name: float(rng.uniform()) for name in (
             "perplexity", "perplexity_outside", "exposure_mean", "exposure_highest",
             *(f"{attack}_{kind}" for attack in ("membership", "reference", "group")
               for kind in ("accuracy", "auc", "tpr_1")))}}
        for point in points(grid)
    ]  # fmt: skip


def test_an_interval_is_over_seeds_and_an_arm_without_a_policy_is_a_level_line(grid):
    done = made_up(grid)
    table = summarised(pd.DataFrame(done))
    assert set(table["seeds"]) == {2}
    ours = [p["exposure_mean"] for p in done if (p["model"], p["arm"]) == ("gpt2", "nonprivate")]
    (row,) = table[(table["model"] == "gpt2") & (table["arm"] == "nonprivate")].to_dict("records")
    margin = 12.7062 * np.std(ours, ddof=1) / math.sqrt(2)  # Student's t with one degree of freedom
    assert row["exposure_mean"] == pytest.approx(np.mean(ours))
    assert row["exposure_mean_high"] == pytest.approx(np.mean(ours) + margin, rel=1e-4)
    figure = next(f for f in over_gamma(table, grid) if f.name == "exposure_mean_by_gamma")
    level = figure.rows.query("panel == 'one, gpt2' and arm == 'nonprivate'")
    assert list(level["x"]) == [0.0, 0.5]
    assert level["value"].nunique() == 1


def test_the_accounting_at_gamma_is_that_of_the_theorem():
    rows = accounting().rows
    last = rows[rows["arm"] == "gamma 0.1"].iloc[-1]
    assert math.log1p(0.1 * math.expm1(last["value"])) == pytest.approx(last["x"])


def test_everything_is_written_also_of_one_seed(grid, tmp_path, capsys):
    write_figures([p for p in made_up(grid) if p["seed"] == 0], grid, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"table.csv", "index.html", "perplexity_by_epsilon.csv"} < names
    for path in (tmp_path / "out").glob("*.vl.json"):
        assert json.loads(path.read_text())["data"]["values"]
    assert "index.html" in capsys.readouterr().out
