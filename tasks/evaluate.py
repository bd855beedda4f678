"""Stage evaluate."""

from sugarbush.pipeline import entry_point
from sugarbush.pipeline.stages.evaluate import run

if __name__ == "__main__":
    entry_point.main("evaluate", run)
