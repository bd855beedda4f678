"""One row of attribute values for each text, by the schema."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("extract_metadata")
