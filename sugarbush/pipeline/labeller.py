"""Who reads attributes with `source: llm` off private texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sugarbush.data.schema import Schema
from sugarbush.paths import Roots, checkout_root, make_private
from sugarbush.pipeline.settings import ProjectSettings

if TYPE_CHECKING:
    from sugarbush.attributes.llm_labels import Labeller


def answers_folder(roots: Roots) -> Path:
    """Where answers about private texts are kept: not with the generator's, which are released.

    A DVC experiment's temporary copy uses those of the checkout around it: they are paid for.
    """
    return Roots(checkout_root(roots.base)).private / "labels"


def open_labeller(params: ProjectSettings, roots: Roots, schema: Schema) -> Labeller | None:
    """The endpoint of `extract_metadata.llm`, None where no attribute is asked of it.

    Its answers are kept under data/private. Raises ParamsError unless it is trusted.
    """
    if not schema.asked_of_llm:
        return None
    from sugarbush.attributes.llm_labels import Labeller

    return Labeller(
        params.extract_metadata.llm,
        schema.asked_of_llm,
        folder=make_private(answers_folder(roots)),
        account=params.privacy.dataset,
    )
