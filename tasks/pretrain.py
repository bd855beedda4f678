"""Train the small models that training starts from, on public text."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("pretrain")
