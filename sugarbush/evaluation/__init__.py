"""Compares synthetic texts with real texts. The results are internal and not DP."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "downstream": ("Predictions", "majority", "predictions", "train_classifier"),
        "evaluate": ("evaluate_texts",),
        "features": ("LatentSpace", "latent_space"),
        "interface": (
            "FINAL",
            "REAL",
            "Metric",
            "MetricSettings",
            "MetricValue",
            "Sample",
            "read_values",
        ),
        "jensen_shannon": ("distance_by_attribute",),
        "mauve": ("mauve=mauve_score",),
    },
)
