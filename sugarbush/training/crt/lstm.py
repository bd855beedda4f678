"""An LSTM language model of one layer, with the interface of the models in transformers.

Two `nn.Linear` modules compute the gates, and each module is used once per token. So
`PerRecordClipper` clips the gradients exactly. There is no clipping rule for `nn.LSTM`. The
embedding and the hidden state have size 200, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import (
    AutoTokenizer,
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from sugarbush.randomness import seed_of

WIDTH = 200
WEIGHTS = "lstm.safetensors"


@dataclass
class State:
    """Hidden and cell state, (records, width) each."""

    hidden: Tensor
    cell: Tensor

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep only these records. The caches of transformers have the same method."""
        self.hidden, self.cell = self.hidden[indices], self.cell[indices]


@dataclass(frozen=True)
class LstmOutput:
    """Logits, (records, length, vocabulary), and the state after the last token."""

    logits: Tensor
    cache: State


# A function that may change the state after the token at a position.
Gate = Callable[[int, State], State]


class LstmModel(nn.Module):
    """The model. Padding must be on the right; the state after padding is undefined."""

    def __init__(self, *, vocabulary: int, width: int = WIDTH, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(seed, "weights"))
            self.embedding = nn.Embedding(vocabulary, width)
            self.from_input = nn.Linear(width, 4 * width)
            self.from_hidden = nn.Linear(width, 4 * width, bias=False)
            self.head = nn.Linear(width, vocabulary)
            nn.init.normal_(self.embedding.weight, std=0.1)
        self.width = width

    def forward(
        self,
        input_ids: Tensor,
        *,
        cache: State | None = None,
        gate: Gate = lambda position, state: state,
        **_: Any,
    ) -> LstmOutput:
        """Return the logits after each token of `input_ids`, (records, length).

        The first state is `cache`, or zeros. The model ignores mask, positions and `use_cache`,
        which the models of transformers take.
        """
        inputs = self.from_input(self.embedding(input_ids))
        zeros = inputs.new_zeros(len(inputs), self.width)
        state = cache or State(zeros, zeros)
        hiddens = []
        for position in range(input_ids.shape[1]):
            state = self._next(inputs[:, position], state)
            hiddens.append(state.hidden)
            state = gate(position, state)
        return LstmOutput(self.head(torch.stack(hiddens, dim=1)), state)

    def generate(self, input_ids: Tensor, *, generation_config: Any, **_: Any) -> Tensor:
        """Return each row of `input_ids` (records, length) with sampled tokens after it.

        `generation_config` has the same meaning as in transformers. The model reads its
        temperature, top-k, top-p, end token, padding token and largest length.
        """
        how = generation_config
        weighed: Any = LogitsProcessorList(
            [
                TemperatureLogitsWarper(how.temperature),
                TopKLogitsWarper(how.top_k),
                TopPLogitsWarper(how.top_p),
            ]
        )
        drawn, latest, state = input_ids, input_ids, None
        ended = torch.zeros(len(drawn), dtype=torch.bool, device=drawn.device)
        while drawn.shape[1] < how.max_length and not ended.all():
            said = self(latest, cache=state)
            latest = torch.multinomial(weighed(drawn, said.logits[:, -1]).softmax(dim=1), 1)
            latest[ended] = how.pad_token_id
            ended |= latest[:, 0] == how.eos_token_id
            drawn, state = torch.cat([drawn, latest], dim=1), said.cache
        return drawn

    def _next(self, inputs: Tensor, state: State) -> State:
        """Compute the next state (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000)."""
        gates = inputs + self.from_hidden(state.hidden)
        enter, forget, new, leave = gates.chunk(4, dim=1)
        cell = forget.sigmoid() * state.cell + enter.sigmoid() * new.tanh()
        return State(leave.sigmoid() * cell.tanh(), cell)


def save(model: LstmModel, tokenizer: Any, folder: Path) -> None:
    """Write the model and its tokenizer for `load`."""
    save_file(model.state_dict(), folder / WEIGHTS)
    tokenizer.save_pretrained(folder)


def load(folder: Path, *, device: torch.device) -> tuple[LstmModel, Any]:
    """Load a model and its tokenizer. The shapes of the stored weights give the size of the
    model."""
    weights = load_file(folder / WEIGHTS)
    vocabulary, width = weights["embedding.weight"].shape
    model = LstmModel(vocabulary=vocabulary, width=width, seed=0)
    model.load_state_dict(weights)
    return model.to(device), AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
