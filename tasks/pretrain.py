"""The small models that training starts from, made of public text."""

from sugarbush.pipeline.stage import run_stage

if __name__ == "__main__":
    run_stage("pretrain")
