"""Train a model on the private texts."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("finetune")
