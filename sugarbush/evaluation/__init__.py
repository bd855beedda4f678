"""Compares synthetic texts with real texts. The results are internal and not DP."""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.evaluation.downstream import Predictions as Predictions
    from sugarbush.evaluation.downstream import majority as majority
    from sugarbush.evaluation.downstream import predictions as predictions
    from sugarbush.evaluation.downstream import train_classifier as train_classifier
    from sugarbush.evaluation.evaluate import evaluate_texts as evaluate_texts
    from sugarbush.evaluation.features import LatentSpace as LatentSpace
    from sugarbush.evaluation.features import latent_space as latent_space
    from sugarbush.evaluation.interface import FINAL as FINAL
    from sugarbush.evaluation.interface import REAL as REAL
    from sugarbush.evaluation.interface import Metric as Metric
    from sugarbush.evaluation.interface import MetricSettings as MetricSettings
    from sugarbush.evaluation.interface import MetricValue as MetricValue
    from sugarbush.evaluation.interface import Sample as Sample
    from sugarbush.evaluation.interface import read_values as read_values
    from sugarbush.evaluation.jensen_shannon import distance_by_attribute as distance_by_attribute
    from sugarbush.evaluation.mauve import mauve as _mauve

    mauve_score = _mauve
else:
    __getattr__ = lazy_names(__name__)
