"""One thin module per stage, with the stage's name in dvc.yaml."""
