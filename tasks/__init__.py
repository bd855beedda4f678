"""One thin module a stage, of the name that dvc.yaml gives it."""
