"""Write the first candidates from DP metadata and donated examples."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("initialise")
