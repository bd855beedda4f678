"""Tests of a leakage grid: its points, all methods on all models, stored results and figures."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from research import leakage_batch as leakage
from research.leakage import grid as leakage_grid
from research.leakage import measure
from research.leakage.canaries import CANDIDATES, Canary
from research.leakage.figures import accounting, over_gamma, summarised
from research.leakage.grid import LeakageGrid, ModelKind, TrainingMethod, load_grid, points
from research.leakage_points import Points
from sugarbush.errors import InputError, LedgerError, ParamsError
from sugarbush.privacy.events import NonPrivate
from sugarbush.privacy.fingerprint import make_dataset_fingerprint
from sugarbush.privacy.key import state_key
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from sugarbush.training.crt.patterns import PATTERNS

SETTINGS = Path(__file__).parents[2] / "research" / "settings"
GRIDS = sorted(path.name for path in SETTINGS.glob("crt_figures*.yaml"))


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def fields(tmp_path):
    texts = [f"SYS: how can I help, {n}?\nUSR: my phone is 555-010-{n:04d}." for n in range(60)]
    phone = [[{"start": t.index("555"), "end": len(t) - 1, "label": "PHONE"}] for t in texts]
    frame = pd.DataFrame({"text": texts, "spans": [json.dumps(spans) for spans in phone]})
    frame.to_parquet(tmp_path / "texts.parquet")
    small = yaml.safe_load((SETTINGS / "crt_figures_small.yaml").read_text())
    own = small["models"]["gpt2"]
    own["training"] |= {"public_epochs": 0.5, "epochs": 0.5, "noisy_epochs": 0.5}
    own["shape"] = {"vocabulary": 300, "context": 32, "layers": 1, "width": 8}
    return small | {
        "sets": {
            "one": {
                "file": "texts.parquet",
                "purpose": "benchmark",
                "public": 20,
                "members": 20,
                "others": 20,
                "secrets": ["PHONE"],
            }
        },
        "models": {
            "gpt2": own
            | {"arms": [arm.value for arm in TrainingMethod if arm is not TrainingMethod.SDP]},
            "lstm": own | {"arms": ["nonprivate", "sdp", "crt"]},
        },
        "seeds": 2,
        "repeats": 2,
        "groups": 8,
        "group_size": 3,
        "gammas": [0.0, 0.5],
    }


@pytest.fixture
def grid(fields):
    return LeakageGrid.model_validate(fields)


@pytest.mark.parametrize("name", GRIDS)
def test_the_committed_grids_train_arms_without_a_policy_once_a_seed(name):
    grid = load_grid(SETTINGS / name)
    found = list(points(grid))
    assert len({point.key(grid, file="0") for point in found}) == len(found)
    ordinary = [p for p in found if p.arm is TrainingMethod.NONPRIVATE]
    assert len(ordinary) == grid.seeds * len(grid.sets) * len(grid.models)
    confidential = [p for p in found if p.arm is TrainingMethod.CRT]
    conditions = len(grid.gammas) + len(grid.epsilons) - 1
    assert len(confidential) == conditions * len(ordinary)
    batches = [p.batch for p in found]
    assert batches == sorted(batches)


def test_a_point_is_another_one_when_anything_it_follows_from_has_changed(
    grid, fields, monkeypatch
):
    point = next(points(grid))

    def key(*, file="0", **changes):
        return point.key(LeakageGrid.model_validate(fields | changes), file=file)

    before = key()
    own = fields["models"]["gpt2"]
    changed = own | {"training": own["training"] | {"epochs": 9.0}}
    assert key(models=fields["models"] | {"gpt2": changed}) != before
    assert key(models=fields["models"] | {"lstm": changed}) == before
    assert key(seeds=9) == before
    assert key(delta=1e-6) != before
    assert key(file="1") != before
    weaker = replace(PATTERNS["NAME"], expression=re.compile("[A-Z][a-z]+ [A-Z][a-z]+"))
    with monkeypatch.context() as patch:
        patch.setitem(PATTERNS, "NAME", weaker)
        assert key() != before
    with monkeypatch.context() as patch:
        patch.setattr(leakage_grid, "VERSION", 0)
        assert key() != before
    assert key() == before


def test_a_grid_goes_on_with_no_point_of_a_file_that_has_changed_since(fields, tmp_path):
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(fields))

    def kept():
        return Points(tmp_path, Path("grid.yaml"))

    first, second, *_ = points(kept().grid)
    kept().keep(first, {"noise": 1.0})
    assert [found["noise"] for found in kept().done()] == [1.0]
    texts = pd.read_parquet(tmp_path / "texts.parquet")
    texts.assign(text=texts["text"] + " ").to_parquet(tmp_path / "texts.parquet")
    assert kept().done() == []
    assert next(kept().unfinished()) == first
    texts.to_parquet(tmp_path / "texts.parquet")
    assert next(kept().unfinished()) == second
    (tmp_path / "texts.parquet").unlink()
    with pytest.raises(InputError, match=r"not found \(setting sets\.one\.file\)"):
        kept()


def test_a_first_model_of_an_earlier_version_is_not_taken_up(grid, tmp_path, state, monkeypatch):
    trained = []
    monkeypatch.setattr(leakage, "train_first_model", lambda *_: trained.append(leakage.VERSION))
    for version in (1, 1, 2):
        monkeypatch.setattr(leakage, "VERSION", version)
        leakage.Laboratory(tmp_path, grid).start("one", ModelKind.GPT2)
    assert trained == [1, 2]


def test_misses_are_measured_again_on_another_file(grid, tmp_path, state):
    def bound():
        return leakage.Laboratory(tmp_path, grid).delta_2("one")

    assert bound() == pytest.approx(1 - 0.025 ** (1 / 60))
    texts = pd.read_parquet(tmp_path / "texts.parquet")
    texts[:30].to_parquet(tmp_path / "texts.parquet")
    assert bound() == pytest.approx(1 - 0.025 ** (1 / 30))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"purpose": "release"}, r"sets\.one is not declared public"),
        ({"purpose": "example"}, r"sets\.one is not declared public"),
        ({"members": 1}, r"sets\.one\.members"),
    ],
)
def test_a_set_that_is_not_declared_public_is_refused(fields, tmp_path, changes, said):
    fields["sets"]["one"] |= changes
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(fields))
    with pytest.raises(ParamsError, match=said):
        load_grid(tmp_path / "grid.yaml")


def test_selective_noise_is_refused_on_a_model_that_cannot_have_it(fields, tmp_path):
    fields["models"]["gpt2"]["arms"] = ["sdp"]
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(fields))
    with pytest.raises(ParamsError, match="needs the LSTM"):
        load_grid(tmp_path / "grid.yaml")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gammas": [0.0, 0.0, 0.1]}, r"gammas: a value occurs twice"),
        ({"gammas": [0.5, 0.1]}, r"gammas: the values must increase"),
        ({"epsilons": [1.0, 1]}, r"epsilons: a value occurs twice"),
        ({"group_size": 11}, r"sets\.one: two groups need more than 20 texts"),
    ],
)
def test_a_grid_that_could_not_be_measured_is_refused_before_anything_is_trained(
    fields, tmp_path, changes, said
):
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(fields | changes))
    with pytest.raises(ParamsError, match=said):
        load_grid(tmp_path / "grid.yaml")


def test_arms_named_twice_odd_widths_and_names_that_leave_the_folder_are_refused(fields, tmp_path):
    def refusal(own):
        (tmp_path / "grid.yaml").write_text(yaml.safe_dump(own))
        with pytest.raises(ParamsError) as refused:
            load_grid(tmp_path / "grid.yaml")
        return str(refused.value)

    gpt2 = fields["models"]["gpt2"]
    twice = {"gpt2": gpt2 | {"arms": ["crt", "crt"]}}
    assert "models.gpt2.arms: a value occurs twice" in refusal(fields | {"models": twice})
    odd = {"gpt2": gpt2 | {"shape": gpt2["shape"] | {"width": 9}}}
    assert "models.gpt2.shape.width" in refusal(fields | {"models": odd})
    assert "sets" in refusal(fields | {"sets": {"../../x": fields["sets"]["one"]}})


def test_noise_for_fewer_misses_than_the_labels_allow_is_refused(fields, tmp_path, state):
    # If none of 60 labelled secrets leaves a trace, the upper bound of their share is 6.0%. It has
    # a confidence of 97.5%, because the bound for the public views must hold at the same time.
    low = LeakageGrid.model_validate(fields | {"gammas": [0.0, 0.05]})
    with pytest.raises(ParamsError, match=r"gamma=0\.05 is given.*0\.0596"):
        leakage.Laboratory(tmp_path, low).delta_2("one")
    enough = LeakageGrid.model_validate(fields | {"gammas": [0.0, 0.06]})
    leakage.Laboratory(tmp_path, enough).delta_2("one")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (None, r"not found \(setting sets\.one\.file\)"),
        ({"words": ["a"]}, "has no column 'text'"),
        ({"text": ["a", "b"]}, "has 2 texts; the grid needs 60"),
        ({"text": ["a", None]}, "row 2: has no text"),
        ({"text": ["a", "b"], "is_canary": [True, False]}, "has 1 texts"),
    ],
)
def test_a_file_without_what_is_asked_for_is_refused(grid, tmp_path, state, columns, said):
    (tmp_path / "texts.parquet").unlink()
    if columns is not None:
        pd.DataFrame(columns).to_parquet(tmp_path / "texts.parquet")
    with pytest.raises(InputError, match=said):
        leakage.Laboratory(tmp_path, grid).corpus("one", 0)


def test_a_corpus_that_is_known_as_a_release_is_refused(grid, tmp_path, state):
    texts = pd.read_parquet(tmp_path / "texts.parquet")["text"]
    released = Ledger(
        state, dataset="letters", purpose="release", unit=Unit.RECORD, cap=math.inf, delta=1e-5
    )
    dataset_fingerprint = make_dataset_fingerprint(texts, key=state_key(state))
    released.charge(
        NonPrivate(), stage="finetune", run="1", dataset_fingerprint=dataset_fingerprint
    )
    with pytest.raises(LedgerError, match="known to the ledger as 'letters'"):
        leakage.Laboratory(tmp_path, grid).corpus("one", 0)


def test_a_batch_that_the_grid_has_not_is_refused(fields, tmp_path):
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(fields))
    kept = Points(tmp_path, Path("grid.yaml"))
    assert {point.seed for point in kept.unfinished("one/gpt2/1")} == {1}
    with pytest.raises(ParamsError, match="no batch 'one/gpt2/7'"):
        list(kept.unfinished("one/gpt2/7"))


def test_a_candidate_has_the_tokens_of_a_training_text(grid, tmp_path, state):
    """If the attack encodes the end of a text as its characters, it misses most of a leak."""
    own = leakage.Laboratory(tmp_path, grid)
    start = own.start("one", ModelKind.GPT2)
    ((example,),) = start.examples([Canary(123_456).text])
    prefix, table = own.candidates("one", ModelKind.GPT2)
    candidate = [*prefix, *(token for token in table[123_456].tolist() if token >= 0)]
    assert candidate == example.tokens.tolist()[:-1]


def test_every_arm_trains_and_a_stopped_run_goes_on(fields, tmp_path, state, monkeypatch):
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(fields))
    kept = Points(tmp_path, Path("grid.yaml"))
    grid = kept.grid
    losses = np.arange(CANDIDATES, dtype=float)
    monkeypatch.setattr(measure, "candidate_losses", lambda *_: losses)
    monkeypatch.setattr(leakage, "candidate_tokens", lambda *_: ((), losses))
    own = leakage.Laboratory(tmp_path, grid)
    tried = {}
    for point in points(grid):
        if (point.model, point.arm) not in tried and point.gamma != 0:
            kept.keep(point, own.measured(point, key=kept.key(point)))
            tried[point.model, point.arm] = None
    assert len(tried) == 9
    again = Points(tmp_path, Path("grid.yaml"))
    tried |= {
        (ModelKind(found["model"]), TrainingMethod(found["arm"])): found for found in again.done()
    }
    assert len(list(again.unfinished())) == len(list(points(grid))) - len(tried)
    for (_, arm), found in tried.items():
        assert math.isfinite(found["perplexity"])
        noisy = (
            TrainingMethod.SDP,
            TrainingMethod.DPSGD,
            TrainingMethod.CRT,
            TrainingMethod.CRT_CONSERVATIVE,
        )
        assert (found["noise"] > 0) == (arm in noisy)
        assert math.isfinite(found["promised"]) == (
            arm in {*noisy, TrainingMethod.PUBLIC} - {TrainingMethod.SDP}
        )
        assert len(found["exposure_missed"]) == (5 if found["gamma"] else 0)
    confidential, conservative = (
        tried[ModelKind.GPT2, arm] for arm in (TrainingMethod.CRT, TrainingMethod.CRT_CONSERVATIVE)
    )
    assert confidential["promised"] <= 1
    assert conservative["promised"] == pytest.approx(confidential["promised"])
    # None of 60 secrets shows in the public views, so the upper bound of the share that shows is 1
    # - 0.025^(1/60).
    assert conservative["delta"] == pytest.approx(confidential["delta"] + 1 - 0.025 ** (1 / 60))
    entries = Ledger(
        state, dataset="one", purpose="leakage", unit=Unit.RECORD, cap=math.inf, delta=1e-5
    ).entries()
    assert len(entries) == len(tried) - 2  # `public` and `sdp` charge nothing
    start = leakage.Laboratory(tmp_path, grid).start("one", ModelKind.LSTM).model.state_dict()
    for name, weight in own.start("one", ModelKind.LSTM).model.state_dict().items():
        torch.testing.assert_close(start[name], weight)


def made_up(grid):
    rng = np.random.default_rng(1)
    return [
        {
            **point.model_dump(mode="json"),
            "noise": 1.0,
            "promised": math.inf,
            "delta": 1e-5,
            "start_perplexity": 9.0,
            "start_perplexity_outside": 5.0,
            "exposure_missed": [],
            **{
                name: float(rng.uniform())
                for name in (
                    "perplexity",
                    "perplexity_outside",
                    "exposure_mean",
                    "exposure_highest",
                    *(
                        f"{attack}_{kind}"
                        for attack in ("membership", "reference", "group")
                        for kind in ("accuracy", "auc", "tpr_1")
                    ),
                )
            },
        }
        for point in points(grid)
    ]


def test_an_interval_is_over_seeds_and_an_arm_without_a_policy_is_a_level_line(grid):
    done = made_up(grid)
    table = summarised(done)
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
    accuracy = next(f for f in over_gamma(table, grid) if f.name == "membership_accuracy_by_gamma")
    assert table["membership_accuracy_high"].max() > 1.0 == accuracy.rows["high"].max()


def test_the_accounting_at_gamma_is_that_of_the_theorem():
    rows = accounting().rows
    last = rows[rows["arm"] == "gamma 0.1"].iloc[-1]
    assert math.log1p(0.1 * math.expm1(last["value"])) == pytest.approx(last["x"])
