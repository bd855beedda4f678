"""The release: more texts of the same kind, chosen with released values."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("enlarge")
