"""The Python API: one function per task.

The functions run the same code as the stages of the pipeline, and charge the same ledger.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from sugarbush import versions
from sugarbush.arguments import (
    names_arguments,
    require_kind,
    require_list,
    require_promise,
    require_texts,
    type_name,
)
from sugarbush.attributes.reader import Labels
from sugarbush.data.private_store import keyed_digest
from sugarbush.data.reading import require_column
from sugarbush.data.records import as_text
from sugarbush.data.schema import Schema, load_schema, schema_of
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import InputError, ParamsError, PrivacyError, SchemaError
from sugarbush.evaluation.settings import EvaluateSettings
from sugarbush.evolution.parts import Lineage
from sugarbush.evolution.starts import LABELS, METADATA
from sugarbush.generators.interface import GeneratorSettings
from sugarbush.html_table import html_table
from sugarbush.methods.interface import (
    FinalSet,
    Initial,
    Method,
    MethodInputs,
    OneStageMethod,
    TrainedMethod,
)
from sugarbush.methods.mosaic import Mosaic
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.paths import atomic_directory, named_state, state_root
from sugarbush.pipeline.in_memory import Corpus, InMemoryProject, prepare_corpus, project_settings
from sugarbush.pipeline.in_memory_report import ReportSource, metadata_files
from sugarbush.pipeline.judging import judge
from sugarbush.pipeline.metadata import DrawnMetadata, MetadataRequest
from sugarbush.pipeline.released import (
    readable,
    texts_as_lines,
    values_of,
    write_release,
    write_texts,
)
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.usable_inputs import require_usable_inputs
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.budget import BudgetRequest, make_plan
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.fingerprint import make_dataset_fingerprint
from sugarbush.privacy.key import state_key
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.mechanisms import noisy_histogram
from sugarbush.privacy.reservation import Reservation
from sugarbush.privacy.results import digest_of, open_result_store
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import (
    PrivacySettings,
)
from sugarbush.privacy.snapshots import Snapshots
from sugarbush.privacy.unit import Unit
from sugarbush.randomness import public_rng
from sugarbush.registry import METHODS, use_class
from sugarbush.report.verdict import Verdict
from sugarbush.tables.settings import Engine, SynthesizeMetadataSettings
from sugarbush.training.crt.findings import DEFAULT_DETECTORS

if TYPE_CHECKING:
    from sugarbush.evaluation.interface import MetricValue
    from sugarbush.report.model import Download, PublicData
    from sugarbush.report.notebook import Picture, ReportPage

SchemaLike = Schema | Mapping[str, Any] | Path | str
_TEXT = "text"
_MOST_RECORDS = 10**6
_SHOWN_TEXTS, _SHORT = 3, 200  # texts of a release in a notebook, and characters of a text
_A_GENERATOR = 'sb.OpenAI(model="my-model")'


@dataclass(frozen=True, kw_only=True)
class Release:
    """A synthetic corpus with its privacy guarantee and the ids of its ledger entries.

    `frame` has one row per synthetic text, with the attribute values that were read from the text
    (see `labels`), the values that were requested for it, and a weight. `verdict` tells how good
    the texts are, from released and public values. `lineage` contains the candidates and the noisy
    scores. If `epsilon` is infinite, the texts have no guarantee and must stay private.
    """

    method: str
    frame: pd.DataFrame = field(repr=False)
    delta: float
    ledger_ids: tuple[str, ...] = field(repr=False)
    run: str = field(repr=False)
    lineage: Lineage = field(repr=False)
    labels: Labels = field(repr=False)
    verdict: Verdict = field(repr=False)
    _schema: Schema = field(repr=False)
    _privacy: PrivacySettings = field(repr=False)
    _ledger: Ledger = field(repr=False)
    _make_card: Callable[[], Mapping[str, Any] | None] = field(repr=False)
    _report: ReportSource = field(repr=False)

    @cached_property
    def card(self) -> Mapping[str, Any] | None:
        """The release card, or None if the method has no DP guarantee.

        The card describes the ledger at the end of the run. The first access computes the card,
        which takes a second.
        """
        return self._make_card()

    @property
    def epsilon(self) -> float:
        """The epsilon on the card, or infinity if the method has no DP guarantee."""
        return math.inf if self.card is None else float(self.card["promise"]["epsilon"])

    @property
    def texts(self) -> tuple[str, ...]:
        return self.lineage.final.texts

    def save(self, folder: str | Path) -> Path:
        """Write the texts, the rounds, release.json, the card and the report into a new or empty
        folder.

        The report is index.html, with links to the texts and the card. Raises ParamsError if the
        folder is not empty. Raises PrivacyError if the method has no DP guarantee.
        """
        from sugarbush.report.downloads import downloads_in_folder

        target, card_files = Path(folder), self._card_files()
        if target.exists() and any(target.iterdir()):
            raise ParamsError(f"{target}: is not empty. Choose another folder")
        with atomic_directory(target) as temporary:
            write_texts(self.lineage, self._schema, temporary, labels=self.labels)
            files = {**card_files, "index.html": self._page(downloads_in_folder())}
            for name, content in files.items():
                (temporary / name).write_text(content, encoding="utf-8")
            write_release(
                temporary,
                stage=self.method,
                privacy=self._privacy,
                ledger_ids=self.ledger_ids,
                run=self.run,
                ledger=self._ledger,
            )
        return target

    def report(self) -> ReportPage:
        """Return the public report as one HTML page, which a notebook shows.

        The page contains its texts and its card, so it needs no other file. `report().open()` opens
        it in the browser, and `report().save("report.html")` writes it. Raises PrivacyError if the
        method has no DP guarantee.
        """
        from sugarbush.report.downloads import TEXTS, downloads_inside
        from sugarbush.report.notebook import ReportPage

        lines = texts_as_lines(self.lineage.final, self._schema, self.labels)
        files = {**self._card_files(), TEXTS: lines}
        return ReportPage(self._page(downloads_inside(files)))

    def _card_files(self) -> dict[str, str]:
        from sugarbush.report.card import card_json, card_markdown

        if self.card is None:
            raise PrivacyError(
                f"method {self.method} has no DP guarantee, so its texts are not released. "
                "Read the texts from the attribute `texts`"
            )
        card = dict(self.card)
        return {"release_card.json": card_json(card), "release_card.md": card_markdown(card)}

    @cached_property
    def _public_data(self) -> PublicData:
        return self._report.public_data()

    def _page(self, downloads: tuple[Download, ...]) -> str:
        from sugarbush.report.page import render_public_page

        return render_public_page(replace(self._public_data, downloads=downloads))

    def _repr_html_(self) -> str:
        """Show the guarantee and the first texts. Without a DP guarantee, show no text, because
        notebooks are saved with their output."""
        facts = [("texts", f"{len(self.texts):,}"), ("dataset", self._privacy.dataset)]
        if self.card is None:
            title = f"{self.method}: NOT PRIVATE"
            return html_table(title, facts, note="No DP guarantee. The texts must stay private.")
        epsilon, delta = rounded_up(self.epsilon), rounded_up(self.delta)
        facts.append(("guarantee", f"epsilon {epsilon}, delta {delta}, per {self._privacy.unit}"))
        for number, text in enumerate(self.texts[:_SHOWN_TEXTS], start=1):
            facts.append((f"text {number}", text if len(text) <= _SHORT else text[:_SHORT] + " …"))
        note = "All texts: .frame. Report: .report(). Card: .card"
        return html_table(f"Release of {self.method}", facts, note=note)


@names_arguments
def prepare(
    frame: pd.DataFrame,
    *,
    text: str = _TEXT,
    schema: SchemaLike,
    privacy: PrivacySettings,
    generator: GeneratorSettings | None = None,
    donated: pd.DataFrame | Sequence[str] | None = None,
    user: str | None = None,
    record_id: str | None = None,
    settings: Mapping[str, Any] | None = None,
    state: Path | str | None = None,
) -> Corpus:
    """Prepare a private corpus once for several calls of `synthesize`.

    The function checks and splits the records and extracts their attributes. The function spends no
    budget. `synthesize` explains the arguments. Raises InputError; the message names the row and
    never quotes a text.

    >>> import pandas as pd, sugarbush as sb, tempfile
    >>> frame = pd.DataFrame({"message": [f"Order {i} arrived late" for i in range(200)]})
    >>> topics = {"subject": "letters", "attributes": [
    ...     {"name": "topic", "values": ["late"], "keywords": {"late": ["late"]}}]}
    >>> with tempfile.TemporaryDirectory() as state:
    ...     corpus = sb.prepare(frame, text="message", schema=topics,
    ...                         privacy=sb.Privacy(dataset="letters"), state=Path(state))
    >>> corpus.schema.names
    ('topic',)
    """
    found = _settings_of_frame(
        frame,
        text=text,
        privacy=privacy,
        generator=generator,
        donated=donated,
        user=user,
        record_id=record_id,
        settings=settings,
    )
    examples = donated
    if donated is not None and not isinstance(donated, pd.DataFrame):
        require_texts("donated", donated)
        examples = pd.DataFrame({text: list(donated)})
    own = open_schema(schema)
    if own.asked_of_llm:
        raise ParamsError(
            "the Python API cannot read attributes with `source: llm`. Add a column with the "
            "values to the frame, or make a project with `sugarbush init`"
        )
    assert examples is None or isinstance(examples, pd.DataFrame)
    return prepare_corpus(
        frame, found, own, donated=examples, state=None if state is None else _state(state)
    )


def _settings_of_frame(
    frame: pd.DataFrame,
    *,
    text: str,
    privacy: PrivacySettings,
    generator: GeneratorSettings | None,
    donated: pd.DataFrame | Sequence[str] | None,
    user: str | None,
    record_id: str | None,
    settings: Mapping[str, Any] | None,
) -> ProjectSettings:
    """Return the settings that prepare a frame. Without `generator`, none is set."""
    require_kind("the corpus", frame, pd.DataFrame, "a pandas DataFrame")
    require_kind("privacy", privacy, PrivacySettings, 'sb.Privacy(dataset="letters")')
    for argument, column in (("text", text), ("user", user), ("record_id", record_id)):
        if column is not None:
            require_column(frame, column, asked_by=argument)
    if not privacy.dataset:
        raise ParamsError(
            "privacy: sb.Privacy needs dataset=, the name of the ledger. Corpora about the same "
            'people need the same name, for example sb.Privacy(dataset="letters")'
        )
    sections: dict[str, Any] = {
        "privacy": privacy.model_dump(mode="json"),
        "prepare": {
            "file": "a frame",
            "text_column": text,
            "id_column": record_id,
            "user_column": user,
            "donated": None if donated is None else "a frame",
        },
    }
    if generator is not None:
        require_kind("generator", generator, GeneratorSettings, _A_GENERATOR)
        sections["generator"] = _generator_section(generator)
    return project_settings(sections, settings)


@names_arguments
def synthesize(
    corpus: pd.DataFrame | Corpus,
    *,
    text: str = _TEXT,
    schema: SchemaLike | None = None,
    method: Method | None = None,
    generator: GeneratorSettings | None = None,
    donated: pd.DataFrame | Sequence[str] | None = None,
    privacy: PrivacySettings | None = None,
    user: str | None = None,
    record_id: str | None = None,
    texts: int | None = None,
    seed: int = 1,
    new_draw: bool = False,
    settings: Mapping[str, Any] | None = None,
    state: Path | str | None = None,
    accept_poor: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> Release:
    """Write a synthetic corpus that resembles the private one, under differential privacy.

    Guarantee: (`privacy.epsilon`, `privacy.delta`)-DP per `privacy.unit`, under add/remove
    adjacency. Each mechanism is charged to the ledger of `privacy.dataset` before its noise is
    drawn. The card states the total. A second call with equal arguments and data restores the
    finished results and costs nothing. With `new_draw`, a second call draws and charges again.

    `corpus` is a frame or a prepared `Corpus`. A frame needs the column `text` and the columns that
    the schema names. A prepared corpus already has a schema, donated examples, a unit and a state
    folder. The default `method` is Mosaic(). A method that asks a generator needs `generator`, here
    or in `prepare`. The `donated` examples are not protected. `texts` is the size of the release,
    at most 100,000. The default size is about the DP record count, at most 5,000. The size does not
    affect the privacy cost of a call. A call with another size is charged again if the method then
    scores another number of texts (see `Mosaic`). `settings` contains further sections of
    params.yaml. `seed` is public.

    Before the first charge, a rehearsal compares 24 to 40 first texts with the donated examples. If
    they are poor, the function raises PoorRehearsalError (a ParamsError), unless `accept_poor` is
    true. Raises BudgetExceededError before a charge that would exceed the
    cap. Raises SchemaError for an unedited draft, and ParamsError for a missing generator or a
    simulator without `any_texts`, before the frame is read. Also raises InputError and
    GeneratorError.

    >>> import pandas as pd, sugarbush as sb, tempfile
    >>> frame = pd.DataFrame({"message": [f"Order {i} arrived late" for i in range(200)]})
    >>> topics = {"subject": "letters", "attributes": [
    ...     {"name": "topic", "values": ["late"], "keywords": {"late": ["late"]}}]}
    >>> with tempfile.TemporaryDirectory() as state:
    ...     release = sb.synthesize(
    ...         frame, text="message", schema=topics, state=Path(state),
    ...         method=sb.Mosaic(candidates=20, prompt="metadata"),
    ...         generator=sb.Simulator(any_texts=True),  # only to try it: no model, no good texts
    ...         privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"), texts=12)
    >>> len(release.texts), release.epsilon <= 1
    (12, True)
    """
    chosen = Mosaic() if method is None else method
    require_kind("method", chosen, Method, "sb.Mosaic()")
    use_class(METHODS, chosen.name, type(chosen))
    if generator is not None:
        require_kind("generator", generator, GeneratorSettings, _A_GENERATOR)
    if privacy is not None:
        require_kind("privacy", privacy, PrivacySettings, 'sb.Privacy(dataset="letters")')
    run_settings = partial(
        _run_settings,
        method=chosen,
        generator=generator,
        privacy=privacy,
        texts=texts,
        seed=seed,
        settings=settings,
    )
    if isinstance(corpus, Corpus):
        found = run_settings(corpus.settings)
        _require_usable(found, corpus.schema)
    else:
        if schema is None or privacy is None:
            raise ParamsError("synthesize needs schema= and privacy=, or a prepared corpus")
        of_frame = _settings_of_frame(
            corpus,
            text=text,
            privacy=privacy,
            generator=generator,
            donated=donated,
            user=user,
            record_id=record_id,
            settings=settings,
        )
        found, schema = run_settings(of_frame), open_schema(schema)
        _require_usable(found, schema)  # before the frame is read
        corpus = prepare(
            corpus,
            text=text,
            schema=schema,
            privacy=privacy,
            generator=generator,
            donated=donated,
            user=user,
            record_id=record_id,
            settings=settings,
            state=state,
        )
    project = _with_best_prompts(InMemoryProject(corpus, found, accept_poor=accept_poor))
    configured = found.method(chosen.name)
    with Reservation() as project.reservation:
        return _run(project, configured, new_draw=new_draw, report=report)


@names_arguments
def dp_table(
    frame: pd.DataFrame,
    *,
    schema: SchemaLike,
    epsilon: float,
    delta: float,
    dataset: str,
    cap: float | None = None,
    engine: str = "sugarbush",
    seed: int = 1,
    state: Path | str | None = None,
) -> Released[pd.DataFrame]:
    """Synthesize a table that resembles `frame`, with AIM, under differential privacy.

    Guarantee: (epsilon, delta)-DP per row, under add/remove adjacency. The cost is charged to the
    ledger of `dataset` before any noise is drawn. Each attribute of `schema` is read from its
    `column` of the frame, which contains the values as they are, such as texts or numbers. The
    result has one column per attribute, with values of `Attribute.domain`, and its number of rows
    is a DP estimate. The ledger cannot recognise the same table under another `dataset` name,
    because a table has no fingerprint. Raises SchemaError for an attribute without a column, and if
    no row has one of the values of an attribute. Raises ParamsError for an engine that is not
    installed, and InputError for a missing column. Also raises BudgetExceededError. Errors are
    raised before the charge. Source: McKenna et al. 2022, "AIM";
    `docs/decisions/aim-in-gaussian-dp.md`.

    >>> import pandas as pd, sugarbush as sb, tempfile
    >>> frame = pd.DataFrame({"stars": [1, 3, 5, 5] * 250, "product": ["lamp", "chair"] * 500})
    >>> schema = {"subject": "orders", "attributes": [
    ...     {"name": "stars", "column": "stars", "bins": [2, 4]},
    ...     {"name": "product", "column": "product", "values": ["lamp", "chair"]}]}
    >>> with tempfile.TemporaryDirectory() as state:
    ...     table = sb.dp_table(frame, schema=schema, epsilon=1.0, delta=1e-6, dataset="orders",
    ...                         state=Path(state))
    >>> list(table.value.columns), "chair" in set(table.value["product"])
    (['stars', 'product'], True)
    """
    from sugarbush.tables.engines import synthesize_table

    own = _table_schema(schema)
    codes = _table_codes(frame, own)
    require_promise(epsilon, delta)
    try:
        params = SynthesizeMetadataSettings.model_validate({"engine": engine})
    except ValidationError:
        known = ", ".join(name.value for name in Engine)
        raise ParamsError(f"engine: expected one of {known} (got {engine!r})") from None
    plan = make_plan(
        [BudgetRequest(name=METADATA, share=1.0, count=0)], epsilon=epsilon, delta=delta
    )
    session = _session(dataset, stage="dp_table", cap=cap, delta=delta, state=state)
    table = synthesize_table(
        Private(codes),
        own.domain,
        mu=plan.of(METADATA).mu,
        params=params,
        session=session,
        rng=public_rng(seed, "table"),
    )
    return table.rows.map(lambda rows: pd.DataFrame(values_of(rows, own)))


@names_arguments
def private_histogram(
    values: Sequence[Any],
    *,
    categories: Sequence[Any],
    epsilon: float,
    delta: float,
    dataset: str,
    cap: float | None = None,
    user: str | None = None,
    records_per_unit: int = 1,
    state: Path | str | None = None,
) -> Released[pd.Series[int]]:
    """Count the values in each category, with noise. A count may be negative.

    Guarantee: (epsilon, delta)-DP by the discrete Gaussian mechanism, for adding or removing one
    value. With `user`, the guarantee is for adding or removing one user with at most
    `records_per_unit` values. `user` is the name of the user column in the ledger, and the ledger
    then has the unit user. The cost is charged to the ledger of `dataset` before the noise is
    drawn. `categories` are public and distinct. A value outside `categories` is
    counted in the last category. The ledger cannot recognise the same values under another
    `dataset` name, because the values have no fingerprint. Raises ParamsError or
    BudgetExceededError before the charge.

    >>> import sugarbush as sb, tempfile
    >>> with tempfile.TemporaryDirectory() as state:
    ...     counts = sb.private_histogram(["a", "b", "a"] * 100, categories=["a", "b", "other"],
    ...                                   epsilon=1.0, delta=1e-6, dataset="letters",
    ...                                   state=Path(state))
    >>> list(counts.value.index)
    ['a', 'b', 'other']
    """
    place = {category: number for number, category in enumerate(categories)}
    if not place or len(place) != len(categories):
        raise ParamsError("categories: expected at least one category, and all of them distinct")
    if not 1 <= records_per_unit <= _MOST_RECORDS or records_per_unit % 1:
        raise ParamsError(
            f"records_per_unit must be a whole number from 1 to {_MOST_RECORDS} "
            f"(got {records_per_unit})"
        )
    records_per_unit = int(records_per_unit)  # the ledger stores no other type
    if records_per_unit > 1 and user is None:
        raise ParamsError(
            f"records_per_unit={records_per_unit} is a limit per user. Set user= to the name of "
            'the user column, for example user="customer"'
        )
    if isinstance(values, str):
        raise ParamsError("private_histogram needs a list of values, not one text")
    require_promise(epsilon, delta)
    bins = np.array([place.get(value, len(place) - 1) for value in values], dtype=np.int64)
    plan = make_plan(
        [BudgetRequest(name=LABELS, share=1.0, count=1)],
        epsilon=epsilon,
        delta=delta,
        records_per_unit=records_per_unit,
    )
    session = _session(
        dataset,
        stage="private_histogram",
        cap=cap,
        delta=delta,
        state=state,
        user_column=user,
        records_per_unit=records_per_unit,
    )
    counts = noisy_histogram(
        Private(bins), size=len(place), stddev=plan.of(LABELS).stddev, session=session
    )
    return counts.map(lambda found: pd.Series(found, index=list(categories)))


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
    Raises InputError for an argument that is not a list of texts.

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


@dataclass(frozen=True, kw_only=True)
class Redaction:
    """Redacted texts, with the position and kind of each detected secret.

    `spans` contains (start, end) in characters of the original texts; the end is exclusive.
    `labels` contains the kind of each span.
    """

    texts: tuple[str, ...] = field(repr=False)
    spans: tuple[tuple[tuple[int, int], ...], ...] = field(repr=False)
    labels: tuple[tuple[str, ...], ...] = field(repr=False)

    @property
    def found(self) -> dict[str, int]:
        """The number of spans of each kind, the most frequent kind first."""
        return dict(Counter(label for own in self.labels for label in own).most_common())

    def _repr_html_(self) -> str:
        """Show no text and no number, because redaction has no guarantee and notebooks are saved
        with their output."""
        rows = [
            (".texts", "the redacted texts"),
            (".spans, .labels", "the secrets that were found"),
        ]
        rows.append((".found", "the number of secrets of each kind"))
        return html_table("Redaction", rows, note="Private: detectors miss some secrets.")


@names_arguments
def redact(
    texts: Sequence[str],
    *,
    detectors: Sequence[str] = DEFAULT_DETECTORS,
    threshold: float = 0.3,
    surrogates: bool = False,
    state: Path | str | None = None,
) -> Redaction:
    """Replace each detected secret in the texts by a mask or by a surrogate.

    The function has no guarantee, because detectors miss some secrets. Each detector is "regex",
    "learned", "presidio", "spacy:<pipeline>", or the name or path of a token classification model.
    "installed" means Presidio and all installed spaCy pipelines. The first use of "learned" on a
    machine trains this detector, which takes some minutes. A surrogate is an invented value of the
    same kind. The key of the state folder chooses the surrogates. Within a text, a person always
    has the same surrogate name. Raises ParamsError for an unknown detector, and InputError for an
    item that is not a text.

    >>> import sugarbush as sb
    >>> sb.redact(["Call 555-010-1234 today"], detectors=["regex"]).texts
    ('Call <MASK> today',)
    """
    from sugarbush.training.redactor.rewriting import Rewriter

    every = list(require_texts("texts", texts))
    require_list("detectors", detectors)
    rewriter = Rewriter(
        tuple(map(str, detectors)),
        threshold=threshold,
        state=_state(state) if surrogates else None,
    )
    made = rewriter.rewritten(every)
    return Redaction(
        texts=tuple(text for text, _ in made),
        spans=tuple(tuple((span.start, span.end) for span in own) for _, own in made),
        labels=tuple(tuple(span.label for span in own) for _, own in made),
    )


@dataclass(frozen=True, kw_only=True)
class PrivateModel:
    """A model trained by DP-SGD, with its folder, guarantee and ids of ledger entries."""

    folder: Path
    epsilon: float
    delta: float
    ledger_ids: tuple[str, ...]


@names_arguments
def train_dpsgd(
    texts: Sequence[str],
    *,
    model: str | Path,
    output: str | Path,
    records: float,
    epsilon: float,
    delta: float,
    dataset: str,
    epochs: float = 3.0,
    batch_size: float = 256.0,
    max_length: int = 128,
    learning_rate: float = 1e-3,
    clip_norm: float = 1.0,
    lora_rank: int | None = None,
    device: str = "auto",
    cap: float | None = None,
    state: Path | str | None = None,
) -> PrivateModel:
    """Fine-tune a causal language model on private texts with DP-SGD.

    Guarantee: (epsilon, delta)-DP per text, under add/remove adjacency, by the Poisson-subsampled
    Gaussian mechanism. The cost is charged to the ledger of `dataset` before the first step.
    `records` is a public estimate of the number of texts. The sampling rate and the number of steps
    are computed from `records`, never from the true number. `output` is a new folder for weights,
    tokenizer and model_card.json. A second call with equal texts and arguments continues from the
    last checkpoint, or restores the finished weights, without a second charge. Other texts or
    arguments start another run. Raises BudgetExceededError. Raises PrivacyError if the model's
    gradients cannot be clipped exactly per record. Source: Abadi et al. 2016, Algorithm 1;
    `docs/decisions/dp-sgd-clipping.md`.
    """
    from sugarbush.training.fine_tune import FineTuning, fine_tune

    require_texts("texts", texts)
    require_promise(epsilon, delta)
    target = Path(output)
    if target.exists() and any(target.iterdir()):
        raise ParamsError(f"{target}: is not empty. Choose another folder")
    folder, private = _state(state), tuple(texts)
    ledger = open_ledger(dataset, cap=cap, delta=delta, state=folder)  # raises ParamsError
    wanted = FineTuning(
        model=str(model),
        records=records,
        epochs=epochs,
        batch_size=batch_size,
        max_length=max_length,
        learning_rate=learning_rate,
        clip_norm=clip_norm,
        lora_rank=lora_rank,
        device=device,
    )
    key = state_key(folder)
    texts_digest = keyed_digest([pd.DataFrame({_TEXT: private})], key=key)
    own_key = {
        "version": versions.TRAINING,
        "texts": Snapshots(folder, dataset).of("train_dpsgd: texts", digest=texts_digest),
        "settings": {**asdict(wanted), "device": None},
        "epsilon": epsilon,
        "delta": delta,
    }
    # The store's lock prevents two processes from drawing noise under one charge.
    with (
        open_result_store(
            folder, dataset=dataset, stage="train_dpsgd", key=own_key, forced=False
        ) as store,
        atomic_directory(target) as output_folder,
    ):
        trained = fine_tune(
            Private(private),
            wanted,
            epsilon=epsilon,
            session=PrivacySession(
                ledger=ledger,
                stage="train_dpsgd",
                run=store.run,
                dataset_fingerprint=make_dataset_fingerprint(private, key=key),
            ),
            checkpoints=folder / "training" / dataset / store.run,
            counts=store.folder,
            output=output_folder,
        )
    return PrivateModel(
        folder=target, epsilon=trained.value, delta=delta, ledger_ids=trained.ledger_ids
    )


@names_arguments
def open_schema(schema: SchemaLike) -> Schema:
    """Read a schema from a file, or from a mapping with the keys of schema.yaml.

    A `Schema` is returned unchanged.

    >>> import sugarbush as sb
    >>> sb.open_schema({"subject": "letters", "attributes": [
    ...     {"name": "stars", "column": "stars", "bins": [2, 4]}]}).domain
    {'stars': 4}
    """
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, Mapping):
        return schema_of(dict(schema), source="the schema")
    if not isinstance(schema, Path | str):
        raise SchemaError(
            f"the schema: expected a path, a mapping or a Schema, got {type_name(schema)}"
        )
    return load_schema(Path(schema))


@names_arguments
def open_ledger(
    dataset: str,
    *,
    cap: float | None = None,
    delta: float = 1e-6,
    purpose: str = "release",
    unit: str = "record",
    user_column: str | None = None,
    state: Path | str | None = None,
) -> Ledger:
    """Open the ledger of a dataset, with the limit `cap`. Opening spends no budget.

    The ledger stores the smallest cap that a charge declared. A larger `cap` does not raise it.
    Without `cap`, the stored cap is valid, or 4 for a new dataset.

    >>> import sugarbush as sb, tempfile
    >>> with tempfile.TemporaryDirectory() as state:
    ...     sb.open_ledger("letters", state=Path(state)).total()
    0.0
    """
    return Ledger(
        _state(state),
        dataset=dataset,
        purpose=purpose,
        unit=_unit(unit),
        cap=cap,
        delta=delta,
        user_column=user_column,
    )


def _unit(name: str) -> Unit:
    try:
        return Unit(name)
    except ValueError:
        raise ParamsError(f"unit: expected record or user (got {name!r})") from None


def _state(state: Path | str | None) -> Path:
    return state_root(Path()) if state is None else named_state(Path(), state)


def _session(
    dataset: str,
    *,
    stage: str,
    cap: float | None,
    delta: float,
    state: Path | str | None,
    user_column: str | None = None,
    records_per_unit: int = 1,
) -> PrivacySession:
    unit = Unit.RECORD if user_column is None else Unit.USER
    return PrivacySession(
        ledger=open_ledger(
            dataset, cap=cap, delta=delta, unit=unit, user_column=user_column, state=state
        ),
        stage=stage,
        run=digest_of(stage=stage, dataset=dataset),
        records_per_unit=records_per_unit,
    )


def _table_schema(schema: SchemaLike) -> Schema:
    """Return the schema of a table. Raises SchemaError if an attribute is not a column."""
    own = open_schema(schema)
    for attribute in own.attributes:
        if attribute.column is None:
            raise SchemaError(
                f"schema: attribute '{attribute.name}' is read from texts by "
                f"{attribute.value_source}. A table needs `column`, the name of a column"
            )
    return own


def _table_codes(frame: pd.DataFrame, schema: Schema) -> NDArray[np.int64]:
    """Return the codes (n, d) of the values in the frame, in schema order."""
    require_kind("frame", frame, pd.DataFrame, "a pandas DataFrame")
    codes = np.empty((len(frame), len(schema.attributes)), dtype=np.int64)
    for place, attribute in enumerate(schema.attributes):
        column = str(attribute.column)
        require_column(frame, column, asked_by=f"attribute '{attribute.name}'")
        values = frame[column]
        if isinstance(values, pd.DataFrame):
            raise InputError(f"the frame has two columns with the name '{column}'")
        codes[:, place] = [attribute.code(as_text(value)) for value in values]
        if len(frame) and (codes[:, place] == len(attribute.domain) - 1).all():
            raise SchemaError(
                f"attribute '{attribute.name}': no row of column '{column}' has one of its values, "
                "so the table would have one value. No budget was spent. Compare the spelling of "
                "the values in the schema and in the frame"
            )
    return codes


def _generator_section(generator: GeneratorSettings) -> dict[str, Any]:
    return {
        "provider": generator.name,
        generator.name: generator.model_dump(mode="json", by_alias=True),
    }


def _require_usable(settings: ProjectSettings, schema: Schema) -> None:
    """Raise an error at once if a method has no generator, or if no release can be good."""
    asking = [method.name for method in settings.chosen if method.facts.asks_generator]
    if asking and "provider" not in settings.generator.model_fields_set:
        raise ParamsError(
            f"generator: method {asking[0]} needs a generator, which writes the texts. No budget "
            f"was spent. Give generator={_A_GENERATOR}, sb.HuggingFace(...) or sb.Pool(...)"
        )
    require_usable_inputs(settings, schema, source="the schema")


def _run_settings(
    prepared: ProjectSettings,
    *,
    method: Method,
    generator: GeneratorSettings | None,
    privacy: PrivacySettings | None,
    texts: int | None,
    seed: int,
    settings: Mapping[str, Any] | None,
) -> ProjectSettings:
    """Return the settings of a run on a corpus that was prepared with the settings `prepared`."""
    fields = prepared.model_dump(mode="json", by_alias=True, exclude_unset=True)
    changes: dict[str, Any] = {}
    if privacy is not None:
        changes["privacy"] = privacy.model_dump(mode="json")
    if generator is not None:
        changes["generator"] = _generator_section(generator)
    if texts is not None:
        changes["release"] = {"texts": texts}
    if seed != 1:
        changes["seed"] = seed
    own = {"methods": {method.name: method.model_dump(mode="json", by_alias=True)}}
    found = project_settings({**fields, **_merged(fields, changes), **own}, settings)
    _refuse_other_preparation(prepared, found)
    return found


def _refuse_other_preparation(prepared: ProjectSettings, wanted: ProjectSettings) -> None:
    """Raise ParamsError if `wanted` differs from the settings that prepared the corpus.

    `prepare` limited the records per user. If `wanted` had another unit or a lower limit, the noise
    would be too small for the corpus.
    """
    was, now = prepared.privacy, wanted.privacy
    same_unit = (was.unit, was.records_per_user) == (now.unit, now.records_per_user)
    if not same_unit or prepared.prepare != wanted.prepare:
        raise ParamsError(
            "privacy.unit, privacy.records_per_user or section prepare differ from the settings "
            "that prepared the corpus. Prepare the corpus again with these settings"
        )
    if _public_sources(wanted) not in [_public_sources(prepared), ((), (), ())]:
        raise ParamsError(
            "the corpus may contain texts from the public files of this generator or of section "
            "pretrain. Prepare the corpus again with these settings, which removes these texts"
        )


def _public_sources(settings: ProjectSettings) -> tuple[tuple[Any, ...], ...]:
    """Return the settings that name public texts, which `prepare` removes from the records."""
    generator = settings.generator.chosen
    sources = getattr(generator, "sources", ())
    texts = (*sources, *getattr(generator, "texts", ()))
    return tuple(generator.public_files()), texts, settings.pretrain.sources


def _merged(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {**fields.get(name, {}), **value} if isinstance(value, dict) else value
        for name, value in changes.items()
    }


def _with_best_prompts(project: InMemoryProject) -> InMemoryProject:
    """Return the project with the form of prompts that a rehearsal chooses, if there are several.

    The choice is repeated in each call, because another form is another run. Its answers are
    cached.
    """
    from sugarbush.pipeline.rehearsal import alternatives, rehearse

    settings = project.settings
    if not settings.chosen[0].facts.asks_generator or len(alternatives(project)) == 1:
        return project
    found = rehearse(project)
    if found is None or not found.changes:
        return project
    return project.with_assignments(found.changes)


def _run(
    project: InMemoryProject,
    method: Method,
    *,
    new_draw: bool,
    report: Callable[[str], None],
) -> Release:
    drawn = MetadataRequest(project).release(
        forced=new_draw, before_charge=lambda: _preflight(project, method)
    )
    inputs = project.method_inputs(
        method, stage="synthesize", metadata=drawn.value(), report=report
    )
    initial = None
    if isinstance(method, TrainedMethod):
        if method.facts.pretrained is not None:
            from sugarbush.pipeline.stages.pretrain import write_models

            write_models(project.pretrained, project)
        final = _trained(method, inputs, new_draw=new_draw)
    elif isinstance(method, PartsMethod):
        initial = method.initialise(inputs)
        first = Released(initial.population, initial.ledger_ids)
        final = method.enlarge(inputs, method.evolve(inputs, first, forced=new_draw))
    else:
        assert isinstance(method, OneStageMethod)
        final = method.evolve(inputs, None, forced=new_draw)
    return _release(project, method, final, inputs, drawn=drawn, initial=initial)


def _preflight(project: InMemoryProject, method: Method) -> None:
    """Check before the first charge that encoder, generator and the method's model work."""
    from sugarbush.pipeline.preflight import check_generator

    donated = project.donated()
    if method.facts.uses_encoder:
        project.encoder(private=False).check()
    if method.facts.asks_generator:
        check_generator(project, () if donated is None else donated.texts)
    method.preflight(project.schema, project.settings.training)


def _trained(method: TrainedMethod, inputs: MethodInputs, *, new_draw: bool) -> FinalSet:
    trained = method.finetune(inputs, forced=new_draw)
    if trained is None:
        raise ParamsError("synthesize trains in one process. Set training.processes: 1")
    folder = Path(tempfile.mkdtemp(prefix="sugarbush-model-"))
    try:
        trained.save(folder)
        return method.generate(inputs, Released(folder, trained.ledger_ids))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _card(
    method: Method,
    settings: ProjectSettings,
    schema: Schema,
    **facts: Any,
) -> Mapping[str, Any] | None:
    from sugarbush.pipeline.release_facts import release_facts
    from sugarbush.report.card import release_card

    if method.stays_private:
        return None
    return release_card(release_facts(settings, schema, **facts))


def _release(
    project: InMemoryProject,
    method: Method,
    final: FinalSet,
    inputs: MethodInputs,
    *,
    drawn: DrawnMetadata,
    initial: Initial | None,
) -> Release:
    from sugarbush.pipeline.release_facts import text_counts

    lineage, privacy = final.lineage, project.settings.privacy
    metadata, donated = inputs.public.metadata, inputs.public.donated
    ids = tuple(dict.fromkeys((*metadata.ledger_ids, *lineage.ledger_ids)))
    texts = lineage.final
    reader = project.label_reader(metadata, method)
    labels = reader.read(texts.texts, texts.codes)
    return Release(
        method=method.name,
        frame=readable(texts, project.schema, labels),
        delta=privacy.delta,
        ledger_ids=ids,
        run=final.run,
        lineage=lineage,
        labels=labels,
        verdict=judge(
            lineage,
            labels,
            reader=reader,
            wanted=inputs.public.texts,
        ),
        _schema=project.schema,
        _privacy=privacy,
        _ledger=(ledger := project.ledger().snapshot()),
        _make_card=partial(
            _card,
            method,
            project.settings,
            project.schema,
            ledger=ledger,
            ledger_ids=ids,
            texts={method.name: text_counts(lineage)},
            donated=0 if donated is None else len(donated.texts),
            engine=drawn.described["engine"],
            plan=project.plan,
        ),
        _report=ReportSource(
            settings=project.settings,
            schema=project.schema,
            method=method,
            final=final,
            first=initial,
            metadata=metadata_files(drawn),
            metadata_ids=drawn.ledger_ids,
            donated=project.donated_codes,
            ledger=ledger,
            plan=project.plan,
        ),
    )
