"""Attacks on benchmark data, and the bounds on epsilon from them. Failed attacks prove nothing."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "canaries": (
            "CANDIDATES",
            "MEAN_BY_CHANCE",
            "PREFIX",
            "Canary",
            "draw_canaries",
            "highest_by_chance",
            "inserted",
            "missed",
        ),
        "echo": ("echo_canaries", "echo_scores"),
        "exposure": ("candidate_losses", "candidate_tokens", "ranked"),
        "membership": ("Attack", "attack", "by_perplexity", "by_reference", "groups", "over_seeds"),
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
