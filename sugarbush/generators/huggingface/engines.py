"""Chooses the program that runs a local model.

OpenVINO GenAI runs a GGUF file and a folder of safetensors on a CPU, faster than transformers
(docs/log/speed.md). transformers runs models on a GPU, models that OpenVINO cannot read, and every
model with steering vectors.
"""

from __future__ import annotations

from pathlib import Path

from sugarbush.errors import ParamsError
from sugarbush.extras import require_extra
from sugarbush.generators.huggingface import openvino_engine
from sugarbush.generators.huggingface.batch import TransformersWriter
from sugarbush.generators.huggingface.folder_weights import unreadable_folder
from sugarbush.generators.huggingface.gguf_weights import unreadable
from sugarbush.generators.huggingface.model import CANNOT_LOAD, ask_hub, device_of, load_model
from sugarbush.generators.huggingface.model_settings import LocalModelSettings, is_gguf
from sugarbush.generators.huggingface.openvino_engine import OpenVINOWriter, load_engine
from sugarbush.generators.huggingface.steering import Steering
from sugarbush.generators.huggingface.writer import Writer

_NO_VECTORS: Steering = {}


def open_writer(params: LocalModelSettings, *, steering: Steering = _NO_VECTORS) -> Writer:
    """Load the model of the settings. Raises ParamsError, which names the wrong setting."""
    if not steering and _engine_problem(params) == "":
        return OpenVINOWriter(load_engine(params), params)
    return TransformersWriter(load_model(params), params, steering=steering)


def engine_name(params: LocalModelSettings) -> str:
    """Return the engine that writes without steering, and its version; empty for transformers."""
    return openvino_engine.engine_name() if _engine_problem(params) == "" else ""


def slow_reason(params: LocalModelSettings) -> str | None:
    """Return why a model is slow on this CPU, for the operator, or None."""
    problem = _engine_problem(params)
    if not problem:
        return None
    return (
        f"{Path(params.model).name}: transformers runs this model, which is slower "
        f"than {openvino_engine.PACKAGE}: {problem}"
    )


def _engine_problem(params: LocalModelSettings) -> str | None:
    """Return why OpenVINO cannot run a model on a CPU; empty if it can.

    The result is None for another device, and for a model that no program reads. Raises ParamsError
    if a package that a GGUF file needs is missing.
    """
    if device_of(params.device).type != "cpu":
        return None
    try:
        require_extra("gguf")
    except ParamsError:
        if is_gguf(params.model):
            raise
        return "it needs the extra gguf. In a clone: pip install '.[gguf]'"
    try:
        if is_gguf(params.model):
            return unreadable(Path(params.model))
        ask_hub(params.model)
        return unreadable_folder(params.model)
    except CANNOT_LOAD:
        return None
