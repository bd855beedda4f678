"""What does CRT cost and what does it keep? Arms, miss rates and seeds on sets with dialogues.

    python -m benchmarks.crt settings/crt_figures.yaml
    python -m benchmarks.crt settings/crt_figures.yaml --show    # the figures of what there is

A small model is trained on texts taken as public, then by each arm on others, with canaries among
them of which the policy misses a share gamma. Points and first models are kept in
data/private/crt_figures/, so a run that was stopped goes on by the same line; the figures
stand in reports/internal/crt_figures/<grid>/.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.crt.arms import Start, make_start, train_arm
from benchmarks.crt.corpus import Corpus, plant, read
from benchmarks.crt.figures import write_figures
from benchmarks.crt.grid import Grid, Model, Point, load_grid, points
from benchmarks.crt.measure import Candidates, Losses, attacks, losses_of
from sugarbush.attacks.canaries import PREFIX
from sugarbush.attacks.exposure import candidate_tokens
from sugarbush.dpsgd import models
from sugarbush.paths import Roots, make_private
from sugarbush.privacy.draws import digest_of


class Laboratory:
    """Corpora and first models, each made once, and the points that are done."""

    def __init__(self, grid: Grid, folder: Path) -> None:
        self._grid, self._folder = grid, make_private(folder)
        self.corpus = cache(lambda name, seed: read(grid.sets[name], seed=seed))
        self.start = cache(self._make_start)
        self.candidates = cache(self._make_candidates)
        self.before = cache(self._measure_start)

    def done(self) -> list[dict[str, Any]]:
        """The points of this grid that are on file."""
        wanted = {point.key(self._grid) for point in points(self._grid)}
        file = self._folder / "points.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [point for point in map(json.loads, lines) if point["key"] in wanted]

    def keep(self, found: dict[str, Any]) -> None:
        """Put a finished point on file."""
        with (self._folder / "points.jsonl").open("a") as file:
            file.write(json.dumps(found) + "\n")

    def measured(self, point: Point) -> dict[str, Any]:
        """Train at `point` and measure."""
        began = time.process_time()
        corpus = self.corpus(point.set_name, point.seed)
        start = self.start(point.set_name, point.model)
        planted = plant(corpus, self._grid, point)
        trained = train_arm(start, corpus, planted, self._grid, point)
        candidates = self.candidates(point.set_name, point.model)
        own = losses_of(trained.model, start, corpus)
        before = self.before(point.set_name, point.model, point.seed)
        return {
            "key": point.key(self._grid),
            **point.model_dump(mode="json"),
            "noise": trained.noise,
            "promised": trained.epsilon,
            **attacks(
                trained.model, own, before, planted, candidates, grid=self._grid, seed=point.seed
            ),
            "cpu_s": round(time.process_time() - began, 1),
        }

    def _make_start(self, set_name: str, model: Model) -> Start:
        corpus: Corpus = self.corpus(set_name, 0)  # the public texts are the same for every seed
        made_of = digest_of(
            public=corpus.public,
            shapes=self._grid.shapes.model_dump(mode="json"),
            training=self._grid.training.model_dump(
                mode="json", include={"public_epochs", "batch_size", "learning_rate"}
            ),
        )
        name = f"{set_name}-{model.value}-{made_of[:12]}.pt"
        return make_start(corpus, self._grid, model, kept=self._folder.parent / name)

    def _measure_start(self, set_name: str, model: Model, seed: int) -> Losses:
        start = self.start(set_name, model)
        return losses_of(start.model, start, self.corpus(set_name, seed))

    def _make_candidates(self, set_name: str, model: Model) -> Candidates:
        return candidate_tokens(self.start(set_name, model).tokenizer, prefix=models.END + PREFIX)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crt", description=__doc__)
    parser.add_argument("grid", type=Path)
    parser.add_argument("--show", action="store_true", help="compute no point")
    asked = parser.parse_args()
    grid, roots = load_grid(asked.grid), Roots(Path())
    laboratory = Laboratory(grid, roots.private / "crt_figures" / asked.grid.stem)
    done = laboratory.done()
    finished = {found["key"] for found in done}
    for point in () if asked.show else points(grid):
        if point.key(grid) not in finished:
            done.append(laboratory.measured(point))
            laboratory.keep(done[-1])
            print(json.dumps(done[-1]), flush=True)
    write_figures(done, grid, roots.internal / "crt_figures" / asked.grid.stem)


if __name__ == "__main__":
    main()
