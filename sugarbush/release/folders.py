"""Reads released folders, and writes their release.json and their texts."""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.reader import Labels, ReadAttribute
from sugarbush.attributes.released_values import released_values
from sugarbush.data.private_store import PrivateStore
from sugarbush.data.schema import Schema
from sugarbush.data.shapes.interface import ShapeError
from sugarbush.data.shapes.one_text import TEXT
from sugarbush.embedding.class_sums import ClassSums
from sugarbush.errors import InvariantError, LedgerError, StorageError, SugarbushError
from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.evolution.parts import Lineage, Round, Scored
from sugarbush.evolution.population import NO_CODE, Population, load_population, save_population
from sugarbush.evolution.targets import Donated
from sugarbush.generators.interface import Usage
from sugarbush.methods.interface import FinalSet, Method
from sugarbush.paths import Roots, require
from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.entries import NOT_AN_ENTRY, Entry
from sugarbush.privacy.key import state_key
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.settings import PrivacySettings, Purpose
from sugarbush.release.columns import typed_table
from sugarbush.release.histories import history_of, records_as_lines, records_table
from sugarbush.report.downloads import LINES, PARQUET, RECORDS, TEXTS

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
FILE = "release.json"
FIGURES = "figures.json"  # the public figures, which stage measure writes
_NAMES = {"initialise": "initial"}
_LEAST_RAKED = 1 / 16  # of `raking_weights`


def write_release(
    folder: Path,
    *,
    stage: str,
    privacy: PrivacySettings,
    ledger_ids: Iterable[str],
    run: str,
    ledger: Ledger | None,
) -> None:
    """Write release.json with the stage, the guarantee, and the charged entries of `ledger`.
    Without a DP guarantee, `ledger` is None and the folder is not publishable. The file contains
    complete entries, so that released folders can repair a lost ledger. The seal proves that this
    installation wrote the file. It covers the dataset and the purpose, so that the file proves
    nothing for another ledger."""
    ids = list(dict.fromkeys(ledger_ids))
    charges = [] if ledger is None else [entry.public_fields() for entry in ledger.of(ids)]
    fields: dict[str, Any] = {
        "stage": stage,
        "dataset": privacy.dataset,
        "purpose": privacy.purpose.value,
        "publishable": ledger is not None and privacy.purpose is Purpose.RELEASE,
        "unit": privacy.unit.value,
        "records_per_unit": privacy.records_per_user,
        "delta": privacy.delta,
        "ledger_ids": ids,
        "charges": charges,
        "run": run,
    }
    if ledger is not None:
        fields["seal"] = _seal(state_key(ledger.state), fields)
    (folder / FILE).write_text(json.dumps(fields, indent=1) + "\n")


@contextmanager
def reading_folder(folder: Path) -> Iterator[None]:
    """Convert any error of a block that reads a released folder to a StorageError.

    The project's own errors and a lack of memory stay as they are.
    """
    try:
        yield
    except (SugarbushError, MemoryError):
        raise
    except Exception:  # every library has errors of its own for a damaged file
        raise StorageError(
            f"{folder}: a file is damaged or missing. Write the folder again with: sugarbush run"
        ) from None


def read_release(folder: Path) -> dict[str, Any]:
    """Read the release.json of a folder."""
    fields: dict[str, Any] = json.loads((folder / FILE).read_text())
    return fields


def read_ledger_ids(folder: Path) -> tuple[str, ...]:
    """Read the ids of the ledger entries that charge for the content of a folder."""
    return tuple(read_release(folder)["ledger_ids"])


def charges_of_releases(roots: Roots, privacy: PrivacySettings) -> dict[str, Path]:
    """Map each ledger id in the dataset's released folders to a folder that lists this id."""
    return {
        str(i): path.parent
        for path, fields in _releases(roots, privacy)
        for i in fields["ledger_ids"]
    }


def methods_of_releases(roots: Roots, privacy: PrivacySettings) -> frozenset[str]:
    """Return the names of the methods that have released folders of the dataset."""
    folders = [path.parent for path, _ in _releases(roots, privacy)]
    return frozenset(folder.name for folder in folders)


