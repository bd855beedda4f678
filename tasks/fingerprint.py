"""Write stamps of the input files, and the resolved settings."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("fingerprint")
