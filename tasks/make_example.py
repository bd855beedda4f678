"""Stage make_example."""

from sugarbush.pipeline import entry_point
from sugarbush.pipeline.stages.make_example import run

if __name__ == "__main__":
    entry_point.main("make_example", run)
