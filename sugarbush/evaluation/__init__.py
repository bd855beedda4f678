"""How far the synthetic texts are from real ones. Computed on real texts: internal, not DP."""