@dataclass(frozen=True, kw_only=True)
class ReleasedEntries:
    """The ledger entries in released folders, by id.

    Files with a valid seal contain the entries of `sealed`. All other entries are in `unsealed`:
    somebody may have edited or invented them, or they come from another key.
    """

    sealed: Mapping[str, Entry]
    unsealed: Mapping[str, Entry]


def entries_of_releases(roots: Roots, privacy: PrivacySettings, *, key: bytes) -> ReleasedEntries:
    """Read the ledger entries in the dataset's released folders. If several files
    without a valid seal contain an id, the entry with the largest epsilon counts."""
    sealed: dict[str, Entry] = {}
    unsealed: dict[str, Entry] = {}
    for path, fields in _releases(roots, privacy):
        try:
            entries = [Entry.from_public_fields(charge) for charge in fields["charges"]]
            is_sealed = _is_sealed(key, fields)
        except NOT_AN_ENTRY:
            raise _damaged(path) from None
        for entry in entries:
            if is_sealed:
                sealed[entry.id] = entry
            elif (known := unsealed.get(entry.id)) is None or _cost(known) < _cost(entry):
                unsealed[entry.id] = entry
    rest = {i: entry for i, entry in unsealed.items() if i not in sealed}
    return ReleasedEntries(sealed=sealed, unsealed=rest)


def _cost(entry: Entry) -> float:
    return epsilon([entry.event], delta=entry.delta)


def _is_sealed(key: bytes, fields: Mapping[str, Any]) -> bool:
    content = {name: value for name, value in fields.items() if name != "seal"}
    return hmac.compare_digest(_seal(key, content).encode(), str(fields.get("seal")).encode())


def _seal(key: bytes, fields: Mapping[str, Any]) -> str:
    content = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return hmac.digest(key, b"release\x1f" + content, "sha256").hex()


def _releases(roots: Roots, privacy: PrivacySettings) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each release.json of the settings' dataset, and its content."""
    for path, fields in all_releases(roots):
        if (fields["dataset"], fields["purpose"]) == (privacy.dataset, privacy.purpose.value):
            yield path, fields


