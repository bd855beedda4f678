"""Measure whether the generator fits the records, and how long they are."""

from sugarbush.pipeline.run_stage import run_stage

if __name__ == "__main__":
    run_stage("look")
