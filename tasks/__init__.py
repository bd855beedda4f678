"""One thin module per stage, with the name of the stage in dvc.yaml."""