def all_releases(roots: Roots) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each release.json of the project, and its content. Folders with a name that starts
    with a dot are skipped, because another process is writing them."""
    for path in sorted(roots.released.glob(f"**/{FILE}")):
        if any(each.startswith(".") for each in path.relative_to(roots.released).parts):
            continue
        try:
            fields = json.loads(path.read_text())
            _ = fields["dataset"], fields["purpose"], list(fields["ledger_ids"])
        except FileNotFoundError:
            continue  # another process has just replaced the folder
        except (OSError, *NOT_AN_ENTRY):
            raise _damaged(path) from None
        yield path, fields


def _damaged(path: Path) -> LedgerError:
    return LedgerError(
        f"{path}: the file is damaged, so the charges for its folder are unknown. Restore the file "
        "from a backup, or move the folder out of data/released"
    )


def restored(value: T, folder: Path) -> Released[T]:
    """Mark `value` as released, with the ledger ids of the folder that contains it."""
    return Released(value, read_ledger_ids(folder))


def read_metadata(roots: Roots) -> MetadataRelease:
    """Read what stage synthesize_metadata released."""
    folder = require(roots.released / "metadata", left_by="synthesize_metadata")
    label = json.loads((folder / "metadata.json").read_text())["label"]
    return metadata_in([folder], label=label, ledger_ids=read_ledger_ids(folder))


def metadata_in(
    folders: Iterable[Path], *, label: str | None, ledger_ids: tuple[str, ...]
) -> MetadataRelease:
    """Read the DP table and the DP counts of `label`. Return None for a missing result."""
    import pandas as pd

    rows = labels = record_count = None
    cliques: tuple[tuple[str, ...], ...] = ()
    for folder in folders:
        if (folder / "rows.parquet").exists():
            rows = pd.read_parquet(folder / "rows.parquet").to_numpy(dtype=np.int64)
            table = json.loads((folder / "table.json").read_text())
            record_count = float(table["record_count"])
            cliques = tuple(map(tuple, table["cliques"]))
        if (folder / "labels.npy").exists():
            labels = np.load(folder / "labels.npy")
    return MetadataRelease(
        rows=rows,
        cliques=cliques,
        record_count=record_count,
        labels=labels,
        label=label,
        ledger_ids=ledger_ids,
    )


def read_record_count(roots: Roots) -> float | None:
    """Read the DP record count, or return None if stage synthesize_metadata released no count."""
    path = roots.released / "metadata" / "table.json"
    return float(json.loads(path.read_text())["record_count"]) if path.exists() else None


def donated_frame(roots: Roots) -> pd.DataFrame:
    """Read the donated examples with their codes (public)."""
    import pandas as pd

    path = require(roots.public / "donated" / "donated.parquet", left_by="extract_metadata")
    return pd.read_parquet(path)


def load_donated(roots: Roots, schema: Schema) -> Donated | None:
    """Read the donated examples with their codes. Return None without donated examples."""
    frame = donated_frame(roots)
    if frame.empty:
        return None
    codes = frame[list(schema.names)].to_numpy(dtype=np.int64)
    return Donated(texts=tuple(frame["text"]), codes=codes)


def method_folder(roots: Roots, method: Method, stage: str) -> Path:
    """Return the folder with the results of one stage of a method. Results without a DP guarantee
    are in the private root."""
    if method.stays_private:
        folder = PrivateStore(roots.private).method_folder(method.name)
        return folder / {"enlarge": stage, **_NAMES}.get(stage, "")
    name = _NAMES.get(stage, stage)
    return roots.released / name / method.name


def read_final_set(roots: Roots, method: Method, schema: Schema) -> FinalSet:
    """Read the rounds and the final set that stage evolve of a method wrote."""
    folder = method_folder(roots, method, "evolve")
    require(folder / "lineage.parquet", left_by=f"evolve@{method.name}")
    return FinalSet(lineage=read_lineage(folder, schema), run=read_release(folder)["run"])


def read_lineage(folder: Path, schema: Schema) -> Lineage:
    """Read the texts in a method's folder, and how they came about."""
    usage = json.loads((folder / "usage.json").read_text())
    rounds = tuple(
        Round(
            **vars(_read_scored(path, schema, read_ledger_ids(folder))),
            number=int(path.name.removeprefix("round_")),
            survivors=np.load(path / "survivors.npy"),
            usage=Usage(**usage[path.name]),
        )
        for path in sorted(folder.glob("round_*"))
    )
    scored = folder / "scored"
    return Lineage(
        final=load_population(folder / "lineage.parquet", schema.names),
        usage=Usage(**usage["final"]),
        ledger_ids=read_ledger_ids(folder),
        rounds=rounds,
        scored=_read_scored(scored, schema, read_ledger_ids(folder)) if scored.exists() else None,
    )


def _read_scored(folder: Path, schema: Schema, ids: tuple[str, ...]) -> Scored:
    return Scored(
        population=load_population(folder / "candidates.parquet", schema.names),
        scores=Released(np.load(folder / "scores.npy"), ids),
        class_sums=_read_class_sums(folder / "class_sums.npz", ids),
        **json.loads((folder / "scores.json").read_text()),
    )


def _read_class_sums(path: Path, ids: tuple[str, ...]) -> Released[ClassSums] | None:
    if not path.exists():
        return None
    with np.load(path) as arrays:
        classes = tuple((int(column), int(size)) for column, size in arrays["classes"])
        sums = ClassSums(
            sums=arrays["sums"],
            stddev=float(arrays["stddev"]),
            centre=arrays["centre"],
            classes=classes,
        )
    return Released(sums, ids)


def _write_scored(scored: Scored, schema: Schema, folder: Path) -> None:
    folder.mkdir()
    save_population(scored.population, schema.names, folder / "candidates.parquet")
    np.save(folder / "scores.npy", scored.scores.value)
    if scored.class_sums is not None:
        np.savez(folder / "class_sums.npz", **vars(scored.class_sums.value))
    facts = {"unit": scored.unit, "stddev": scored.stddev, "name": scored.name}
    (folder / "scores.json").write_text(json.dumps(facts))


def final_folder(roots: Roots, method: Method) -> Path:
    """Return the folder with a method's final texts. Raises MissingInputError, which names the
    stage to run."""
    stage = method.stages[-1]
    folder = method_folder(roots, method, stage)
    return require(folder / "synthetic.jsonl", left_by=f"{stage}@{method.name}").parent


def first_folder(roots: Roots, method: Method) -> Path | None:
    """Return the folder with a method's first candidates, or None without stage initialise."""
    if "initialise" not in method.stages:
        return None
    folder = method_folder(roots, method, "initialise")
    return require(folder / "candidates.parquet", left_by=f"initialise@{method.name}").parent


