"""Every small value of a method's settings is a run or one clear message, never a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError

import sugarbush as sb
from sugarbush.errors import ParamsError
from sugarbush.methods.interface import Method

SCHEMA: dict[str, Any] = {
    "subject": "letters",
    "attributes": [{"name": "topic", "values": ["late"], "keywords": {"late": ["late"]}}],
}
VALUES: dict[str, tuple[Any, ...]] = {
    "rounds": (0, 1, 2),
    "variations": (1, 9),
    "candidates": (None, 1, 2),
    "examples": (0, 1),
    "by_label": (False, True),
    "scorer": ("votes", "kernel"),
    "votes": (1, 2, 100),
    "mask_share": (0.01, 1.0),
    "tones": (("angry",),),
    "prompt": ("independent", "metadata", "examples", "both"),
}
TINY: dict[type[Method], dict[str, Any]] = {
    sb.Public: {"candidates": 4},
    sb.Maple: {"candidates": 4, "rounds": 1, "variations": 2, "prompt": "metadata"},
    sb.AugPE: {"candidates": 4, "rounds": 1, "variations": 2},
    sb.Mosaic: {"candidates": 4, "prompt": "metadata"},
}
CASES = [
    pytest.param(kind, tiny | {name: value}, id=f"{kind.name}-{name}-{value}")
    for kind, tiny in TINY.items()
    for name, values in VALUES.items()
    if name in kind.model_fields
    for value in values
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> sb.Corpus:
    frame = pd.DataFrame({"message": [f"Order {i} arrived late" for i in range(120)]})
    privacy = sb.Privacy(epsilon=1, delta=1e-6, dataset="letters", cap=1000)
    state: Path = tmp_path_factory.mktemp("state")
    writer = sb.Simulator(any_texts=True)
    return sb.prepare(
        frame, text="message", schema=SCHEMA, generator=writer, state=state, privacy=privacy
    )


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "fields"), CASES)
def test_every_small_setting_is_a_run_or_a_message(
    corpus: sb.Corpus, kind: type[Method], fields: dict[str, Any]
) -> None:
    try:
        method = kind(**fields)
        release = sb.synthesize(corpus, method=method, texts=3)
    except (ParamsError, ValidationError):
        return
    assert len(release.texts) == 3


def test_every_setting_of_a_method_has_small_values() -> None:
    names = {name for kind in TINY for name in kind.model_fields}
    assert names == set(VALUES)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (sb.Public, {"rounds": 1}, "rounds: is not an argument of Public"),
        (sb.Public, {"candidates": None}, "Set candidates to a number"),
        (sb.Mosaic, {"rounds": 1}, "rounds: is not an argument of Mosaic"),
        (sb.AugPE, {"scorer": "kernel"}, "scorer: kernel needs by_label: false"),
        (sb.Maple, {"votes": 0}, "votes: must be greater"),
        (sb.Maple, {"votes": 101}, "votes: must be less"),
    ],
)
def test_settings_without_an_effect_are_refused(
    kind: type[Method], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**fields)
