"""Every extra, tried from an environment with the core alone, as after `pip install .`.

A feature without its packages is refused, and the message advises an extra. With exactly the
packages that this extra installs, the same action works.
"""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
from openpyxl import Workbook
from sqlalchemy import create_engine

from sugarbush.extras import EXTRAS
from tests.environments import Environment, closure, environment_with
from tests.integration.llm.test_gguf import write_gguf
from tests.integration.llm.tiny_gpt2 import save_tiny_gpt2
from tests.integration.postgres import free_port
from tests.integration.project import letters
from tests.integration.test_installed import SMALL
from tests.s3 import BUCKET, KEYS, s3_server

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

Finished = subprocess.CompletedProcess[str]
ADVICE = re.compile(r"In a clone: pip install '\.\[(\w+)\]'")
ROWS = [{"message": letter["text"], "product": letter["product"]} for letter in letters(200)]
FIRST = """
    import sys
    from pathlib import Path
    import pandas as pd
    import sugarbush as sb

    FRAME = pd.read_json("letters.jsonl", lines=True)
    SCHEMA = {"subject": "letters", "attributes": [
        {"name": "product", "values": ["lamp", "chair", "kettle"], "column": "product"}]}
"""
TRAIN = """
    corpus = sb.prepare(
        FRAME, text="message", schema=SCHEMA,
        settings={
            "embedding": {"model": "tiny"}, "synthesize_metadata": {"degree": 1},
            "pretrain": {"texts": 60, "vocabulary": 400, "layers": 1, "width": 32,
                         "max_length": 64}},
        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"))
    release = sb.synthesize(corpus, texts=4, method=sb.DPFT(
        batch_size=20, epochs=1, max_length=64, repeatable_steps=10))
    assert len(release.texts) == 4
"""
REDACTION = """
    from sugarbush.training.crt.policies import require_packages_of
    from sugarbush.training.device import open_device
    from sugarbush.redactor.train import Recipe, train_redactor

    require_packages_of(["learned"])  # its own recipe would train for minutes
    train_redactor(Recipe(texts=12, checked=4), Path("redactor"), device=open_device("cpu"))
    redacted = sb.redact(["Card 4111 1111 1111 1111"], detectors=["redactor", "presidio"])
    assert "4111" not in redacted.texts[0], redacted
    try:
        sb.redact(["a text"], detectors=["spacy:no_such_pipeline"])
    except sb.ParamsError as error:
        assert "cannot be loaded" in str(error), error
"""
GGUF = """
    from sugarbush.generators.interface import GeneratorContext, RandomRequest
    from sugarbush.privacy.data_types import Released

    settings = sb.HuggingFace(model="tiny.gguf", max_tokens=8)
    context = GeneratorContext(
        seed=1, state=Path("answers"), account="letters", stage="check", base=Path(), embed=None,
        say=print)
    asked = Released(tuple(RandomRequest(subject="letters", sample=i) for i in range(3)))
    assert len(settings.open(context).generate(asked).value) == 3
"""
CLUSTER = """
    import operator, subprocess
    from sugarbush.run.cluster import engine, require_packages

    require_packages("ADDRESS")
    start = lambda name, *more: subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{name}", *more, "--dashboard-address", ":0"])
    started = [start("dask_scheduler", "--host", "ADDRESS"),
               start("dask_worker", "ADDRESS", "--nthreads", "1")]
    try:
        assert engine("ADDRESS")(operator.neg, [1, 2, 3], operator.add) == -6
    finally:
        for each in started:
            each.terminate()
"""


def python(program: str) -> Callable[[Environment, Path], Finished]:
    """Return the action that runs a program."""
    text = textwrap.dedent(FIRST) + textwrap.dedent(program)
    return lambda environment, folder: environment.python("-c", text, cwd=folder)


def run_a_project(environment: Environment, folder: Path) -> Finished:
    """Run all stages of a project with DVC, and import its weekly flow."""
    project = folder / "release"
    if not project.exists():
        of = ("--from", "letters.jsonl", "--text", "message", "--subject", "letters to a shop")
        made = environment.sugarbush("init", "release", *of, cwd=folder)
        assert made.returncode == 0, made.stderr
    changes = [part for change in SMALL for part in ("-S", change)]
    finished = environment.sugarbush("run", *changes, cwd=project)
    if finished.returncode:
        return finished
    assert (project / "reports/public/release_card.json").exists()
    return environment.python("-c", "import flows.pipeline, flows.weekly", cwd=project)


