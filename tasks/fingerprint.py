"""Stage fingerprint."""

from sugarbush.pipeline import entry_point
from sugarbush.pipeline.stages.fingerprint import run

if __name__ == "__main__":
    entry_point.main("fingerprint", run)
