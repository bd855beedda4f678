"""`sugarbush show` prints what a stage wrote. `sugarbush report` prints where the report is."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from sugarbush.cli.printing import say_on, warn
from sugarbush.data.schema import RELEASE_PREFIXES as HIDDEN
from sugarbush.data.schema import Schema
from sugarbush.errors import (
    FailureError,
    MissingInputError,
    ParamsError,
    StorageError,
    SugarbushError,
)
from sugarbush.json_lines import read_json_lines
from sugarbush.paths import Roots, require
from sugarbush.pipeline.artifacts import Artifacts
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.accounting import rounded_up
from sugarbush.quality.judge import read_verdicts
from sugarbush.release.card_state import ROUNDING, old_card_notice
from sugarbush.release.figures import given_lines
from sugarbush.release.folders import final_folder, method_folder, text_of_row
from sugarbush.report.card import CARD_FILE, read_card
from sugarbush.run.settings import FILE, load_params

STAGES = ("metadata", "initial", "evolve", "model", "synthetic", "card", "metrics")
_REQUESTED = "requested_"
_WIDTH = 300  # characters of a text


def show_stage(
    base: Path, stage: str, *, method: str | None, rows: int, internal: bool, console: Console
) -> None:
    """Print what a stage wrote. Raises ParamsError for an unknown stage. Raises MissingInputError
    if the stage's files do not exist, and StorageError if one of them is damaged."""
    try:
        _show_stage(base, stage, method=method, rows=rows, internal=internal, console=console)
    except (SugarbushError, MemoryError, BrokenPipeError, UnicodeEncodeError):
        raise
    except Exception:  # every library has errors of its own for a damaged file
        raise StorageError(
            f"show {stage}: a file of this stage is damaged or missing. Write the stage again "
            "with: sugarbush run"
        ) from None


def _show_stage(
    base: Path, stage: str, *, method: str | None, rows: int, internal: bool, console: Console
) -> None:
    params, roots = load_params(base / "params.yaml"), Roots(base)
    chosen = method or params.chosen[0].name
    match stage:
        case "metadata":
            _metadata(Artifacts(base), rows, console)
        case "initial":
            _texts(Artifacts(base).initial(chosen).candidates, rows, console)
        case "evolve":
            _rounds(roots.released / "evolve" / chosen, chosen, console)
        case "synthetic":
            folder = final_folder(roots, params.method(chosen))
            _texts(_synthetic(folder, Artifacts(base).schema), rows, console)
        case "model":
            folder = method_folder(roots, params.method(chosen), "finetune")
            public = require(folder / "model_card.json", left_by=f"finetune@{chosen}")
            _warn_of_later_charges(base, public)
            _json(public, roots.internal / "finetune.json" if internal else None, console)
        case "card":
            card = require(roots.published / "release_card.md", left_by="report")
            _warn_of_an_old_card(base)
            console.print(Markdown(card.read_text(encoding="utf-8")))
        case "metrics":
            public = require(roots.published / "metrics.json", left_by="report")
            _warn_of_an_old_card(base)
            _json(public, roots.internal / "metrics.json" if internal else None, console)
        case _:
            raise ParamsError(f"show {stage}: expected one of {', '.join(STAGES)}")


def _synthetic(folder: Path, schema: Schema) -> pd.DataFrame:
    """Read a method's texts, with the canonical text in place of the columns of a shape."""
    rows = read_json_lines(given_lines(folder).decode("utf-8"))
    texts = [text_of_row(row, schema) for row in rows]
    columns = () if schema.shape is None else tuple(schema.shape.types)
    # Objects: pandas converts no value, so each is printed as the file has it.
    return pd.DataFrame(rows, dtype=object).drop(columns=list(columns)).assign(text=texts)


