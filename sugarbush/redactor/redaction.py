"""`sugarbush redact`, `train-redactor` and `label`: redact your own files, without a release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sugarbush.errors import InputError, ParamsError
from sugarbush.paths import state_root
from sugarbush.redactor import cache
from sugarbush.redactor.labels import for_training, kind_of_label, open_labels
from sugarbush.redactor.page import LabelServer
from sugarbush.redactor.rewriting import Rewriter, redact_file
from sugarbush.redactor.train import OWN_LABELS, Recipe, train_redactor
from sugarbush.redactor.values import SECRET_KINDS
from sugarbush.training.crt.findings import DESCRIPTION
from sugarbush.training.crt.policies import make_policy
from sugarbush.training.crt.recall import load_labelled, shown_labels
from sugarbush.training.device import open_device


def redact(
    source: Path,
    output: Path,
    *,
    text: str,
    keep: Sequence[str],
    detectors: Sequence[str],
    threshold: float,
    surrogates: bool,
    console: Console,
) -> None:
    """Write a redacted copy of a file, and print the number of findings by kind."""
    if output.exists() and source.exists() and output.samefile(source):
        raise ParamsError(f"{output}: this is the input file. Name another output")
    if source.is_dir() and output.parent.resolve() == source.resolve():
        raise ParamsError(f"{output}: this is in the folder of the input. Name another folder")
    rewriter = Rewriter(
        detectors, threshold=threshold, state=state_root(Path()) if surrogates else None
    )
    with console.status("redacting") as status:
        counts = redact_file(
            source, output, rewriter, text=text, keep=keep,
            report=lambda rows: status.update(f"{rows:,} rows"),
        )  # fmt: skip
    table = Table("kind", "found", title=f"{escape(str(output))} (exact counts: not DP)")
    for kind, number in counts.most_common():
        table.add_row(kind, f"{number:,}")
    console.print(table)
    console.print("Detectors miss some secrets. Label some texts to measure how many.")


def train(
    labelled: Sequence[Path],
    output: Path | None,
    *,
    text: str,
    share: float,
    console: Console,
) -> None:
    """Train the default redactor. With labelled files, write a tuned copy to `output`."""
    if not labelled:
        if output is not None:
            raise ParamsError(
                "--output needs --labelled, because the default redactor is in the cache"
            )
        redactor = cache.default_redactor()
        folder = cache.redactor_folder(Recipe())
        seconds = redactor.description["seconds"]
        console.print(f"{folder}: the default redactor, trained in {seconds:.0f} s", markup=False)
        return
    if output is None:
        raise ParamsError("--labelled needs --output: a folder for the tuned redactor")
    if output.exists() and not (output / DESCRIPTION).exists():
        raise ParamsError(
            f"{output}: exists and is not a redactor. Training would replace it. Name a new folder"
        )
    if output.resolve() == cache.redactor_folder(Recipe()).resolve():
        raise ParamsError(f"{output}: is the default redactor. Name a new folder")
    if file := next((folder for folder in output.parents if folder.is_file()), None):
        raise ParamsError(f"{output}: {file} is a file. Name a new folder")
    every = [
        labelled_text
        for file in labelled
        for labelled_text in load_labelled(file, text_column=text, setting="--labelled")
    ]
    labels = {label for labelled_text in every for *_, label in labelled_text.spans}
    if plain := [label for label in labels if kind_of_label(label) not in SECRET_KINDS]:
        console.print(
            f"No secrets: {shown_labels(plain)}. If one is a secret, rename it to one of "
            f"{', '.join(SECRET_KINDS)}.",
            markup=False,
        )
    training_texts = for_training(every, share=share)
    if not any(label for labelled_text in training_texts for *_, label in labelled_text.spans):
        raise InputError(
            f"{labelled[0]}: no labelled secret is in the training share of {share:g}. Label more "
            "texts"
        )
    base = cache.default_redactor()
    tuned = train_redactor(
        OWN_LABELS,
        output,
        start=base.folder,
        labelled=training_texts,
        copies=Recipe.copies_of(training_texts),
        device=open_device("auto"),
    )
    console.print(
        f"{output}: tuned on {len(training_texts)} of {len(every)} texts in "
        f"{tuned.description['seconds']:.0f} s. Set methods.crt.detectors: [regex, {output}], and "
        "name a labelled file in methods.crt.labelled. The other texts of this file measure gamma.",
        markup=False,
    )


def label(
    source: Path,
    output: Path,
    *,
    text: str,
    count: int,
    suggestions: Sequence[str],
    open_page: bool,
    console: Console,
) -> None:
    """Serve the page for labelling until the user finishes."""
    policy = make_policy(suggestions, threshold=0.3) if suggestions else None
    labels = open_labels(source, output, text=text, count=count, policy=policy)
    with LabelServer(labels) as server:
        console.print(f"Label at {server.url}", markup=False, soft_wrap=True)
        if open_page:
            server.open_in_browser()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            console.print()
    console.print(
        f"{output}: {len(labels.spans)} labelled texts. Next: sugarbush train-redactor --labelled "
        f"{output} --output {output.parent / 'redactor'}",
        markup=False,
    )
