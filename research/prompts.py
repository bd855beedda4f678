"""Measures how many answers of a local model are usable, for each kind of prompt.

    python -m research.prompts FOLDER --sets yelp cfpb_complaints --texts 24 [--show 3]

For each data set, the command makes `--texts` requests of every kind. The kinds of prompts contain:
only the subject; metadata; metadata and three examples; a parent with half its words blanked; a
parent to rephrase. The provider `huggingface` repeats a request if the answer fails the checks. The
column `usable` shows the number of requests with an answer that passed. The column `near` is the
mean cosine of these answers to the nearest of 500 texts of the test split, by the bundled encoder.
`real`, above the table, is this mean for the real texts in the prompts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

import sugarbush as sb
from research.fine_tuning import Texts, load, schema_of
from sugarbush.embedding import EmbeddingSettings, Encoder
from sugarbush.generators import (
    Answer,
    GeneratorContext,
    RandomRequest,
    Request,
    VariationRequest,
    usage_of,
)

WORDS = 60  # number of requested words, and limit on the words of a text in a prompt
EXAMPLES = 3
REAL = 500
ENCODER = Encoder(EmbeddingSettings(model="bundled", max_tokens=128), cache=None)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The schema of a public data set, and short texts of it, for prompts."""

    schema: sb.Schema
    texts: Texts

    def request(self, way: str, place: int) -> Request:
        text = self.texts.texts[place]
        ask = {"subject": self.schema.subject, "words": WORDS, "sample": place}
        row = self.schema.decode(tuple(self.texts.codes[place].tolist()))
        others = tuple(self.texts.texts[place + 1 + i] for i in range(EXAMPLES))
        match way:
            case "nothing":
                return RandomRequest(**ask)
            case "metadata":
                return RandomRequest(**ask, attributes=row)
            case "metadata and examples":
                return RandomRequest(**ask, attributes=row, examples=others)
            case "blanks":
                return VariationRequest(**ask, parent=text, mask_share=0.5)
            case "said anew":
                return VariationRequest(**ask, parent=text, mask_share=0.0)
        raise ValueError(way)


WAYS = ("nothing", "metadata", "metadata and examples", "blanks", "said anew")


def shown_of(name: str, *, count: int) -> Shown:
    schema = schema_of(name)
    part = load(name, "train", schema, 20 * (count + EXAMPLES))
    short = [i for i, text in enumerate(part.texts) if 20 <= len(text.split()) <= WORDS]
    chosen = short[: count + EXAMPLES]
    return Shown(
        schema=schema,
        texts=Texts(texts=tuple(part.texts[i] for i in chosen), codes=part.codes[chosen]),
    )


def nearness(texts: Sequence[str], real: NDArray[np.float32]) -> float:
    return float((ENCODER.encode(texts) @ real.T).max(axis=1).mean()) if texts else np.nan


def compare(
    name: str, write: Callable[[Sequence[Request]], Sequence[Answer]], *, count: int, show: int
) -> None:
    shown = shown_of(name, count=count)
    real = ENCODER.encode(load(name, "test", shown.schema, REAL).texts)
    print(f"\n{name}: real {nearness(shown.texts.texts, real):.3f}\n")
    print("| asked by | usable | near | words | new tokens a CPU-s | problems |")
    print("|---|---:|---:|---:|---:|---|")
    for way in WAYS:
        begun = time.process_time()
        answers = write([shown.request(way, place) for place in range(count)])
        spent = time.process_time() - begun
        texts = [answer.text for answer in answers if answer.text is not None]
        usage = usage_of(answers)
        problems = ", ".join(f"{kind} {n}" for kind, n in sorted(usage.problems.items()))
        words = np.mean([len(text.split()) for text in texts]) if texts else np.nan
        print(
            f"| {way} | {len(texts)} of {count} | {nearness(texts, real):.3f} | {words:.0f} "
            f"| {usage.completion_tokens / spent:.0f} | {problems} |",
            flush=True,
        )
        for text in texts[:show]:
            print(f"    {text[:300]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder")
    parser.add_argument("--sets", nargs="+", default=["yelp", "cfpb_complaints"])
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--max-tokens", type=int, default=128)
    asked = parser.parse_args()
    params = sb.HuggingFace(
        model=asked.model, device="auto", dtype=asked.dtype, temperature=0.8, top_p=0.95,
        max_tokens=asked.max_tokens, batch_tokens=16384,
    )  # fmt: skip
    with TemporaryDirectory() as state:
        generator = params.open(
            GeneratorContext(
                seed=1,
                state=Path(state),
                account="prompts",
                stage="prompts",
                base=Path(),
                embed=ENCODER.encode,
                say=print,
            )
        )

        def write(requests: Sequence[Request]) -> Sequence[Answer]:
            return generator.generate(sb.Released(tuple(requests))).value

        for name in asked.sets:
            compare(name, write, count=asked.texts, show=asked.show)


if __name__ == "__main__":
    main()
