"""Draw the DP metadata: a table by AIM, or DP counts of one attribute."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("synthesize_metadata")
