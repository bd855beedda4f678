"""Stage evolve."""

from sugarbush.pipeline import entry_point
from sugarbush.pipeline.stages.evolve import run

if __name__ == "__main__":
    entry_point.main_of_method("evolve", run)
