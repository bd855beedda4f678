"""Write texts with the trained model."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("generate")
