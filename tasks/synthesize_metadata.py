"""Stage synthesize_metadata."""

from sugarbush.pipeline import entry_point
from sugarbush.pipeline.stages.synthesize_metadata import run

if __name__ == "__main__":
    entry_point.main("synthesize_metadata", run)
