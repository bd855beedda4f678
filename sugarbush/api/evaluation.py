"""Measures how similar synthetic texts are to real texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sugarbush.api.release import Release
from sugarbush.arguments import names_arguments, require_texts
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import ParamsError
from sugarbush.evaluation.settings import EvaluateSettings
from sugarbush.html_table import html_table

if TYPE_CHECKING:
    from sugarbush.evaluation.interface import MetricValue
    from sugarbush.report.notebook import Picture


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Metrics of synthetic texts, with 95% intervals. They are NOT DP: keep them internal.

    `frame` has one row per metric and feature space, with the columns metric, space, value, low and
    high. A metric without an interval has None as its bounds.
    """

    frame: pd.DataFrame = field(repr=False)
    _values: tuple[MetricValue, ...] = field(repr=False)

    def plot(self) -> Picture:
        """Draw each metric with its interval, as SVG. A notebook shows the picture."""
        from sugarbush.report.interval_plot import interval_plot

        return interval_plot(self._values)

    def _repr_html_(self) -> str:
        from sugarbush.report.plots import interval
        from sugarbush.report.quality import metric_title

        rows = [(metric_title(value), interval(value)) for value in self._values]
        note = "Computed on real texts, not DP. Do not share."
        return html_table(
            "Similarity to real texts", rows, header=("metric", "value (95% interval)"), note=note
        )


@names_arguments
def evaluate(
    synthetic: Release | Sequence[str],
    *,
    real: Sequence[str],
    seed: int = 1,
) -> Evaluation:
    """Measure how similar synthetic texts are to real held-out texts.

    The result is NOT differentially private, because it is computed on real texts. Keep the result
    internal. The intervals are 95% bootstrap intervals over texts. Compare two corpora only if they
    have the same number of texts. This function fits the TF-IDF features to `real`. The stage
    `evaluate` fits the features to the training texts, so the values of the stage differ a little.
    For a release, the ledger notes that figures on real texts were shown, and the card says so. For
    a list of texts, nobody knows the dataset, so state such a choice yourself. Raises InputError
    for an argument that is not a list of texts. Raises LedgerError if the release's ledger is not
    there.

    >>> import sugarbush as sb
    >>> texts = [f"Order {i} arrived {word}" for i in range(20) for word in ("late", "broken")]
    >>> found = sb.evaluate(texts[:20], real=texts[20:])
    >>> mauve = found.frame.iloc[0]
    >>> bool(mauve.metric == "mauve" and mauve.low <= mauve.value <= mauve.high)
    True
    """
    from sugarbush.evaluation.evaluate import evaluate_texts, installed_metrics
    from sugarbush.evaluation.features import latent_space
    from sugarbush.evaluation.interface import MetricSettings, Sample

    texts = synthetic.texts if isinstance(synthetic, Release) else synthetic
    own = require_texts("synthetic", texts)
    held = require_texts("real", real)
    if not own or len(held) < 2:
        raise ParamsError("evaluate needs at least one synthetic text and at least two real texts")
    if isinstance(synthetic, Release):
        synthetic.note_evaluation()
    encode = Encoder(EmbeddingSettings(), cache=None).encode
    latent = latent_space(held, seed=seed)

    def sample(texts: tuple[str, ...]) -> Sample:
        return Sample(
            texts=texts,
            features={"encoder": encode(texts), "tf-idf": latent.encode(texts)},
            codes=np.empty((len(texts), 0), dtype=np.int64),
        )

    values = evaluate_texts(
        sample(held),
        sample(own),
        MetricSettings(
            domain={},
            clusters=max(2, min(len(own), len(held)) // 10),
            resamples=EvaluateSettings().bootstrap,
            seed=seed,
        ),
        metrics=installed_metrics(),
    )
    columns = ["metric", "space", "value", "low", "high"]
    frame = pd.DataFrame([{name: getattr(v, name) for name in columns} for v in values])
    return Evaluation(frame=frame, _values=values)
