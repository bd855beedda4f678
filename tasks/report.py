"""Stage report."""

from sugarbush.pipeline import entry_point
from sugarbush.pipeline.stages.report import run

if __name__ == "__main__":
    entry_point.main("report", run)
