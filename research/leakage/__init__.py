"""What confidential training and its baselines cost and leak, measured on public data."""
