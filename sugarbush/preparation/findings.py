"""Reads the corpus once for `check`, `budget` and `run`: what a run would refuse or drop.

The findings depend on private rows and are exact. Show them on the operator's terminal only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sugarbush.data.private_store import HELDOUT, TRAIN
from sugarbush.data.records import Record
from sugarbush.data.shapes.conversation import is_omitted
from sugarbush.data.split import Unmatched, unmatched_values
from sugarbush.errors import BudgetExceededError, LedgerError
from sugarbush.preparation.corpus import SplitCorpus, read_corpus
from sugarbush.progress import working
from sugarbush.run.context import Project

CHARACTERS_PER_TOKEN = 4
_REASONS = {
    "public": "equal to a public text (donated, of the pool or of pretrain.sources)",
    "left to the pool": "left to the pool (prepare.exclude_share)",
    "beyond records_per_user": "more than privacy.records_per_user of one user",
}


@dataclass(frozen=True, kw_only=True)
class CorpusFindings:
    """The listed values that no row has, the exact tally of the rows by use, the keyed fingerprint
    of the corpus, and the number of characters that the encoder reads."""

    unmatched: tuple[Unmatched, ...]
    tally: Mapping[str, int]
    fingerprint: tuple[str, ...]
    characters: int


def corpus_findings(project: Project) -> CorpusFindings:
    """Read the corpus as stage prepare does, and write nothing. Raises InputError for a corpus that
    stage prepare would refuse, also if public texts overlap the records."""
    with working("reading every row"):
        corpus = read_corpus(project)
        counter = _Characters(CHARACTERS_PER_TOKEN * project.settings.embedding.max_tokens)
        unmatched = unmatched_values(
            (record.raw for record in counter.counted(_records(corpus))), project.schema
        )
        return CorpusFindings(
            unmatched=tuple(unmatched),
            tally=corpus.tally,
            fingerprint=corpus.fingerprint,
            characters=counter.characters,
        )


class _Characters:
    """Counts the characters of records, at most `most` of each."""

    def __init__(self, most: int) -> None:
        self.characters, self._most = 0, most

    def counted(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            self.characters += min(len(record.text), self._most)
            yield record


def _records(corpus: SplitCorpus) -> Iterator[Record]:
    for split in corpus.batches():
        for records in split.values():
            yield from records


def known_corpus(project: Project, findings: CorpusFindings) -> str | None:
    """Return why the ledger refuses the corpus, for example because it has another dataset name.

    Returns None if the ledger accepts the corpus. The cap is not checked, and nothing is charged.
    """
    try:
        project.ledger().check((), dataset_fingerprint=findings.fingerprint)
    except BudgetExceededError:
        return None
    except LedgerError as error:
        return str(error)
    return None


def dropped_rows(tally: Mapping[str, int]) -> list[str]:
    """Describe the rows, and the turns of rows, that a run does not use. The list is empty if a run
    uses all.

    >>> dropped_rows({"train": 90, "heldout": 8, "public": 0, "the text is empty": 2})
    ['98 of 100 rows are used', '2 not used: the text is empty']
    """
    dropped = {reason: n for reason, n in tally.items() if n and reason not in (TRAIN, HELDOUT)}
    parts = {reason: dropped.pop(reason) for reason in list(dropped) if is_omitted(reason)}
    lines = []
    if dropped:
        used = tally.get(TRAIN, 0) + tally.get(HELDOUT, 0)
        lines.append(f"{used:,} of {used + sum(dropped.values()):,} rows are used")
    lines += [f"{n:,} not used: {_REASONS.get(why, why)}" for why, n in dropped.items()]
    return lines + [f"{n:,} {what}" for what, n in parts.items()]
