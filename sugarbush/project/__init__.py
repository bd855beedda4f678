"""Creates, checks, runs and publishes a project: the bodies of the commands."""
