"""What confidential training costs and keeps: a grid of arms, miss rates and seeds."""
