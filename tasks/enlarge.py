"""Write further texts up to the size of the release, from released values."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("enlarge")