def first_candidates(roots: Roots, method: Method, schema: Schema) -> Released[Population] | None:
    """Read a method's first candidates, and the ids of their ledger entries."""
    folder = first_folder(roots, method)
    if folder is None:
        return None
    return restored(load_population(folder / "candidates.parquet", schema.names), folder)


def write_texts(lineage: Lineage, schema: Schema, folder: Path, *, labels: Labels | None) -> None:
    """Write the lineage of the final texts, and every round for the report. With `labels`, also
    write the texts with their labels, as JSON lines and as parquet with the schema's types."""
    usage: dict[str, Any] = {}
    for finished in lineage.rounds:
        path = folder / f"round_{finished.number:03d}"
        _write_scored(finished, schema, path)
        np.save(path / "survivors.npy", finished.survivors)
        usage[path.name] = asdict(finished.usage)
    if lineage.scored is not None:
        _write_scored(lineage.scored, schema, folder / "scored")
    usage["final"] = asdict(lineage.usage)
    (folder / "usage.json").write_text(json.dumps(usage, indent=1))
    save_population(lineage.final, schema.names, folder / "lineage.parquet")
    if labels is not None:
        labels.frame(schema.names).to_parquet(folder / "labels.parquet", index=False)
        facts = [asdict(attribute) for attribute in labels.attributes]
        (folder / "labels.json").write_text(json.dumps(facts, indent=1))
        lines = texts_as_lines(lineage.final, schema, labels)
        (folder / f"{TEXTS}{LINES}").write_text(lines, encoding="utf-8")
        typed_table(lines, schema).write(folder / f"{TEXTS}{PARQUET}")
        write_records(lines, schema, folder, RECORDS)


def write_records(lines: str, schema: Schema, folder: Path, stem: str) -> None:
    """Write the records of histories as JSON lines and as parquet. Other records have no file."""
    if history_of(schema) is not None:
        (folder / f"{stem}{LINES}").write_text(records_as_lines(lines, schema), encoding="utf-8")
        records_table(lines, schema).write(folder / f"{stem}{PARQUET}")


def load_labels(folder: Path) -> Labels:
    """Read the labels of a method's final texts that `write_texts` wrote."""
    import pandas as pd

    facts = json.loads((folder / "labels.json").read_text())
    attributes = tuple(ReadAttribute(**fields) for fields in facts)
    names = [attribute.name for attribute in attributes]
    return Labels.of_frame(pd.read_parquet(folder / "labels.parquet"), names, attributes)


def texts_as_lines(population: Population, schema: Schema, labels: Labels) -> str:
    """Return the content of synthetic.jsonl: one JSON object for each final text."""
    frame = frame_of_values(_columns_of_texts(population, schema, labels), iso_dates=True)
    digits = 10 if schema.shape is None else 15  # numbers of a record keep all their digits
    lines: str = frame.to_json(
        orient="records", lines=True, force_ascii=False, double_precision=digits
    )
    return lines


def columns_of_texts(texts: Sequence[str], schema: Schema) -> dict[str, list[Any]]:
    """Return the user's columns of canonical texts, or the column `text` for texts of one string.

    Raises InvariantError for a text without the shape of the schema, so every release has it.
    """
    if (shape := schema.shape) is None:
        return {TEXT: list(texts)}
    try:
        rows = [shape.parse(text) for text in texts]
    except ShapeError:
        raise InvariantError("a text of the release does not have the shape of a record") from None
    return {name: [row[name] for row in rows] for name in shape.types}


def text_of_row(row: Mapping[str, Any], schema: Schema) -> str:
    """Return the canonical text of a row that `readable` or synthetic.jsonl contains."""
    return str(row[TEXT]) if schema.shape is None else schema.shape.text_of(row)


def readable(population: Population, schema: Schema, labels: Labels) -> pd.DataFrame:
    """Return one row per final text: id, text (or the columns of the shape), the values that were
    read from the text, the requested values (`requested_*`), the reader's confidence
    (`confidence_*`) and a weight.

    A column without any value is omitted, and so are the label and the confidence of an attribute
    in `labels.left_out`. The values of an attribute whose listed values are
    numbers are numbers, and those of an attribute with a type are numbers or dates in the bin that
    was read (`values_of_texts`); then `other` is missing.
    """
    return frame_of_values(_columns_of_texts(population, schema, labels))