def read_from(source: str) -> Callable[[Environment, Path], Finished]:
    """Return the action that starts a project for a source. `init` reads its column names."""

    def act(environment: Environment, folder: Path) -> Finished:
        return environment.sugarbush(
            "init", "release", "--from", source, "--text", "message", cwd=folder, **KEYS
        )

    return act


def a_server_that_is_away(environment: Environment, folder: Path) -> Finished:
    """Read from SQLite, and from a PostgreSQL server that does not answer."""
    finished = read_from("sqlite:///letters.db")(environment, folder)
    if finished.returncode == 0:
        away = read_from(f"postgresql://127.0.0.1:{free_port()}/letters")(environment, folder)
        assert "cannot connect" in away.stderr, away.stderr
    return finished


def track_a_stage(environment: Environment, folder: Path) -> Finished:
    """Send the events of a stage to a file, and look for MLflow."""
    text = """
        import json, os
        os.environ["OPENLINEAGE__TRANSPORT"] = json.dumps(
            {"type": "file", "log_file_path": "events.jsonl", "append": True})
        os.environ["MLFLOW_TRACKING_URI"] = Path("store").absolute().as_uri()
        from sugarbush.run.observers import StageExecution, observed, require_packages
        try:
            require_packages(Path())
        except sb.ParamsError as error:
            sys.exit(str(error))
        execution = StageExecution(
            stage="prepare", method=None, dataset="letters", base=Path(), inputs=(), outputs=(),
            published=Path("reports/public"))
        with observed(execution):
            pass
        import mlflow
        assert Path("events.jsonl").read_text().count("COMPLETE") == 1
    """
    return python(text)(environment, folder)


ACTIONS: dict[str, Callable[[Environment, Path], Finished]] = {
    "flows": run_a_project,
    "train": python(TRAIN),
    "redaction": python(REDACTION),
    "s3": read_from(f"s3://{BUCKET}/letters.jsonl"),
    "xlsx": read_from("letters.xlsx"),
    "sql": a_server_that_is_away,
    "cluster": python(CLUSTER.replace("ADDRESS", f"tcp://127.0.0.1:{free_port()}")),
    "gguf": python(GGUF),
    "track": track_a_stage,
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same letters in each format, and a tiny model in a GGUF file."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "letters.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    workbook = Workbook()
    workbook.active.append(list(ROWS[0]))
    for row in ROWS:
        workbook.active.append(list(row.values()))
    workbook.save(folder / "letters.xlsx")
    database = create_engine(f"sqlite:///{folder / 'letters.db'}")
    with database.begin() as connection:
        connection.exec_driver_sql("create table letters (message text, product text)")
        for row in ROWS:
            connection.exec_driver_sql("insert into letters values (?, ?)", tuple(row.values()))
    database.dispose()
    write_gguf(save_tiny_gpt2(folder / "model", chats=False), folder / "tiny.gguf")
    return folder


@pytest.mark.parametrize("extra", ACTIONS)
def test_what_the_message_about_a_missing_package_advises_makes_the_next_run_work(
    extra: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for file in inputs.iterdir():
        (home / file.name).symlink_to(file)
    installed: list[str] = []
    with s3_server(monkeypatch) as address:
        monkeypatch.setitem(KEYS, "AWS_ENDPOINT_URL", address)
        client = boto3.client("s3", endpoint_url=address)
        client.upload_file(str(inputs / "letters.jsonl"), BUCKET, "letters.jsonl")
        while True:
            environment = environment_with(tmp_path / "-".join(["core", *installed]), *installed)
            finished = ACTIONS[extra](environment, home)
            if finished.returncode == 0:
                break
            advised = ADVICE.search(finished.stderr)
            assert advised, finished.stdout + finished.stderr
            assert advised[1] not in installed, finished.stderr
            installed.append(advised[1])
    assert installed == [extra]


def test_only_the_extra_with_an_environment_of_its_own_is_tried_elsewhere() -> None:
    """The extra `smartnoise` excludes the newest packages: test_smartnoise tries it there."""
    assert set(EXTRAS) - set(ACTIONS) == {"smartnoise"}


def test_each_package_that_a_message_names_comes_with_its_extra() -> None:
    core = set(closure())
    for extra in ACTIONS:
        _, packages = EXTRAS[extra]
        installed = closure(extra).values()
        tops = {
            line.partition("/")[0].partition(".")[0]
            for each in installed
            for line in (each.read_text("RECORD") or "").splitlines()
        }
        assert set(packages) <= tops, extra
        assert not core & set(packages), extra
