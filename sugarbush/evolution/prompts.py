"""What the first prompts show, and how many first texts are written."""

from __future__ import annotations

from dataclasses import dataclass

from sugarbush.errors import ParamsError
from sugarbush.evolution.settings import PromptContent


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """The content of the first prompts and the number of candidates.

    `examples` is the number of donated examples in a prompt. `candidates` is the number of
    candidates of a round. If it is None and `per_text` and `release.texts` are set, the number is
    `per_text` * `release.texts`, but at least `least`. Otherwise it is `per_record` * the DP record
    count. It is at most `most`. `with_label` adds the label to prompts that show no metadata.
    """

    content: PromptContent
    examples: int
    candidates: int | None
    per_record: float = 0.125
    per_text: int | None = None
    least: int = 1
    most: int = 2000
    with_label: bool = False

    @property
    def shows_metadata(self) -> bool:
        """Whether a first prompt names attribute values."""
        return self.with_label or self.content in {PromptContent.METADATA, PromptContent.BOTH}

    @property
    def shows_examples(self) -> bool:
        """Whether a first prompt contains donated examples."""
        return self.content in {PromptContent.EXAMPLES, PromptContent.BOTH}

    def candidate_count(self, record_count: float | None, *, texts: int | None = None) -> int:
        """Return the number of candidates in a round, from `release.texts` or the *DP* count.

        Raises ParamsError if the setting is null and there is no DP count.

        >>> Prompts(content=PromptContent.BOTH, examples=3, candidates=None).candidate_count(801.4)
        100
        """
        if self.candidates is not None:
            return self.candidates
        if self.per_text is not None and texts is not None:
            return min(max(self.per_text * texts, self.least), self.most)
        if record_count is None:
            raise ParamsError(
                "candidates is null, but this method releases no DP record count. Set "
                "methods.<method>.candidates"
            )
        return max(min(int(self.per_record * max(record_count, 0.0)), self.most), 1)

    def planned_count(self, record_count: float | None, *, texts: int | None = None) -> int:
        """Return `candidate_count`, or the largest possible number without a DP record count."""
        if record_count is None and self.candidates is None and (not self.per_text or not texts):
            return self.most
        return self.candidate_count(record_count, texts=texts)
