"""Measure whether the generator fits the records."""

from sugarbush.pipeline.run_stage import run_stage

if __name__ == "__main__":
    run_stage("look")
