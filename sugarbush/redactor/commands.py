"""`sugarbush redact`, `train-redactor` and `label`: their arguments.

These functions are entry points of the group `sugarbush.commands`. The help of every command reads
them, so the rest is imported when they are called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sugarbush.paths import OWN_LABELS
from sugarbush.training.crt.findings import DEFAULT_DETECTORS

Detectors = Annotated[
    list[str],
    typer.Option(
        help=(
            "A detector: regex, learned, presidio, spacy:PIPELINE, installed, or a model's folder."
        )
    ),
]


def redact(
    file: Annotated[Path, typer.Argument(help="csv, jsonl or parquet.")],
    output: Annotated[Path, typer.Argument(help="A .csv, .jsonl or .parquet file to write.")],
    *,
    text: Annotated[str, typer.Option(help="The column with the text.")] = "text",
    keep: Annotated[
        list[str] | None, typer.Option(help="Another column to copy, unchanged. May be repeated.")
    ] = None,
    detectors: Detectors = list(DEFAULT_DETECTORS),  # noqa: B006 (Typer copies it)
    threshold: Annotated[
        float, typer.Option(help="The smallest score that counts as a secret.")
    ] = 0.3,
    surrogates: Annotated[
        bool, typer.Option("--surrogates", help="Write invented values instead of masks.")
    ] = False,
) -> None:
    """Write a copy of a file in which secrets are masked, and print what was found.

    The command gives no guarantee, because detectors miss some secrets. The output has the text,
    the spans that were replaced and the columns of `--keep`.
    """
    from sugarbush.redactor import redaction

    redaction.redact(
        file, output, text=text, keep=keep or (), detectors=detectors, threshold=threshold,
        surrogates=surrogates, console=Console(),
    )  # fmt: skip


def train_redactor(
    labelled: Annotated[
        list[Path] | None,
        typer.Option(help="A file with columns text and spans. May be repeated."),
    ] = None,
    *,
    output: Annotated[Path | None, typer.Option(help="Folder of the tuned redactor.")] = None,
    text: Annotated[str, typer.Option(help="The column with the text.")] = "text",
    share: Annotated[
        float,
        typer.Option(
            help=("Share of labelled texts for training. The other texts measure gamma."),
            min=0,
            max=1,
        ),
    ] = 0.5,
) -> None:
    """Train the detector `learned`, or tune it on your own labels.

    Without `--labelled`, the command trains the default redactor on generated text, and reads no
    private file. Each machine needs this training once. With `--labelled`, the command tunes the
    default redactor on a share of the labelled texts. The folder of the tuned redactor is as
    private as these texts.
    """
    from sugarbush.redactor import redaction

    redaction.train(labelled or (), output, text=text, share=share, console=Console())


def label(
    file: Annotated[Path, typer.Argument(help="csv, jsonl or parquet.")],
    *,
    text: Annotated[str, typer.Option(help="The column with the text.")] = "text",
    output: Annotated[
        Path, typer.Option(help="The file of labels; new labels are added.")
    ] = OWN_LABELS,
    count: Annotated[int, typer.Option(help="How many texts to label.", min=1)] = 200,
    suggest: Detectors = list(DEFAULT_DETECTORS),  # noqa: B006
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Label secrets on a page of this machine, to tune and to measure the detectors.

    Half of the texts are for training and have suggestions. The other half measures what the
    detectors miss.
    """
    from sugarbush.redactor import redaction

    redaction.label(
        file, output, text=text, count=count, suggestions=suggest, open_page=open_page,
        console=Console(),
    )  # fmt: skip
