"""The cost and the leaks of confidential training and of its baselines, on public data alone."""
