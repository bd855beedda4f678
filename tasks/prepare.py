"""Stage prepare."""

from sugarbush.pipeline import entry_point
from sugarbush.pipeline.stages.prepare import run

if __name__ == "__main__":
    entry_point.main("prepare", run)
