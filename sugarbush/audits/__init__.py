"""Attacks on mechanisms, methods and texts. An attack that fails proves nothing."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "phantoms": ("Disclosure", "disclosure", "phrases"),
        "one_run": (
            "Outcome",
            "epsilon_lower_bound",
            "guess_extremes",
            "mu_lower_bound",
            "outcome_of",
            "p_value",
        ),
        "repeated_runs": ("mu_lower_bound_of_runs",),
    },
)
