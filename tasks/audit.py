"""Attack the texts and the methods, on public data (internal)."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("audit")
