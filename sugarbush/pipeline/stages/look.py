"""Measures before the other mechanisms whether the generator fits the records: the first look.

Reads    data/private/, data/public/donated/, the schema, the generator's first texts
Writes   data/released/look/     look.json, release.json
Spends   the shares of the look: noisy counts of one record of each unit

Without a fit, the stage writes its result and stops the run.
"""

from __future__ import annotations

from sugarbush.paths import atomic_directory
from sugarbush.quality.look import FILE, STAGE, LookRequest, require_fit
from sugarbush.release.folders import write_release
from sugarbush.run.choices import goes_on, wants_new_draw
from sugarbush.run.context import Project


def run(project: Project) -> None:
    """Draw the look, or restore finished results, and stop a run without a fit."""
    drawn = LookRequest(project).release(forced=wants_new_draw())
    print(f"{STAGE}: {drawn.look.line()}", flush=True)
    with atomic_directory(project.roots.released / STAGE) as folder:
        (folder / FILE).write_text(drawn.look.to_json(), encoding="utf-8")
        write_release(
            folder,
            stage=STAGE,
            privacy=project.settings.privacy,
            ledger_ids=drawn.look.ledger_ids,
            run=drawn.run,
            ledger=project.ledger(),
        )
    require_fit(project, drawn.look, accept=goes_on())
