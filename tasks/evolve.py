"""Run rounds of private votes and public variation."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("evolve")
