"""Short lists for an audit: who draws noise, builds released values, opens private files.

`test_side_doors` checks that the lists are complete. Whoever adds a line gives the reason.
"""

from __future__ import annotations

# Modules that import a function of sugarbush.privacy.noise, and which.
IMPORTS_NOISE: dict[str, tuple[str, ...]] = {
    "sugarbush.privacy.mechanisms": ("discrete_gaussian",),  # histograms and sums of scores
    "sugarbush.tables.marginal_measurer": ("discrete_gaussian", "report_noisy_max"),  # AIM
    "sugarbush.training.dpsgd.sampling": ("poisson_sample", "secret_choice"),  # secret batches
    "sugarbush.training.dpsgd.optimizer": ("add_gaussian",),  # the step of DP-SGD
    "sugarbush.training.crt.selective": ("add_gaussian",),  # the step of confidential training
}