def columns_left_out(labels: Labels) -> frozenset[str]:
    """Return the columns that are not published: wrong labels and the confidence in them."""
    return frozenset(f"{start}{name}" for name in labels.left_out for start in ("", "confidence_"))


def _columns_of_texts(population: Population, schema: Schema, labels: Labels) -> dict[str, Any]:
    texts = columns_of_texts(population.texts, schema)
    columns: dict[str, Any] = {"id": population.ids, **texts}
    asked = values_of(population.codes, schema, numbers=population.values)
    values, _ = values_of_texts(population, schema, labels)
    for name, own in values_of(labels.codes, schema, numbers=values).items():
        if name not in texts and any(value is not None for value in own):
            columns[name] = own
    columns |= {
        f"requested_{name}": v for name, v in asked.items() if any(x is not None for x in v)
    }
    for place, name in enumerate(schema.names):
        sure = labels.confidence[:, place]
        if not np.isnan(sure).all():
            columns[f"confidence_{name}"] = np.round(sure, 3)
    columns["weight"] = np.round(labels.weights, _weight_digits(labels.weights))
    left_out = columns_left_out(labels)
    return {name: values for name, values in columns.items() if name not in left_out}


def _weight_digits(weights: NDArray[np.float64]) -> int:
    """Return the digits after the point that keep the smallest weight above 0 to 0.1%.

    Raked weights have three. A mix may give a rare value a weight that is much smaller.
    """
    least = float(np.min(weights, where=weights > 0, initial=1.0))
    return 3 if least >= _LEAST_RAKED else 3 - math.floor(math.log10(least))


def frame_of_values(columns: Mapping[str, Any], *, iso_dates: bool = False) -> pd.DataFrame:
    """Return a frame of columns. A list of integers with missing values stays a column of integers.
    Dates become datetime64, or texts in ISO form with `iso_dates`."""
    import pandas as pd

    frame = pd.DataFrame(dict(columns))
    for name, values in columns.items():
        types = {type(v) for v in values} - {type(None)} if isinstance(values, list) else set()
        if types == {int}:
            frame[name] = frame[name].astype("Int64")  # else 4 becomes 4.0 beside a missing value
        elif types and types <= {date, datetime}:
            iso = [None if value is None else value.isoformat() for value in values]
            frame[name] = iso if iso_dates else _moments(iso)
    return frame


def _moments(iso: list[str | None]) -> pd.Series[Any]:
    """Return dates in ISO form as datetime64[s], which has no limit of years. All are in UTC, or
    none has a time zone."""
    import pandas as pd

    zoned = any(value is not None and value.endswith("+00:00") for value in iso)
    bare = ["NaT" if value is None else value.removesuffix("+00:00") for value in iso]
    moments = pd.Series(np.array(bare, dtype="datetime64[s]"))
    return moments.dt.tz_localize("UTC") if zoned else moments


def values_of_texts(
    population: Population, schema: Schema, labels: Labels
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the numbers and dates (n, d) of texts, and which texts break a rule of the schema."""
    return released_values(
        schema, population.texts, labels.codes, requested=population.values, ids=population.ids
    )


def values_of(
    codes: NDArray[np.int64], schema: Schema, *, numbers: NDArray[np.float64] | None = None
) -> dict[str, list[Any]]:
    """Return a column of values for each attribute. A value without a request is None.

    With `numbers` (n, d), values of an attribute with only numbers are numbers, those of an
    attribute with a type are the numbers or dates in `numbers`, and `other` is None.
    """
    found: dict[str, list[Any]] = {}
    for place, (attribute, column) in enumerate(zip(schema.attributes, codes.T, strict=True)):
        if numbers is not None and (quantity := attribute.quantity) is not None:
            found[attribute.name] = [
                None if np.isnan(number) else quantity.value(number)
                for number in numbers[:, place].tolist()
            ]
            continue
        domain: tuple[Any, ...] = attribute.domain
        if numbers is not None and attribute.numbers is not None:
            domain = (*attribute.numbers, None)
        found[attribute.name] = [None if code == NO_CODE else domain[code] for code in column]
    return found
