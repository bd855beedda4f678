"""The private splits of a few records, split in two batches."""

from collections.abc import Sequence

from sugarbush.data.private_store import HELDOUT, TRAIN
from sugarbush.data.records import Record
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.split import ContributionBounder, SplitRecords, Splitter


def split(
    records: Sequence[Record], params: PrepareSettings, *, bound: ContributionBounder | None = None
) -> tuple[SplitRecords, dict[str, int]]:
    """The splits and their exact counts."""
    chosen = None
    if bound is not None:
        bound.add(Splitter(params, public=()).kept(records))
        chosen = bound.chosen()[0]
    splitter = Splitter(params, public=(), bound=chosen)
    half = len(records) // 2
    first, second = (
        splitter.split(batch, source="f") for batch in (records[:half], records[half:])
    )
    splits = {name: first[name] + second[name] for name in (TRAIN, HELDOUT)}
    splitter.require_complete(source="f")
    return splits, splitter.totals.tally(params, source="f", bounded=bound is not None)
