"""`sugarbush show`: what a stage wrote, as tables."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from sugarbush.data.schema import load_schema
from sugarbush.errors import ParamsError
from sugarbush.evolution.population import NO_CODE
from sugarbush.paths import Roots, find_input, require
from sugarbush.pipeline.released import final_folder, method_folder
from sugarbush.pipeline.settings import ProjectSettings, load_params

STAGES = ("metadata", "initial", "evolve", "model", "synthetic", "card", "metrics")
_WIDTH = 100


def show(
    base: Path, stage: str, *, method: str | None, rows: int, internal: bool, console: Console
) -> None:
    """Print what one stage wrote. Raises ParamsError for an unknown stage."""
    params, roots = load_params(base / "params.yaml"), Roots(base)
    chosen = method or params.methods[0]
    match stage:
        case "metadata":
            _metadata(base, params, rows, console)
        case "initial":
            path = roots.released / "initial" / chosen / "candidates.parquet"
            _texts(pd.read_parquet(require(path, left_by=f"initialise@{chosen}")), rows, console)
        case "evolve":
            _rounds(roots.released / "evolve" / chosen, chosen, console)
        case "synthetic":
            path = final_folder(roots, params.method(chosen)) / "synthetic.jsonl"
            _texts(pd.read_json(path, lines=True), rows, console)
        case "model":
            folder = method_folder(roots, params.method(chosen), "finetune")
            path = require(folder / "model_card.json", left_by=f"finetune@{chosen}")
            console.print_json(path.read_text())
            if internal:
                path = require(roots.internal / "finetune.json", left_by="finetune")
                console.print("Computed on private records, not DP:")
                console.print_json(path.read_text())
        case "card":
            card = require(roots.published / "release_card.md", left_by="report")
            console.print(Markdown(card.read_text(encoding="utf-8")))
        case "metrics":
            _metrics(roots, internal, console)
        case _:
            raise ParamsError(f"show {stage}: expected one of {', '.join(STAGES)}")


def _texts(frame: pd.DataFrame, rows: int, console: Console) -> None:
    table = Table(show_lines=True)
    names = [c for c in frame.columns if c not in {"text"} and not c.startswith("code_")]
    for name in [*names, "text"]:
        table.add_column(name)
    for _, row in frame.head(rows).iterrows():
        text = row["text"]
        shown = text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
        # A Text object, because Rich would read some texts as markup.
        table.add_row(*(Text(str(row[name])) for name in names), Text(shown))
    console.print(table)
    console.print(f"{min(rows, len(frame))} of {len(frame)}")


def _metadata(base: Path, params: ProjectSettings, rows: int, console: Console) -> None:
    folder = require(Roots(base).released / "metadata", left_by="synthesize_metadata")
    schema = load_schema(find_input(base, params.prepare.schema_))
    path = folder / "rows.parquet"
    if not path.exists():
        console.print("No method of this project starts from a DP table.")
        return
    frame = pd.read_parquet(path)
    for place, attribute in enumerate(schema.attributes):
        codes = frame.iloc[:, place]
        counts = codes[codes != NO_CODE].value_counts()
        table = Table(title=f"{attribute.name} (DP)", box=None, padding=(0, 2, 0, 0))
        table.add_column("value")
        table.add_column("rows", justify="right")
        for code, count in list(counts.items())[:rows]:
            table.add_row(attribute.domain[int(str(code))], str(count))
        console.print(table)


def _rounds(folder: Path, method: str, console: Console) -> None:
    require(folder, left_by=f"evolve@{method}")
    usage = json.loads((folder / "usage.json").read_text())
    table = Table(title=f"Rounds of {method}")
    for column in ("round", "calls", "answered from cache", "unusable"):
        table.add_column(column)
    for name, fields in usage.items():
        problems = ", ".join(f"{kind} {n}" for kind, n in fields["problems"].items())
        table.add_row(name, str(fields["calls"]), str(fields["cached_calls"]), problems or "none")
    console.print(table)


def _metrics(roots: Roots, internal: bool, console: Console) -> None:
    path = require(roots.published / "metrics.json", left_by="report")
    console.print_json(path.read_text())
    if internal:
        path = require(roots.internal / "metrics.json", left_by="evaluate")
        console.print("Computed on real texts, not DP:")
        console.print_json(path.read_text())
