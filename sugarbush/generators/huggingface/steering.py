"""Reads and changes the hidden states of a local model: the residual stream after its layers.

`ActivationReader` reads what a model computes from texts. `steered` adds vectors to the hidden
states while the model writes. A vector comes from `generator.with_released(steering=...)`.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sugarbush.errors import ParamsError
from sugarbush.generators.huggingface.model import LocalModel, load_model
from sugarbush.generators.huggingface.model_settings import LocalModelSettings

Steering = Mapping[int, NDArray[np.float64]]  # layer to vector (hidden size,)


def checked_steering(local: LocalModel, steering: Mapping[Any, Any]) -> Steering:
    """Return the vectors. Raises ParamsError if a layer or a size is not that of the model."""
    layers, size = len(_layers(local.model)), _hidden_size(local.model)
    for layer, vector in steering.items():
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < layers:
            raise ParamsError(f"steering: the model has the layers 0 to {layers - 1}, not {layer}")
        if np.shape(vector) != (size,):
            raise ParamsError(
                f"steering: the vector of layer {layer} has the shape {np.shape(vector)}, but the "
                f"hidden states of the model have the size {size}"
            )
    return steering


@contextmanager
def steered(model: Any, steering: Steering) -> Iterator[None]:
    """Add the vectors after their layers, at the last position of every forward pass.

    With padding on the left, the last position of a prompt is its last token. Each later pass has
    one new token. Passes in other threads stay as they are.
    """
    thread = threading.get_ident()
    layers: Any = _layers(model) if steering else ()
    with ExitStack() as hooks:
        for layer, numbers in steering.items():
            vector = torch.tensor(np.asarray(numbers))

            def add(_: Any, __: Any, output: Any, vector: Tensor = vector) -> Any:
                if threading.get_ident() != thread:
                    return None
                hidden = (output[0] if isinstance(output, tuple) else output).clone()
                hidden[:, -1:] += vector.to(hidden)
                return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

            hooks.callback(layers[layer].register_forward_hook(add).remove)
        yield


class ActivationReader:
    """Reads hidden states after `layers`, averaged over the first `tokens` tokens of a text.

    The model of `params` reads each text after `prompt`. Nothing is cached or logged, so the texts
    may be private (`Private.map_batch`). Every pass has `rows` texts of `tokens` tokens. With other
    shapes, the rounding of a text would depend on the other texts. Raises ParamsError if the model
    cannot be used or lacks a layer.
    """

    def __init__(
        self,
        params: LocalModelSettings,
        layers: Sequence[int],
        *,
        prompt: str,
        tokens: int = 64,
        rows: int = 16,
    ) -> None:
        self._local, self._layers = load_model(params), list(layers)
        self._tokens, self._rows = tokens, rows
        size = _hidden_size(self._local.model)
        checked_steering(self._local, {layer: np.zeros(size) for layer in layers})
        tokenizer, device = self._local.tokenizer, self._local.device
        ids = torch.tensor([tokenizer(prompt)["input_ids"]], dtype=torch.int64, device=device)
        with torch.inference_mode():
            output = self._local.model(ids, use_cache=True) if ids.shape[1] else None
        self._prompt = None if output is None else output.cache

    def read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the means, (n, layers, hidden size). Row i depends on text i alone.

        A text without tokens has zeros.
        """
        size = _hidden_size(self._local.model)
        means = [np.empty((0, len(self._layers), size), dtype=np.float32)]
        for start in range(0, len(texts), self._rows):
            chunk = texts[start : start + self._rows]
            means.append(self._read(chunk)[: len(chunk)])
        return np.concatenate(means)

    @torch.inference_mode()
    def _read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        local = self._local
        ids = torch.zeros((self._rows, self._tokens), dtype=torch.int64)
        mask = torch.zeros((self._rows, self._tokens, 1), device=local.device)
        for row, text in enumerate(texts):
            encoded = local.tokenizer(text, add_special_tokens=False, split_special_tokens=True)
            tokens = encoded["input_ids"][: self._tokens]
            ids[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
            mask[row, : len(tokens)] = 1
        cache = copy.deepcopy(self._prompt)
        if cache is not None:
            cache.batch_repeat_interleave(self._rows)
        states: dict[int, Tensor] = {}
        thread = threading.get_ident()
        with ExitStack() as hooks:
            for layer in self._layers:

                def keep(_: Any, __: Any, output: Any, layer: int = layer) -> None:
                    if threading.get_ident() == thread:
                        states[layer] = output[0] if isinstance(output, tuple) else output

                module = _layers(local.model)[layer]
                hooks.callback(module.register_forward_hook(keep).remove)
            local.model(ids.to(local.device), cache=cache)
        means = [
            (states[layer].float() * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
            for layer in self._layers
        ]
        activations: NDArray[np.float32] = torch.stack(means, dim=1).cpu().numpy()
        return activations


def _layers(model: Any) -> nn.ModuleList:
    """Return the decoder layers, such as `model.layers` of a Llama or `transformer.h` of a GPT-2.

    Raises ParamsError for a model without one list of layers.
    """
    count = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise ParamsError(
        f"the layers of a {type(model).__name__} are unknown, so it cannot be steered"
    )


def _hidden_size(model: Any) -> int:
    return int(model.config.get_text_config().hidden_size)
