"""Measures the time and the peak memory of every stage, on invented or on real records.

    python -m benchmarks.scale --records 20000
    python -m benchmarks.scale --records 1000000 --folder /large/disk --csv docs/log/scale.csv
    python -m benchmarks.scale --records 1000000 --words 60 --like yelp.parquet --encoder light
    python -m benchmarks.scale --records 10000000 --words 20 --project /large/disk/ten \\
        --stages prepare extract_metadata --cluster processes

With `--like`, the texts are those of the given tables, repeated: a tenth of the words are words of
another text, and a text is cut to `--words` words on average. Then `--encoder` is the real encoder.
With `--project`, the project stays on disk, and a later command runs other stages of it. Each stage
is a separate process, as under DVC. A record has 100 words and 8 attributes from columns. Without
`--like`, the encoder has one embedding layer of 384 dimensions. The simulator writes candidates. So
the figures show the cost of the stages themselves. `maple` has two votes. Each stage has one line:
wall seconds, CPU seconds, records per CPU second, and the largest resident size of a process:
`peak_mb X`. With `--csv`, the lines are also added to a table, which
`benchmarks.scale_plot` draws.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from sugarbush.randomness import public_rng

ROOT = Path(__file__).parents[1]
WORDS, ATTRIBUTES, VALUES, DIM, VOCABULARY = 100, 8, 6, 384, 20_000
CHANGED = 0.1  # share of the words of a real text that are those of another
PART_ROWS = 50_000
STAGES = (
    ("prepare",),
    ("extract_metadata",),
    ("synthesize_metadata",),
    ("initialise", "--method", "maple"),
    ("evolve", "--method", "maple"),
    ("enlarge", "--method", "maple"),
    ("evaluate",),
)


def main() -> None:
    options = _options()
    with ExitStack() as stack:
        base = options.project or Path(
            stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder))
        )
        if not (base / "params.yaml").exists():
            # A stage would report the memory of its parent as its own, so a small process starts
            # it.
            writer = get_context("spawn").Process(target=write_project, args=(base, options))
            writer.start()
            writer.join()
        for stage in STAGES:
            wanted = stage[0] in options.stages
            if wanted and not _run(base, stage, options.records, options.csv):
                sys.exit(f"{stage[0]} failed")


def _run(base: Path, stage: tuple[str, ...], records: int, table: Path | None) -> bool:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SUGARBUSH_STATE": str(base / "state"),
        "HF_HUB_OFFLINE": "1",
    }
    start = time.perf_counter()
    command = [sys.executable, "-m", f"tasks.{stage[0]}", *stage[1:]]
    child = subprocess.Popen(command, cwd=base, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    wall, cpu = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
    print(
        f"{records:>9,} {stage[0]:20} {wall:8.1f} s {cpu:8.1f} CPU-s "
        f"{records / cpu:9,.0f} records/CPU-s   peak_mb {usage.ru_maxrss / 1024:.0f}",
        flush=True,
    )
    if table is not None:
        with table.open("a") as file:
            file.write(f"{records},{stage[0]},{wall:.1f},{cpu:.1f},{usage.ru_maxrss // 1024}\n")
    return status == 0


def write_project(base: Path, options: argparse.Namespace) -> None:
    rng, records = public_rng(0, "scale"), options.records
    words = vocabulary(rng)
    folder = base / "corpus"
    folder.mkdir(parents=True)
    texts = real_texts(options.like) if options.like else None
    if texts is None:
        _write_encoder(base / "encoder", words, rng)
    file = folder / "records.csv" if options.csv_corpus else None
    for number, start in enumerate(range(0, records, PART_ROWS)):
        stop = min(start + PART_ROWS, records)
        frame = invented_records(start, stop, words, rng, length=options.words)
        if texts is not None:
            frame["text"] = changed_texts(texts, stop - start, rng, length=options.words)
        if file is None:
            frame.to_parquet(folder / f"part-{number:05d}.parquet", index=False)
        else:
            frame.to_csv(file, index=False, mode="a", header=not start)
    attributes = [
        {"name": f"a{i}", "column": f"a{i}", "values": [f"v{k}" for k in range(VALUES)]}
        for i in range(ATTRIBUTES)
    ]
    (base / "schema.yaml").write_text(
        yaml.safe_dump({"subject": "invented records", "attributes": attributes})
    )
    encoder = options.encoder or "bundled"
    settings: dict[str, Any] = {
        "methods": {"maple": {}},
        "privacy": {"dataset": "scale", "epsilon": 4.0, "delta": min(1e-6, 0.1 / options.records)},
        "prepare": {
            "file": "corpus",
            "id_column": "id",
            "donated": None,
            "schema": "schema.yaml",
        },
        "generator": {"simulator": {"any_texts": True}},
        "embedding": {"model": encoder if options.like else str(base / "encoder")},
        "run": {"cluster": options.cluster},
    }
    (base / "params.yaml").write_text(yaml.safe_dump(settings))


def invented_records(
    start: int, stop: int, words: list[str], rng: np.random.Generator, *, length: int = WORDS
) -> pd.DataFrame:
    """Return records with words that depend on their first attribute."""
    codes = rng.integers(0, VALUES, (stop - start, ATTRIBUTES))
    places = (rng.random((stop - start, length)) ** 2 * VOCABULARY).astype(np.int64)
    places = (places + codes[:, :1] * (VOCABULARY // VALUES)) % VOCABULARY
    texts = [" ".join([words[place] for place in row]) for row in places]
    columns = {f"a{i}": [f"v{code}" for code in codes[:, i]] for i in range(ATTRIBUTES)}
    ids = [f"record-{place}" for place in range(start, stop)]
    return pd.DataFrame({"id": ids, "text": texts, **columns})


def real_texts(files: list[Path]) -> list[list[str]]:
    """Return the words of each text of all tables."""
    frames = [pd.read_parquet(file, columns=["text"]) for file in files]
    texts = pd.concat(frames)["text"].dropna()
    return [words for text in texts if (words := text.split())]


def changed_texts(
    texts: list[list[str]], count: int, rng: np.random.Generator, *, length: int
) -> list[str]:
    """Return `count` texts of `length` words on average, each with some words of other texts."""
    mean = float(np.mean([len(words) for words in texts]))
    found = []
    for place in rng.integers(len(texts), size=count):
        words = texts[place]
        words = words[: max(3, round(len(words) * length / mean))] if mean > length else words
        other = texts[rng.integers(len(texts))]
        changed = rng.random(len(words)) < CHANGED
        found.append(
            " ".join(
                other[i % len(other)] if change else word
                for i, (word, change) in enumerate(zip(words, changed, strict=True))
            )
        )
    return found


def vocabulary(rng: np.random.Generator) -> list[str]:
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    drawn: dict[str, None] = {}
    while len(drawn) < VOCABULARY:
        drawn["".join(letters[rng.integers(0, 26, rng.integers(2, 9))])] = None
    return list(drawn)


def _write_encoder(folder: Path, words: list[str], rng: np.random.Generator) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    vocabulary = {word: place for place, word in enumerate(["[UNK]", *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    weights = rng.standard_normal((len(vocabulary), DIM), dtype=np.float32)
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)])
    model.save(str(folder))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, help="where the temporary project is written")
    parser.add_argument("--csv", type=Path, help="table to which the lines are added")
    parser.add_argument("--words", type=int, default=WORDS, help="of a text")
    parser.add_argument("--csv-corpus", action="store_true", help="one csv file, not parquet parts")
    parser.add_argument("--like", type=Path, nargs="+", help="tables of texts, as parquet")
    parser.add_argument("--encoder", help="with --like: embedding.model (default: bundled)")
    parser.add_argument("--project", type=Path, help="a folder for a project that stays")
    parser.add_argument("--stages", nargs="+", default=[stage[0] for stage in STAGES])
    parser.add_argument("--cluster", default="local", help="the setting run.cluster")
    options = parser.parse_args()
    if options.encoder and not options.like:
        parser.error("--encoder needs --like")
    return options


if __name__ == "__main__":
    main()
