"""The form of texts as a profile has it: lengths, and public rules of style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.interface import Shape
from sugarbush.profiling.layout import Group, sizes_group, style_group
from sugarbush.profiling.plan import SIZES, STYLE
from sugarbush.profiling.release import ReleasedProfile
from sugarbush.profiling.style import LANGUAGES, RULES

if TYPE_CHECKING:
    from sugarbush.profiling.contributions import Reader

WORDS: Final = "words"


@dataclass(frozen=True, kw_only=True)
class RequestedForm:
    """The numbers of words that prompts request, those of the parts of a text, and the style.

    Each is empty if the noise is too large for it.
    """

    words: tuple[int, ...]
    lengths: dict[str, tuple[int, ...]]
    style: str


@dataclass(frozen=True)
class FormReader:
    """Reads the form of texts. `shape` is the form of a record; None means one string."""

    shape: Shape | None

    @property
    def measures(self) -> tuple[str, ...]:
        """The lengths that prompts may request."""
        return (WORDS, *(() if self.shape is None else self.shape.measures))

    @cached_property
    def lengths(self) -> Group:
        """The histograms of the lengths, and the number of records."""
        return sizes_group(by_user=False, measures=self.measures)

    @property
    def style(self) -> Group:
        """The histograms of the rules of style."""
        return style_group()

    @cached_property
    def _reader(self) -> Reader:
        from sugarbush.profiling.contributions import Reader  # slow

        return Reader((), by_user=False, key=b"", shape=self.shape, measures=self.measures)

    def cells_of_lengths(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """Return the cells of each text in `lengths`, a function of this text alone."""
        rows = [self._reader.cells_of_sizes(text) for text in texts]
        return np.asarray(rows, dtype=np.int32).reshape(len(texts), self.lengths.cells)

    def cells_of_style(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """Return the cells of each text in `style`, a function of this text alone."""
        rows = [self._reader.cells_of_style(text) for text in texts]
        return np.asarray(rows, dtype=np.int32).reshape(len(texts), self.style.cells)

    def form(
        self,
        lengths: NDArray[np.int64],
        style: NDArray[np.int64],
        *,
        stddev: Mapping[str, float],
        text: TextForm | None,
    ) -> RequestedForm:
        """Return what the noisy counts say. `stddev` is the noise of `SIZES` and `STYLE`."""
        from sugarbush.profiling.draft import lengths_of_sections, style_of, word_counts  # slow

        group = self.lengths
        profile = ReleasedProfile(
            records=int(lengths[0]),
            lengths={name: tuple(group[name].of(lengths).tolist()) for name in self.measures},
            records_per_user=None,
            style=dict(zip(RULES, style.tolist(), strict=False)),
            languages=dict(zip(LANGUAGES, self.style["language"].of(style).tolist(), strict=True)),
            columns=(),
            terms={},
            terms_column=None,
            stddev={SIZES: stddev[SIZES], STYLE: stddev[STYLE]},
            threshold={},
            epsilon=0.0,
            delta=0.0,
            unit="record",
            dataset="",
        )
        return RequestedForm(
            words=word_counts(profile),
            lengths={} if text is None else lengths_of_sections(text, profile),
            style=style_of(profile),
        )
