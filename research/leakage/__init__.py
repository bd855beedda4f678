"""Measures the quality and the leakage of models trained by CRT and its baselines.

All data sets are public.
"""
