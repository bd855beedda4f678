"""What does the shape of a record cost? Compares records with a shape and the same as one string.

    python -m benchmarks.record_shapes customersim.parquet mts_dialog.parquet
    python -m benchmarks.record_shapes --valid USR,SYS multiwoz21.parquet

The first file has dialogues of SYS and USR, the second dialogues of Doctor and Patient with a note.
Prints one line of Markdown for each set, way and seed: how many public texts have the shape as they
are and after repair, and MAUVE of the release with held-out records. With `--valid`, prints only
the two shares for all texts of a file, with and without alternating turns.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

import sugarbush as sb
from sugarbush.data.schema import Schema
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.interface import Shape, ShapeError

SEEDS = (1, 2, 3)
PUBLIC, TEXTS, CANDIDATES = 600, 300, 600
DIALOGUE = {"conversation": {"roles": ["USR", "SYS"], "max_turns": 60}}
WITH_NOTE = {"fields": ["text", "note_section"]}


def attribute(name: str, frame: pd.DataFrame) -> dict[str, Any]:
    """Return an attribute with the frequent values of a public column."""
    values = frame[name].astype(str).value_counts().index[:8]
    return {"name": name, "column": name, "values": [str(value) for value in values]}


def shares(texts: list[str], shape: Shape) -> tuple[float, float]:
    """Return the share of texts that have the shape as they are, and after repair."""
    exact = repaired = 0
    for text in texts:
        try:
            canonical = shape.canonical(text)
        except ShapeError:
            continue
        repaired += 1
        exact += canonical.casefold() == text.casefold()
    return exact / len(texts), repaired / len(texts)


def has_shape(text: str, shape: Shape) -> bool:
    try:
        shape.canonical(text)
    except ShapeError:
        return False
    return True


def measure(
    name: str, frame: pd.DataFrame, label: str, form: Any, rows: Callable[..., Any]
) -> None:
    """Print the figures of both ways for one set. `rows` makes the columns of the shape."""
    shape = TextForm.model_validate(form).shape
    exact, repaired = shares([rows(row, None) for _, row in frame.iterrows()], shape)
    valid_rows = [has_shape(rows(row, None), shape) for _, row in frame.iterrows()]
    frame = frame[valid_rows]
    train, heldout = frame[frame.split == "train"], frame[frame.split == "test"][:400]
    public, private = train[:PUBLIC], train[PUBLIC:2100]
    schemas = {
        way: Schema.model_validate(
            {"subject": "dialogues", "attributes": [attribute(label, public)], "text": text}
        )
        for way, text in (("shape", form), ("one string", None))
    }
    for way, schema in schemas.items():
        own = None if way == "one string" else shape

        def text_of(row: Any, own: Shape | None = own) -> str:
            text: str = rows(row, None)
            return text if own is None else own.canonical(text)

        columns = [
            {label: row[label], **({"text": text_of(row)} if own is None else rows(row, own))}
            for _, row in private.iterrows()
        ]
        pool = sb.Pool(texts=[text_of(row) for _, row in public.iterrows()])
        real = [text_of(row) for _, row in heldout.iterrows()]
        with tempfile.TemporaryDirectory() as state:
            corpus = sb.prepare(
                pd.DataFrame(columns),
                schema=schema,
                state=Path(state),
                generator=pool,
                settings={"prepare": {"accept_overlap": True}},
                privacy=sb.Privacy(epsilon=2, delta=1e-6, cap=9, dataset=name),
            )
            releases = [
                sb.synthesize(
                    corpus,
                    method=sb.Mosaic(candidates=CANDIDATES, prompt="metadata"),
                    texts=TEXTS,
                    seed=seed,
                    accept_poor=True,
                )
                for seed in SEEDS
            ]
        for seed, release in zip(SEEDS, releases, strict=True):
            found = sb.evaluate(release, real=real, seed=1).frame
            mauve = found[found.metric == "mauve"].set_index("space")["value"].round(3).to_dict()
            valid = f"{exact:.3f} | {repaired:.3f}" if own is not None else "- | -"
            print(f"| {name} | {way} | {seed} | {valid} | {mauve} |", flush=True)


def turns(row: Any, shape: Shape | None) -> Any:
    return row.text if shape is None else shape.parse(row.text)


def note(row: Any, shape: Shape | None) -> Any:
    if shape is None:
        return f"Text: {row.text}\nNote section: {row.note_section}"
    return {"text": row.text, "note_section": row.note_section}


def valid(roles: list[str], path: str) -> None:
    """Print the shares of the texts of a file that are conversations."""
    texts = list(pd.read_parquet(path)["text"])
    for alternate in (False, True):
        form = {"conversation": {"roles": roles, "alternate": alternate}}
        exact, repaired = shares(texts, TextForm.model_validate(form).shape)
        print(f"| {Path(path).stem} | {alternate} | {len(texts)} | {exact:.3f} | {repaired:.3f} |")


def main() -> None:
    if sys.argv[1] == "--valid":
        valid(sys.argv[2].split(","), sys.argv[3])
        return
    dialogues, notes = (pd.read_parquet(path) for path in sys.argv[1:3])
    print("| set | way | seed | valid at first | after repair | MAUVE |\n|---|---|---|---|---|---|")
    measure("customersim", dialogues, "intent", DIALOGUE, turns)
    measure("mts_dialog", notes, "section_header", WITH_NOTE, note)


if __name__ == "__main__":
    main()
