"""Write the embedded example: corpus, schema and donated examples."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("make_example")
