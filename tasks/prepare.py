"""Check the data file, and split the records into training and held-out records."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("prepare")
