"""Steers a local language model by one noisy sum of activation differences.

    python -m research.steering research/settings/language_model.yaml cfpb_complaints --model FOLDER

The vector is computed in these steps:

1. The model reads each record after the prompt of a request. The residual stream after some layers
  is averaged over the first tokens of the record.
2. The mean for the model's own texts is subtracted.
3. Each layer is divided by the median distance of the model's own texts from their mean.
4. All layers together are clipped to norm 1 and written as integers in units of 1/2^20.
5. The contributions of all records are added up, and the sum gets noise.

The steering uses only the direction of each layer. So the number of records is not needed. During
generation, the vector is added after each layer, at the last position of the prompt and at every
new token.

Guarantee: one discrete Gaussian mechanism of L2 sensitivity 2^20 for one record. The mechanism is
charged before its noise is drawn. Records are not sampled. The centre and the scale are public.

The command compares three generators on the same requests: without a vector, with a random vector
of the same length, and with the vector at --epsilon. The output is
reports/internal/steering/<set>/ and a table, with paired differences to the model without a vector.

Source: EPSVec (arXiv 2602.21218). Our accounting differs: one record changes the sum by the
clipping norm, and there is no amplification by sampling.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import t as student
from transformers import AutoModelForCausalLM, AutoTokenizer

import sugarbush as sb
from research.benchmark_dataset import BenchmarkDataset, datasets
from research.small_models import device
from sugarbush.generators import Answer, GeneratorContext, RandomRequest, Request, continuation
from sugarbush.paths import Roots, atomic_file, make_private
from sugarbush.privacy import BudgetRequest, make_plan, noisy_sum
from sugarbush.randomness import public_rng
from sugarbush.settings import NOT_IN_OUTPUT

ONE = 2**20
_SHORTEST = 10  # prompts take their examples from this number of short donated texts


@dataclass(frozen=True, kw_only=True)
class Steering:
    """A steering: `vectors` (l, h) are added after `layers` (l,), charged by `ledger_ids`."""

    layers: tuple[int, ...]
    vectors: NDArray[np.float32]
    ledger_ids: tuple[str, ...] = ()

    def save(self, file: Path) -> None:
        ids = np.array(self.ledger_ids, dtype=str)
        np.savez(file, layers=np.array(self.layers), vectors=self.vectors, ledger_ids=ids)

    @classmethod
    def load(cls, file: Path) -> Steering:
        with np.load(file) as found:
            return cls(
                layers=tuple(found["layers"].tolist()),
                vectors=found["vectors"],
                ledger_ids=tuple(found["ledger_ids"].tolist()),
            )


@contextmanager
def added(steering: Steering) -> Iterator[None]:
    """Add the vectors at the last position of every forward pass, in all models of this process.

    With padding on the left, the last position of a prompt is its last token. Later passes have one
    token. The layers of the model must have `self_attn.layer_idx`, as in Llama and Qwen.
    """
    vectors = {
        layer: torch.tensor(vector)
        for layer, vector in zip(steering.layers, steering.vectors, strict=True)
    }

    def add(module: Any, _: Any, output: Any) -> Any:
        layer = getattr(getattr(module, "self_attn", None), "layer_idx", None)
        if layer not in vectors:
            return None
        hidden = (output[0] if isinstance(output, tuple) else output).clone()
        hidden[:, -1:] += vectors[layer].to(hidden)
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

    handle = torch.nn.modules.module.register_module_forward_hook(add)
    try:
        yield
    finally:
        handle.remove()


class Steered(sb.HuggingFace):
    """A local model with the vectors of a file that `Steering.save` wrote.

    >>> Steered(model="FOLDER", vectors="steering.npz").facts().provider
    'steered'
    """

    name: ClassVar[str] = "steered"

    vectors: Annotated[str, NOT_IN_OUTPUT]
    """File of the vectors. Cache keys contain the hash of the file, but not its path."""

    def digest(self) -> str:
        return hashlib.sha256(Path(self.vectors).read_bytes()).hexdigest()

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "vectors": self.digest()}

    def facts(self) -> Any:
        return replace(super().facts(), provider=self.name)

    def open(self, context: GeneratorContext) -> Any:
        """Open the model. Each file of vectors has its own cache, because the keys of cached
        answers omit the vectors."""
        own = replace(context, state=context.state / f"steered-{self.digest()}")
        return _SteeredGenerator(super().open(own), Steering.load(Path(self.vectors)))


@dataclass(frozen=True)
class _SteeredGenerator:
    inner: Any
    steering: Steering

    def generate(
        self, requests: sb.Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> sb.Released[tuple[Answer, ...]]:
        with added(self.steering):
            found = self.inner.generate(requests, what=what)
        return sb.Released(found.value, (*found.ledger_ids, *self.steering.ledger_ids))


class ActivationReader:
    """Reads the residual stream after `layers`, averaged over the first `tokens` tokens of a text.

    Every pass has `rows` texts of `tokens` tokens after the same prompt. With other shapes, the
    rounding of a row would depend on the other texts.
    """

    def __init__(
        self,
        folder: str,
        layers: Sequence[int],
        *,
        prompt: str,
        dtype: torch.dtype,
        tokens: int = 64,
        rows: int = 16,
    ) -> None:
        self._layers, self._tokens, self._rows = list(layers), tokens, rows
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        network = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().model
        # transformers normalises the last state that it returns, so one more layer is computed.
        network.layers = network.layers[: max(layers) + 2]
        self._network = network.to(device())
        ids = torch.tensor([self._tokenizer(prompt)["input_ids"]], device=device())
        with torch.inference_mode():
            self._prompt = network(ids, use_cache=True).past_key_values

    def read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the means, (n, l, h). Row i depends on text i alone."""
        chunks = [texts[i : i + self._rows] for i in range(0, len(texts), self._rows)]
        return np.concatenate([self._read(chunk)[: len(chunk)] for chunk in chunks])

    @torch.inference_mode()
    def _read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        ids = torch.zeros((self._rows, self._tokens), dtype=torch.int64)
        mask = torch.zeros((self._rows, self._tokens, 1))
        for row, text in enumerate(texts):
            own = self._tokenizer(text, add_special_tokens=False)["input_ids"][: self._tokens]
            ids[row, : len(own)] = torch.tensor(own, dtype=torch.int64)
            mask[row, : len(own)] = 1
        cache = copy.deepcopy(self._prompt)
        cache.batch_repeat_interleave(self._rows)
        states = self._network(
            ids.to(device()), past_key_values=cache, output_hidden_states=True
        ).hidden_states
        mask = mask.to(device())
        means = [
            (states[layer + 1].float() * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
            for layer in self._layers
        ]
        return torch.stack(means, dim=1).cpu().numpy()


def contributions(
    private: NDArray[np.float32], centre: NDArray[np.float32], scale: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Return one row per record, (n, l * h), of L2 norm at most ONE, rounded towards 0."""
    rows = ((private - centre) / scale[:, None]).astype(np.float64).reshape(len(private), -1)
    rows /= np.sqrt(private.shape[1])
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    return np.trunc(rows * ONE).astype(np.int64)


def scaled(
    direction: NDArray[Any], scale: NDArray[np.float32], *, alpha: float
) -> NDArray[np.float32]:
    """Return vectors (l, h) of length `alpha` times `scale` (l,) in the directions (l * h,)."""
    rows = np.asarray(direction, dtype=np.float64).reshape(len(scale), -1)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return (alpha * scale[:, None] * rows).astype(np.float32)


def learn(
    texts: sb.Private[str],
    own_texts: Sequence[str],
    reader: ActivationReader,
    *,
    layers: Sequence[int],
    alpha: float,
    mu: float,
    session: sb.PrivacySession,
) -> tuple[Steering, NDArray[np.float32]]:
    """Return the steering towards `texts`, and the public scale (l,).

    `own_texts` are texts of the model, public or released. Guarantee: mu-GDP for one unit. The
    accounting is exact for discrete noise. Raises BudgetExceededError before the draw.
    """
    own = reader.read(own_texts)
    centre = own.mean(axis=0)
    scale = np.median(np.linalg.norm(own - centre, axis=-1), axis=0)
    rows = texts.map_batch(lambda batch: contributions(reader.read(batch), centre, scale))
    total = noisy_sum(
        rows,
        scores=lambda block: [block],
        size=centre.size,
        record_l2_sensitivity=ONE,
        stddev=ONE * session.records_per_unit / mu,
        session=session,
    )
    vectors = scaled(total.value, scale, alpha=alpha)
    return Steering(layers=tuple(layers), vectors=vectors, ledger_ids=total.ledger_ids), scale


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A comparison: the data set, the settings of the model, and the sizes.

    `folder` contains vectors, answers and the ledger. So a stopped run continues, and draws no
    noise again.
    """

    dataset: BenchmarkDataset
    model: sb.HuggingFace
    asked: argparse.Namespace
    folder: Path

    def run(self, seed: int) -> Iterator[dict[str, Any]]:
        """Write texts without a vector, with a random vector, and with the steering. Yield one row
        each."""
        asked, corpus = self.asked, self.dataset.corpus
        donated = sorted(corpus.donated.texts, key=len)[:_SHORTEST]
        chosen = public_rng(seed, "shown").choice(len(donated), size=asked.examples, replace=False)
        request = RandomRequest(
            subject=corpus.schema.subject, examples=tuple(donated[i] for i in chosen)
        )
        plain = self._texts(self.model, request, seed)
        yield self._row("none", plain, seed)
        files = {arm: self.folder / f"{arm}-{seed}.npz" for arm in ("random", "steered")}
        if not all(file.exists() for file in files.values()):
            self._save_vectors(request, plain, files, seed)
        for arm, file in files.items():
            generator = Steered(**{**self.model.model_dump(), "vectors": str(file)})
            yield self._row(arm, self._texts(generator, request, seed), seed)

    def _save_vectors(
        self, request: RandomRequest, plain: list[str], files: Mapping[str, Path], seed: int
    ) -> None:
        """Draw the noise of a run's steering, and a random vector of the same length."""
        asked = self.asked
        prompt = continuation(request, context_tokens=4096, max_tokens=self.model.max_tokens)
        reader = ActivationReader(
            self.model.model, asked.layers, prompt=prompt, dtype=torch.bfloat16, tokens=48
        )
        whole = BudgetRequest(name="steering", share=1.0, count=0)
        mu = make_plan([whole], epsilon=asked.epsilon, delta=1e-6).of("steering").mu
        ledger = sb.open_ledger(
            f"steering-{seed}", cap=asked.epsilon * 1.01, purpose="benchmark", state=self.folder
        )
        steering, scale = learn(
            sb.Private(list(self.dataset.corpus.real_texts("train").texts)), plain, reader,
            layers=asked.layers, alpha=asked.alpha, mu=mu,
            session=sb.PrivacySession(ledger=ledger, stage="steering", run=f"{seed}"),
        )  # fmt: skip
        noise = public_rng(seed, "random vector").standard_normal(steering.vectors.size)
        random = replace(steering, vectors=scaled(noise, scale, alpha=asked.alpha), ledger_ids=())
        random.save(files["random"])
        steering.save(files["steered"])

    def _texts(self, settings: sb.HuggingFace, request: RandomRequest, seed: int) -> list[str]:
        context = GeneratorContext(
            seed=seed, state=self.folder, account="steering", stage="steering", base=Path(),
            embed=lambda texts: self.dataset.corpus.encode(texts, private=False), say=print,
        )  # fmt: skip
        requests = tuple(replace(request, sample=i) for i in range(self.asked.texts))
        answers = settings.open(context).generate(sb.Released(requests)).value
        return [answer.text for answer in answers if answer.text is not None]

    def _row(self, arm: str, texts: list[str], seed: int) -> dict[str, Any]:
        found = {**self.dataset.measured(texts, seed=seed), "usable": len(texts)}
        print(seed, arm, found, f"{time.process_time():.0f} CPU-s", flush=True)
        return {"arm": arm, "run": seed, **found}


def table(rows: pd.DataFrame) -> str:
    """Return a Markdown table of means with 95% intervals, and of differences to `none`."""
    wide = rows.pivot(index="run", columns="arm")
    lines = ["| texts | metric | mean | less none |", "|---|---|---|---|"]
    for arm in rows["arm"].unique():
        for metric in ("mauve", "mauve_tfidf", "mean_jsd", "usable"):
            own, plain = wide[metric, arm], wide[metric, "none"]
            gain = "" if arm == "none" else _mean(own - plain)
            lines.append(f"| {arm} | {metric} | {_mean(own)} | {gain} |")
    return "\n".join(lines)


def _mean(values: Any) -> str:
    count = len(values)
    reach = student.ppf(0.975, count - 1) * values.std() / count**0.5 if count > 1 else np.nan
    return f"{values.mean():.3f} ± {reach:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweep", type=Path)
    parser.add_argument("set")
    parser.add_argument("--model", required=True, help="folder of a model without a chat template")
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 13, 14, 15])
    parser.add_argument("--alpha", type=float, default=0.125)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--examples", type=int, default=2)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--max-tokens", type=int, default=80)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    asked = parser.parse_args()
    (dataset,) = datasets(asked.sweep, sets=[asked.set], records=asked.records, texts=asked.texts)
    model = sb.HuggingFace(
        model=asked.model, dtype="bfloat16", temperature=0.8, max_tokens=asked.max_tokens
    )
    folder = make_private(Roots(Path()).internal / "steering" / asked.set)
    trial = Trial(dataset=dataset, model=model, asked=asked, folder=folder)
    rows = [row for seed in asked.seeds for row in trial.run(seed)]
    with atomic_file(folder / "runs.csv") as path:
        pd.DataFrame(rows).to_csv(path, index=False)
    print(table(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
