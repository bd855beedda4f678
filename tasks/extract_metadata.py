"""Write one row of attribute values for each text."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("extract_metadata")
