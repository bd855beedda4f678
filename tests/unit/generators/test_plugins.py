"""Tests that a generator plug-in needs one module and one entry point.

The settings select it by name.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sugarbush.errors import ParamsError
from sugarbush.generators.interface import (
    Answer,
    GeneratorContext,
    GeneratorFacts,
    RandomRequest,
    Request,
)
from sugarbush.generators.openai.settings import OpenAI
from sugarbush.generators.pool import Pool
from sugarbush.generators.settings import GeneratorSection
from sugarbush.privacy.data_types import Released
from sugarbush.registry import GENERATORS, load_plugin, plugin_names
from sugarbush.run.settings import load_params, parse_params
from tests.settings import ROOT, settings

PARROT = """
from typing import Annotated, ClassVar

from sugarbush.generators.interface import Answer, GeneratorSettings
from sugarbush.settings import NOT_IN_OUTPUT


class Parrot(GeneratorSettings):
    name: ClassVar[str] = "parrot"

    words: str = "hello"
    volume: Annotated[int, NOT_IN_OUTPUT] = 3

    def open(self, context):
        return Bird(self.words)


class Bird:
    def __init__(self, words):
        self._words = words

    def generate(self, requests, *, what="answers"):
        return requests.map(lambda asked: tuple(Answer(text=self._words) for _ in asked))
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs a package with the generator plug-in `parrot`."""

    def installed(package: str, *, name: str = "parrot", module: str = "parrot_plugin") -> None:
        folder = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GENERATORS}]\n{name} = {module}:Parrot\n")
        (folder / "parrot_plugin.py").write_text(PARROT)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, "parrot_plugin", raising=False)

    return installed


def context(base: Path) -> GeneratorContext:
    return GeneratorContext(
        seed=1, state=base / "state", account="tickets", stage="evolve", base=base,
        embed=lambda texts: load_nothing(), say=print,
    )  # fmt: skip


def load_nothing() -> Any:
    raise AssertionError("nothing is to be embedded")


def with_generator(**changes: object) -> dict[str, object]:
    fields = settings()
    fields["generator"] |= changes
    return fields


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("simulator", "SimulatorWriter"),
        ("openai", "OpenAiGenerator"),
        ("huggingface", "HuggingFaceGenerator"),
    ],
)
def test_the_chosen_generator_opens_without_writing_anything(
    provider: str, name: str, tmp_path: Path
) -> None:
    section = load_params(ROOT / "params.yaml").generator.model_copy(update={"provider": provider})
    assert type(section.chosen.open(context(tmp_path))).__name__ == name
    assert list(tmp_path.iterdir()) == []


def test_the_simulator_loads_neither_torch_nor_the_sdk() -> None:
    program = (
        "import sys; from pathlib import Path; from sugarbush.examples.generator import Simulator;"
        "from sugarbush.generators.interface import GeneratorContext;"
        "context = GeneratorContext(seed=1, state=Path('x'), account='a', stage='b',"
        " base=Path('.'), embed=None, say=print);"
        "Simulator().open(context);"
        "assert not {'torch', 'transformers', 'openai', 'diskcache'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=900)


def test_the_built_in_generators_are_registered_as_a_third_party_s_are() -> None:
    assert set(plugin_names(GENERATORS)) >= {"simulator", "pool", "openai", "huggingface"}
    for name in ("simulator", "pool", "openai", "huggingface"):
        assert load_plugin(GENERATORS, name).name == name


def test_a_third_party_s_generator_is_chosen_by_its_name(install: Install, tmp_path: Path) -> None:
    install("parrots")
    fields = with_generator(provider="parrot", parrot={"words": "ahoy", "volume": 9})
    section = parse_params(fields).generator
    requests = Released((RandomRequest(subject="letters"),), ("entry-1",))
    answers = section.chosen.open(context(tmp_path)).generate(requests)
    assert answers == Released((Answer(text="ahoy"),), ("entry-1",))
    assert section.identity() == {"provider": "parrot", "words": "ahoy"}
    assert section.chosen.facts() == GeneratorFacts(provider="parrot")


def test_what_a_generator_does_not_say_has_a_harmless_default(
    install: Install, tmp_path: Path
) -> None:
    install("parrots")
    chosen = parse_params(with_generator(provider="parrot")).generator.chosen
    no_requests: Released[tuple[Request, ...]] = Released(())
    chosen.preflight(context(tmp_path), no_requests)
    assert chosen.answer_token_limit is chosen.price is chosen.endpoint is None
    assert chosen.public_files() == chosen.public_texts(tmp_path) == ()


def test_a_generator_that_the_settings_do_not_name_is_not_imported(install: Install) -> None:
    install("parrots")
    parse_params({"generator": {"provider": "simulator", "max_dropped_share": 0.5}})
    assert "parrot_plugin" not in sys.modules


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"provider": "oracle"},
            "provider: 'oracle' is not an installed generator. Known: huggingface, openai, pool,",
        ),
        ({"oracle": {"key": 1}}, "oracle: is not a setting, and 'oracle' is not an installed"),
        ({"openai": {"model": ""}}, "openai.model: "),
        (
            {"openai": {"model": "m", "max_token": 1}},
            "openai.max_token is not a known setting; did you mean max_tokens",
        ),
        ({"provider": "huggingface", "huggingface": {}}, "huggingface.model is missing"),
    ],
)
def test_a_wrong_generator_setting_is_named(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ParamsError, match=re.escape(f"params.yaml: generator.{complaint}")):
        parse_params(with_generator(**changes))


def test_two_packages_that_register_one_name_are_named(install: Install) -> None:
    install("parrots")
    install("budgies")
    with pytest.raises(ParamsError, match="budgies and parrots both register a generator named"):
        load_plugin(GENERATORS, "parrot")


def test_a_plug_in_that_cannot_be_imported_is_named(install: Install) -> None:
    install("parrots", module="no_such_module")
    with pytest.raises(ParamsError, match="'parrot' of parrots cannot be imported: No module"):
        load_plugin(GENERATORS, "parrot")


def test_only_the_chosen_generator_affects_the_output() -> None:
    before = parse_params(settings()).generator
    other = parse_params(with_generator(openai={"model": "another"})).generator
    assert before != other
    assert before.output_settings() == other.output_settings()


def test_a_section_is_made_of_a_generator_s_settings() -> None:
    openai = OpenAI(model="m", prices={})
    section = GeneratorSection.model_validate({"provider": "openai", "openai": openai})
    assert section.chosen is openai
    assert section.of(Pool) == Pool()
