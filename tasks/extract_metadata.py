"""Stage extract_metadata."""

from sugarbush.pipeline import entry_point
from sugarbush.pipeline.stages.extract_metadata import run

if __name__ == "__main__":
    entry_point.main("extract_metadata", run)
