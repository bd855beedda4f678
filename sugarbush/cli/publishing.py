"""`sugarbush publish` writes a dataset folder that others can open."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from sugarbush.cli.printing import say_on
from sugarbush.pipeline.opening import open_project
from sugarbush.publication.publish import describe, publish_project
from sugarbush.publication.upload import checked_target, upload


def publish_release(
    base: Path, target: Path, *, another: bool, to: str | None, console: Console
) -> None:
    """Publish the finished release of the project in `base`, and print what was published.

    With `to`, also upload the folder to this address. The address is checked before anything is
    recorded or sent.
    """
    remote = checked_target(to)
    publication = publish_project(
        open_project(base), target, another=another, resume=remote is not None
    )
    printed = dict(describe(publication, target))
    if remote is not None:
        printed["uploaded"] = upload(remote, target)
    for label, text in printed.items():
        say_on(console)(f"{label:<12} {text}")