def _texts(frame: pd.DataFrame, rows: int, console: Console) -> None:
    table = Table(show_lines=True)
    names = [name for name in frame.columns if name != "text"]
    table.add_column("text", ratio=3)
    table.add_column("values", ratio=2)
    for _, row in frame.head(rows).iterrows():
        text = row["text"]
        excerpt = text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
        # Texts are passed as Text objects, because Rich would read some strings as markup.
        values = "\n".join(_value(row, name) for name in names if not _is_hidden(name, names))
        table.add_row(Text(excerpt), Text(values))
    console.print(table)
    console.print(f"{min(rows, len(frame))} of {len(frame)}")


def _is_hidden(name: str, names: Sequence[str]) -> bool:
    """Whether the label says it. A requested value without a label is shown."""
    label = name.removeprefix(_REQUESTED)
    return name.startswith(HIDDEN) and (label == name or label in names)


def _value(row: pd.Series[Any], name: str) -> str:
    """Return a value of a text. If another value was requested, it is shown, too."""
    value, asked = row[name], row.get(f"{_REQUESTED}{name}")
    value_text = f"{value:.2f}" if name == "weight" else str(value)
    differs = asked is not None and not pd.isna(asked) and asked != value
    return f"{name}: {value_text}" + (f" (requested: {asked})" if differs else "")


def _metadata(artifacts: Artifacts, rows: int, console: Console) -> None:
    frame = artifacts.metadata().rows
    if frame is None:
        console.print("No method of this project starts from a DP table.")
        return
    for name in frame.columns:
        table = Table(title=f"{name} (DP)", box=None, padding=(0, 2, 0, 0))
        table.add_column("value")
        table.add_column("rows", justify="right")
        for value, count in list(frame[name].value_counts().items())[:rows]:
            table.add_row(str(value), str(count))
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


def _json(public: Path, internal: Path | None, console: Console) -> None:
    console.print_json(public.read_text())
    if internal is not None:
        path = require(internal, left_by="evaluate" if internal.stem == "metrics" else "finetune")
        console.print("Computed on private records, not DP:")
        console.print_json(path.read_text())


def show_report(base: Path, *, open_page: bool, internal: bool, console: Console) -> None:
    """Print the paths of the card and the page. With `open_page`, open the page in the browser.
    With `internal`, use the internal page instead. Raises MissingInputError before the first
    run."""
    roots = Roots(base)
    card, page = roots.published / "release_card.md", roots.published / "index.html"
    paths = {"release card": str(card), "report": str(page)}
    if internal:
        page = roots.internal / "index.html"
        paths["internal report"] = f"{page}  (not DP: do not share it)"
    if not page.exists():
        raise MissingInputError(f"{page}: not found. Write the report with: sugarbush run")
    _warn_of_an_old_card(base)
    for name, path in paths.items():
        say_on(console)(f"{name:<16} {path}")
    if open_page and not webbrowser.open(page.absolute().as_uri()):
        raise FailureError(f"no browser could be started. Open {page} yourself")


def _warn_of_an_old_card(base: Path) -> None:
    """Print a warning if the card or the verdict is damaged, or if the totals on the card may be
    too small. The terminal gets the warning, so that other programs can read the output."""
    if not (base / FILE).exists():
        return
    if damage := _damage(Roots(base)):
        warn(damage)
        return
    project = open_project(base)
    settings, ledger = project.settings, project.ledger(rehearse=False)
    notice = old_card_notice(project.roots, settings.privacy, settings.released, ledger)
    if notice is not None:
        warn(notice)


def _damage(roots: Roots) -> str | None:
    """Name a file of the report that cannot be read, and what to do. None if all can be read."""
    card = roots.published / CARD_FILE
    try:
        read_verdicts(roots)
        if card.exists():
            read_card(card)
    except StorageError as error:
        return str(error)
    return None


def _warn_of_later_charges(base: Path, model_card: Path) -> None:
    """Print a warning if the ledger has charges that a model card does not count."""
    stated = json.loads(model_card.read_text()).get("dataset_total_epsilon")
    if stated is None:  # a method without a DP guarantee
        return
    total = open_project(base).ledger(rehearse=False).total()
    if float(stated) < total * (1 - ROUNDING):
        warn(
            "this model card is older than the ledger. All charges on the dataset have epsilon "
            f"{rounded_up(total)} now"
        )
