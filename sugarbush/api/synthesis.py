"""Prepares a corpus in memory, and synthesizes texts from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sugarbush.api.frame_arguments import A_GENERATOR, FrameArguments
from sugarbush.api.release import Release, release_of
from sugarbush.api.schemas import SchemaLike
from sugarbush.arguments import ArrowFrame, names_arguments, pandas_frame, require_kind
from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError
from sugarbush.generators.interface import GeneratorSettings
from sugarbush.methods.interface import Method
from sugarbush.methods.mosaic import Mosaic
from sugarbush.pipeline.in_memory import Corpus
from sugarbush.pipeline.in_memory_settings import settings_of_run
from sugarbush.pipeline.run_in_memory import run_in_memory
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.registry import METHODS, use_class
from sugarbush.run.settings import ProjectSettings
from sugarbush.run.usable_inputs import require_packages, require_usable_inputs


@names_arguments
def prepare(
    frame: pd.DataFrame | ArrowFrame,
    *,
    text: str = "text",
    schema: SchemaLike,
    privacy: PrivacySettings,
    generator: GeneratorSettings | None = None,
    donated: pd.DataFrame | ArrowFrame | Sequence[str] | None = None,
    user: str | None = None,
    record_id: str | None = None,
    settings: Mapping[str, Any] | None = None,
    state: Path | str | None = None,
) -> Corpus:
    """Prepare a private corpus for `synthesize`, once for all methods and budgets.

    The function checks and splits the records and extracts their attributes. It spends no budget.

    `frame` is a frame of pandas or polars. It needs the column `text` and the columns that the
    schema names. `privacy` is the guarantee, and `privacy.dataset` names the ledger. A method that
    asks a generator needs `generator`; records that equal its public texts are removed. The
    `donated` examples are not protected. `user` is the column with the user, and `record_id` that
    with the id of the record. `settings` contains further sections of params.yaml. `state` is the
    folder of the ledgers and the results.

    Raises InputError; the message names the row and never quotes a text. Before the frame is read,
    raises SchemaError for an unedited draft, and ParamsError for a simulator without `any_texts`.

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
    arguments = FrameArguments(
        frame=pandas_frame("the corpus", frame),
        text=text,
        privacy=privacy,
        generator=generator,
        donated=donated,
        user=user,
        record_id=record_id,
        settings=settings,
        state=state,
    )
    return arguments.prepared(schema)


@names_arguments
def synthesize(
    corpus: Corpus,
    *,
    method: Method | None = None,
    texts: int | None = None,
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
    new_draw: bool = False,
    accept_poor: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> Release:
    """Write a synthetic corpus that resembles the private one, under differential privacy.

    Guarantee: (`privacy.epsilon`, `privacy.delta`)-DP per `privacy.unit` of `prepare`, under
    add/remove adjacency. Each mechanism is charged to the ledger of `privacy.dataset` before its
    noise is drawn. The card states the total. A second call with equal arguments and data restores
    the finished results and costs nothing. With `new_draw`, a second call draws and charges again.

    `corpus` is the result of `prepare`. The default `method` is Mosaic(). `texts` is the size of
    the release, at most 100,000. The default size is about the DP record count, at most 5,000. The
    size does not affect the privacy cost of a call. A call with another size is charged again if
    the method then scores another number of texts (see `Mosaic`). `seed` is public. `settings`
    changes settings of this call, such as {"privacy": {"epsilon": 2}}.

    Before the first charge, a rehearsal compares 24 to 40 first texts with the donated examples. If
    they are poor, the function raises PoorRehearsalError (a ParamsError), unless `accept_poor` is
    true. Raises BudgetExceededError before a charge that would exceed the cap. Also raises
    ParamsError, for example for a missing generator, and GeneratorError.

    >>> import pandas as pd, sugarbush as sb, tempfile
    >>> frame = pd.DataFrame({"message": [f"Order {i} arrived late" for i in range(200)]})
    >>> topics = {"subject": "letters", "attributes": [
    ...     {"name": "topic", "values": ["late"], "keywords": {"late": ["late"]}}]}
    >>> with tempfile.TemporaryDirectory() as state:
    ...     corpus = sb.prepare(
    ...         frame, text="message", schema=topics, state=Path(state),
    ...         generator=sb.Simulator(any_texts=True),  # only to try it: no model, no good texts
    ...         privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"))
    ...     release = sb.synthesize(
    ...         corpus, method=sb.Mosaic(candidates=20, prompt="metadata"), texts=12)
    ...     len(release.texts), release.epsilon <= 1
    (12, True)
    """
    require_kind("corpus", corpus, Corpus, "sb.prepare(frame, ...)")
    chosen = Mosaic() if method is None else method
    require_kind("method", chosen, Method, "sb.Mosaic()")
    use_class(METHODS, str(getattr(chosen, "name", "")), type(chosen))
    run_settings = settings_of_run(
        corpus.settings, method=chosen, texts=texts, seed=seed, settings=settings
    )
    _require_usable(run_settings, corpus.schema)
    finished = run_in_memory(
        corpus,
        run_settings,
        run_settings.method(chosen.name),
        new_draw=new_draw,
        accept_poor=accept_poor,
        report=report,
    )
    return release_of(finished)


def _require_usable(settings: ProjectSettings, schema: Schema) -> None:
    """Raise an error at once if a method has no generator, or if no release can be good."""
    asking = [method.name for method in settings.chosen if method.facts.asks_generator]
    if asking and "provider" not in settings.generator.model_fields_set:
        raise ParamsError(
            f"generator: method {asking[0]} needs a generator, which writes the texts. No budget "
            f"was spent. Give prepare(..., generator={A_GENERATOR}), sb.HuggingFace(...) or "
            "sb.Pool(...)"
        )
    require_packages(settings, Path())
    require_usable_inputs(settings, schema, source="the schema")
