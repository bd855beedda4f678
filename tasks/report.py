"""Write the release card, and the public and internal pages."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("report")
