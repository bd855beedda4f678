"""Private and released data, mechanisms and their noise, accounting, and the ledger."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "accounting": ("Relation", "rounded_down", "rounded_up"),
        "budget": ("BudgetRequest", "Subsampling", "make_plan", "with_subsampling"),
        "key": ("state_key",),
        "events": ("DiscreteGaussian", "GaussianDp"),
        "fingerprint": ("make_dataset_fingerprint",),
        "mechanisms": ("noisy_histogram", "noisy_sum"),
        "results": ("digest_of",),
        "session": ("PlannedDraws",),
        "settings": ("Purpose",),
    },
)
