"""Compare the texts of each round with held-out real texts (internal)."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("evaluate")
