"""The release: more texts of the same kind, chosen by what was released."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("enlarge")
