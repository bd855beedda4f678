"""The arguments of `prepare` and `profile` that describe a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from sugarbush.api.ledgers import require_privacy, state_folder
from sugarbush.api.schemas import SchemaLike, open_schema
from sugarbush.arguments import (
    ArrowFrame,
    is_frame,
    pandas_frame,
    require_kind,
    require_texts,
)
from sugarbush.data.reading import require_column
from sugarbush.data.schema import Schema
from sugarbush.data.shapes.interface import Shape, ShapeError
from sugarbush.errors import InputError, ParamsError
from sugarbush.generators.interface import GeneratorSettings
from sugarbush.pipeline.in_memory import Corpus, prepare_corpus
from sugarbush.pipeline.in_memory_settings import settings_of_frame
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.run.settings import ProjectSettings
from sugarbush.run.usable_inputs import (
    require_edited_schema,
    require_packages,
    require_usable_inputs,
)

A_GENERATOR = 'sb.OpenAI(model="my-model")'


@dataclass(frozen=True, kw_only=True)
class FrameArguments:
    """A private frame, its columns, and everything that `prepare` needs beside the schema.

    `prepare` explains the arguments. Raises ParamsError or InputError for a wrong argument.
    """

    frame: pd.DataFrame = field(repr=False)
    text: str
    privacy: PrivacySettings
    generator: GeneratorSettings | None
    donated: pd.DataFrame | ArrowFrame | Sequence[str] | None = field(repr=False)
    user: str | None
    record_id: str | None
    settings: Mapping[str, Any] | None
    state: Path | str | None

    def __post_init__(self) -> None:
        require_kind("the corpus", self.frame, pd.DataFrame, "a pandas DataFrame")
        require_privacy(self.privacy)
        # `prepare_corpus` requires the columns of the text, which the schema may name.
        for argument, column in (("user", self.user), ("record_id", self.record_id)):
            if column is not None:
                require_column(self.frame, column, asked_by=argument)
        if self.generator is not None:
            require_kind("generator", self.generator, GeneratorSettings, A_GENERATOR)

    def project_settings(self) -> ProjectSettings:
        """Return the settings that prepare the frame. Without `generator`, none is set."""
        return settings_of_frame(
            text=self.text,
            privacy=self.privacy,
            generator=self.generator,
            has_donated=self.donated is not None,
            user=self.user,
            record_id=self.record_id,
            settings=self.settings,
        )

    def prepared(self, schema: SchemaLike) -> Corpus:
        """Read, check and split the frame, and extract the attributes of its records."""
        settings, opened = self.project_settings(), open_schema(schema)
        _require_usable(settings, opened)  # before the frame is read
        donated = self.donated_frame(opened.shape)
        if opened.asked_of_llm:
            raise ParamsError(
                "the Python API cannot read attributes with `source: llm`. Add a column with the "
                "values to the frame, or make a project with `sugarbush init`"
            )
        state = None if self.state is None else state_folder(self.state)
        return prepare_corpus(self.frame, settings, opened, donated=donated, state=state)

    def donated_frame(self, shape: Shape | None = None) -> pd.DataFrame | None:
        """Return the donated examples as a frame, or None. Texts may have the labels of `shape`."""
        if self.donated is None:
            return None
        if is_frame(self.donated):
            return pandas_frame("donated", self.donated)
        texts = list(require_texts("donated", self.donated))
        if shape is None:
            return pd.DataFrame({self.text: texts})
        try:
            columns = list({**shape.types, **shape.columns})
            return pd.DataFrame([shape.parse(text) for text in texts], columns=columns)
        except ShapeError as error:
            raise InputError(f"donated: a text {error}") from None


def _require_usable(settings: ProjectSettings, schema: Schema) -> None:
    """Raise an error if no release can be good, whatever the method is.

    `synthesize` knows the method. It refuses a missing generator.
    """
    require_packages(settings, Path())
    if "provider" in settings.generator.model_fields_set:
        require_usable_inputs(settings, schema, source="the schema")
    else:
        require_edited_schema(settings, schema, source="the schema")
