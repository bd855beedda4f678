"""Check the data file and split it into a private and a held-out part."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("prepare")
