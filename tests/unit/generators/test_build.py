"""One function builds the generator that the settings name, and loads no other's libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sugarbush.errors import InvariantError
from sugarbush.generators.build import build_generator
from sugarbush.generators.settings import Provider
from sugarbush.pipeline.settings import load_params

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        (Provider.SIMULATOR, "Simulator"),
        (Provider.OPENAI, "OpenAiGenerator"),
        (Provider.HUGGINGFACE, "HuggingFaceGenerator"),
    ],
)
def test_the_provider_of_the_settings_is_built_and_touches_nothing(
    provider: Provider, name: str, tmp_path: Path
) -> None:
    params = load_params(ROOT / "params.yaml").generator.model_copy(update={"provider": provider})
    generator = build_generator(params, state=tmp_path, account="tickets", stage="evolve")
    assert type(generator).__name__ == name
    assert list(tmp_path.iterdir()) == []


def test_a_pool_is_not_built_without_its_texts(tmp_path: Path) -> None:
    params = load_params(ROOT / "params.yaml").generator
    with pytest.raises(InvariantError):
        build_generator(
            params.model_copy(update={"provider": Provider.POOL}),
            state=tmp_path, account="tickets", stage="evolve",
        )  # fmt: skip


def test_the_simulator_loads_neither_torch_nor_the_sdk() -> None:
    program = (
        "import sys; from pathlib import Path; from sugarbush.pipeline.settings import load_params;"
        "from sugarbush.generators.build import build_generator;"
        "build_generator(load_params().generator, state=Path('x'), account='a', stage='b');"
        "assert not {'torch', 'transformers', 'openai', 'diskcache'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=120)
