"""Distance to held-out real texts, by round (internal)."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("evaluate")
