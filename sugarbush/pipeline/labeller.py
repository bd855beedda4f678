"""The endpoint that reads attributes with `source: llm` from private texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sugarbush.data.schema import Schema
from sugarbush.paths import Roots, checkout_root, make_private
from sugarbush.pipeline.settings import ProjectSettings

if TYPE_CHECKING:
    from sugarbush.attributes.llm_labels import Labeller


def answers_folder(roots: Roots) -> Path:
    """The folder of answers about private texts, apart from the generator's released ones.

    A temporary copy of a DVC experiment uses the folder of the checkout: its answers are paid for.
    """
    return Roots(checkout_root(roots.base)).private / "labels"


def open_labeller(params: ProjectSettings, roots: Roots, schema: Schema) -> Labeller | None:
    """A labeller with its answers under data/private, None where no attribute needs one.

    Raises ParamsError unless the endpoint is trusted.
    """
    if not schema.asked_of_llm:
        return None
    from sugarbush.attributes.llm_labels import Labeller

    return Labeller(
        params.extract_metadata.label_endpoint,
        schema.asked_of_llm,
        folder=make_private(answers_folder(roots)),
        account=params.privacy.dataset,
    )
