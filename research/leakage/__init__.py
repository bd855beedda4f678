"""What confidential training costs and gives away, beside its baselines. On public data alone."""
