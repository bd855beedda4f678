"""Names of the files that the settings name, and the resolved settings."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("fingerprint")
