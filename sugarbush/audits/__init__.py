"""Attacks by somebody who has the model, on benchmarks. A failed attack proves nothing."""
