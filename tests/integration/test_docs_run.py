"""Runs the commands of the documentation as a reader does: in a shell, in new projects.

`sugarbush init` makes the projects. Settings make them small. A page that is not in WALKS has no
command of its own: see SAME_AS and EXEMPT.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from filelock import FileLock

from research.report.curves import dvc_template
from sugarbush.data.schema import load_schema
from sugarbush.deep_merge import deep_merge
from tests.integration.llm.server import MODEL, Body, FaultServer, Reply, completion, running
from tests.integration.project import ONE_PROCESS, SMALL_EVOLUTION, TINY_ENCODER, as_lines, letters
from tests.research.test_curves import ROWS
from tests.settings import ROOT
from tests.unit.test_docs import blocks, run_apart, runnable, write_package
from tests.unit.test_docs_commands import PAGES, SHELLS, split

pytestmark = pytest.mark.slow

# Logs and decisions report what was measured once, partly with other versions.
READ = [page for page in PAGES if not {"log", "log.md", "decisions"} & set(page.parts)]
# The first words of commands that no walk runs, and the reasons. A line with such a command is not
# run at all.
EXEMPT = {
    "make": "installs the environment of these tests, and runs these tests",
    "python -m pytest": "runs tests",
    "python -m tests.mutants": "runs tests; test_docs.py applies the mutant of the page",
    "pip install": "needs a network; test_installed.py installs the wheel of the package",
    "uv pip install": "needs a network",
    "python -m research.sweep": "needs public data sets; test_sweep.py and test_leakage_sweep.py",
    "python -m research.leaderboard": "needs public data sets; test_leaderboard.py, test_peer.py",
    "export AWS_ACCESS_KEY_ID=...": "needs S3; test_dvc_remotes.py",
    "sudo": "administers PostgreSQL as root; postgres.py starts one",
    "prefect": "servers and workers that run until they are stopped; test_scheduled.py",
    "python -m flows.weekly": "runs until it is stopped; test_flow.py",
    "python -m flows.notify": "needs the server; test_scheduled.py",
    "dvc remote add": "needs S3; test_dvc_remotes.py",
    "dvc push": "needs S3; test_dvc_remotes.py",
    "dask": "runs until it is stopped, on other machines; test_cluster.py",
    "export PGUSER=reader": "needs PostgreSQL; test_formats.py",
    "sugarbush publish": "needs what a person states; test_publish.py",
    "sugarbush app": "runs until it is stopped; test_app.py",
    "sugarbush label": "runs until it is stopped; test_label_page.py",
    "sugarbush train-redactor": "trains for minutes; tests/unit/redactor/test_training.py",
}
# Pages with no other commands than another page, in a project of the same kind.
SAME_AS = {
    "docs/quickstart.md": "README.md",
    "docs/how-to/own-data.md": "README.md",
    "docs/how-to/profile.md": "README.md",
    "sugarbush/template/README.md": "README.md",
}
# What is added to a command that would take minutes.
SHORTER = {"sugarbush audit": "--runs 5", "sugarbush redact": "--detectors regex"}
SMALL: dict[str, Any] = {
    "privacy": {"cap": 50.0},
    "prepare": {"min_records": 20},
    "synthesize_metadata": {"degree": 1},
    "methods": {"mosaic": {"candidates": 24}},
    "evaluate": {"bootstrap": 0},
    "release": {"texts": 12},
    "embedding": {"model": "tiny"},  # test_real_complaints has the bundled encoder
}
IN_SENTENCES = re.compile(r"(?<!`)`((?:sugarbush|dvc) [^`]+)`")
PLACEHOLDER = re.compile(r"\[|\.\.\.|\b[A-Z]+\b")
# Names of commands and options, without what they need.
NAMES = {
    "dvc exp run": "in dvc-and-prefect.md with a setting",
    "dvc pull": "needs a remote; test_dvc_remotes.py",
    "dvc push": "needs a remote; test_dvc_remotes.py",
    "sugarbush app": "runs until it is stopped; test_app.py",
    "sugarbush budget --raise-cap": "needs a number",
    "sugarbush publish": "in publish.md with a folder",
    "sugarbush publish letters --ask": "asks on a terminal; test_questions.py",
    "sugarbush redact": "in redact.md with a file",
    "sugarbush show model": "needs a trained model; test_shows.py",
    "sugarbush train-redactor": "trains for minutes",
}
# What a command needs that its sentence does not say.
SENTENCES = {
    'sugarbush schema draft --subject "support tickets"': "-S prepare.donated=donated.jsonl",
    "sugarbush schema draft": "--output drafted.yaml",
    "sugarbush clean --private": "--yes",
}
WALKS = (
    "README.md",
    "docs/how-to/add-a-format.md",
    "docs/how-to/add-a-method.md",
    "docs/how-to/add-a-metric.md",
    "docs/how-to/audit.md",
    "docs/how-to/compare-methods.md",
    "docs/how-to/dvc-and-prefect.md",
    "docs/how-to/histories.md",
    "docs/how-to/real-models.md",
    "docs/how-to/record-shapes.md",
    "docs/how-to/redact.md",
    "docs/how-to/your-data-formats.md",
    "docs/operations.md",
)
OF_AN_EXPORT = [
    {"role": "system", "content": "You help customers."},
    {"role": "user", "content": "Hello.", "name": "chat 7"},
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "assistant", "content": [{"type": "text", "text": "How can I help?"}]},
]
OWN = {"generator": {"provider": "simulator", "simulator": {"any_texts": True}}}


class Line(NamedTuple):
    page: str
    block: int
    text: str

    @property
    def commands(self) -> list[str]:
        return [shlex.join(words) for words in split(self.text)]

    @property
    def exempt(self) -> bool:
        return any(starts_with(c, words) for c in self.commands for words in EXEMPT)


def starts_with(command: str, words: str) -> bool:
    return f"{command} ".startswith(f"{words} ")


def lines_of(page: Path) -> Iterator[Line]:
    """Yield the lines of the shell blocks of a page. A continued line is one line."""
    name = page.relative_to(ROOT).as_posix()
    shells = [block for block in blocks(page) if block.language in SHELLS]
    for number, block in enumerate(shells):
        for text in block.text.replace("\\\n", " ").splitlines():
            if list(split(text)):
                yield Line(name, number, text)


LINES = [line for page in READ for line in lines_of(page)]


@dataclass
class Reader:
    """A reader with one shell, who begins in `folder`. `state` is their state folder."""

    folder: Path
    state: Path
    replaced: dict[str, str] = field(default_factory=dict)
    after: dict[str, Callable[[Reader], None]] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Reader:
        fresh = {k: v for k, v in os.environ.items() if not k.startswith(("DVC_", "GIT_"))}
        people = {f"GIT_{who}_{what}": "reader@example.org" for who in ("AUTHOR", "COMMITTER")
                  for what in ("NAME", "EMAIL")}  # fmt: skip
        self._shell = subprocess.Popen(
            ["bash"], cwd=self.folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=fresh | people | {
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
                "PYTHONPATH": os.pathsep.join(map(str, [ONE_PROCESS, ROOT, TINY_ENCODER])),
                "SUGARBUSH_STATE": str(self.state), "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1",
                "OMP_NUM_THREADS": "1", "BROWSER": "true", "COLUMNS": "200",
            } | self.variables,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.close()
        self._shell.stdout.close()
        self._shell.wait()

    def types(self, text: str) -> str:
        """Run a line, and return what it printed. The test fails if its exit code is not 0."""
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(
            f"{{ {text}\n}} < /dev/null\nprintf '\\nended %s %s\\n' $? \"$PWD\"\n"
        )
        self._shell.stdin.flush()
        printed = []
        while (line := self._shell.stdout.readline()) and not line.startswith("ended "):
            printed.append(line)
        _, code, folder = line.split(maxsplit=2)
        self.folder = Path(folder.strip())
        assert code == "0", f"{text}: exit code {code}\n{''.join(printed)}"
        return "".join(printed)

    def follows(self, page: str) -> None:
        """Run the lines of a page in their order. A new project is made where the reader began."""
        begin = self.folder
        for line in (each for each in LINES if each.page == page and not each.exempt):
            if line.text.startswith("sugarbush init"):
                self.types(f"cd {begin}")
            self.printed[line.commands[-1]] = self.types(self._of_test(line))
            for words, change in self.after.items():
                if any(starts_with(command, words) for command in line.commands):
                    change(self)

    def _of_test(self, line: Line) -> str:
        text = line.text
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        for words, more in SHORTER.items():
            if any(starts_with(command, words) for command in line.commands):
                text = f"{text.partition('  #')[0]} {more}"
        return text


def change_settings(folder: Path, *changes: dict[str, Any]) -> None:
    path = folder / "params.yaml"
    fields = yaml.safe_load(path.read_text())
    for change in changes:
        deep_merge(fields, change)
    path.write_text(yaml.safe_dump(fields, sort_keys=False))


def yaml_of(page: str, first: str) -> str:
    """Return the YAML block of a page that begins with `first`."""
    found = [
        b.text for b in blocks(ROOT / page) if b.language == "yaml" and b.text.startswith(first)
    ]
    assert found, f"{page} has no block that begins with {first}"
    return found[0]


def edit_the_example(reader: Reader) -> None:
    change_settings(reader.folder / "demo", SMALL)


def edit_ones_own(reader: Reader) -> None:
    """Write the schema of README.md, and small settings."""
    folder = reader.folder / "my-release"
    (folder / "data/public/schema.yaml").write_text(yaml_of("README.md", "subject:"))
    change_settings(folder, SMALL, OWN)


def write_tickets(folder: Path) -> None:
    with (folder / "tickets.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "message", "product"))
        products = {"lamp": "editor", "chair": "server", "kettle": "mobile app"}
        for row in letters(140):
            rows.writerow((row["id"], row["text"], products[row["product"]]))


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a reader who followed README.md to its end. Its projects `demo` and
    `my-release` are finished, and `printed.json` has what each command printed. Test workers share
    the folder."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "readme"
    with FileLock(f"{folder}.lock"):
        if not (folder / "printed.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            write_tickets(folder)
            reader = Reader(folder, folder / "state")
            reader.after = {
                "sugarbush init demo": edit_the_example,
                "sugarbush init my-release": edit_ones_own,
            }
            with reader:
                reader.follows("README.md")
            (folder / "printed.json").write_text(json.dumps(reader.printed))
    return folder


@pytest.fixture
def reader(readme: Path, tmp_path: Path) -> Reader:
    """A reader with copies of the projects of README.md, in the folder of `my-release`."""
    folder = tmp_path / "clone"
    shutil.copytree(readme, folder, symlinks=True)
    return Reader(folder / "my-release", folder / "state")


def test_every_line_is_run_or_exempt() -> None:
    walks = set(WALKS) | set(SAME_AS)
    assert {line.page for line in LINES if not line.exempt} == walks
    for words in EXEMPT:
        assert any(starts_with(c, words) for line in LINES for c in line.commands), words
    for page, same in SAME_AS.items():
        run = {c for line in LINES if line.page == same for c in line.commands}
        of_page = [
            c for line in LINES if line.page == page and not line.exempt for c in line.commands
        ]
        assert of_page and set(of_page) <= run


def test_the_readme(readme: Path) -> None:
    printed = json.loads((readme / "printed.json").read_text())
    assert "verdict (mosaic)" in printed["sugarbush run"]
    assert "together with its profile at delta 1e-6" in printed["sugarbush check"]
    assert f"Ledger of 'tickets' (release): {readme / 'state'}" in printed["sugarbush budget"]


def test_run_with_dvc_or_prefect(reader: Reader) -> None:
    with reader:
        reader.follows("docs/how-to/dvc-and-prefect.md")
    figures = next((reader.folder / "reports/internal/experiments").iterdir())
    (shown,) = (text for c, text in reader.printed.items() if c.startswith("dvc metrics show"))
    assert f"experiments/{figures.name}" in shown and "reports/internal/metrics.json" in shown
    assert figures.stem in reader.printed["dvc exp show"]
    assert figures.parent.stat().st_mode & 0o077 == 0
    stored = [path for path in (reader.folder / ".dvc/cache").rglob("*") if path.is_file()]
    assert stored and figures.read_bytes() not in [path.read_bytes() for path in stored]
    with reader:
        files = reader.types(
            "git for-each-ref --format='%(objectname)' | xargs -n 1 git ls-tree -r"
        )
    assert "reports/" not in files and "dvc.lock" in files
    assert "stages were up to date" in reader.printed["python -m flows.pipeline"]


def test_audit_the_mechanisms(reader: Reader) -> None:
    reader.folder = reader.folder.parent / "demo"
    with reader:
        reader.follows("docs/how-to/audit.md")
    for command in ("sugarbush audit", "sugarbush audit mosaic dpft --epsilon 1"):
        assert "no violation found" in reader.printed[command]


def test_compare_methods(reader: Reader) -> None:
    page = "docs/how-to/compare-methods.md"
    figures = reader.folder / "reports/internal/leakage/crt_figures_small"
    figures.mkdir(parents=True)
    (figures / "curves.json").write_text(json.dumps(dvc_template()))
    ROWS.to_csv(figures / "exposure_mean_by_gamma.csv", index=False)
    (reader.folder / "scores.yaml").write_text(yaml_of(page, "methods:\n  maple: {scorer: kernel}"))
    change_settings(reader.folder, {"methods": {"maple": SMALL_EVOLUTION}})
    with reader:
        reader.follows(page)


def test_add_a_format(reader: Reader) -> None:
    page = "docs/how-to/add-a-format.md"
    reader.folder = reader.folder.parent
    write_package(ROOT / page, reader.folder / "my-formats")
    rows = [f"Id: {row['id']}\nText: {row['text']}\n" for row in letters(140)]
    (reader.folder / "letters.rec").write_text("\n".join(rows))
    with reader:
        reader.types(f"export PYTHONPATH={reader.folder / 'my-formats'}:$PYTHONPATH")
        reader.follows(page)
    made = yaml.safe_load((reader.folder / "letters/params.yaml").read_text())
    assert made["prepare"]["file"].endswith("letters.rec")


def test_add_a_method(reader: Reader) -> None:
    page = "docs/how-to/add-a-method.md"
    package = reader.folder / "my-methods"
    write_package(ROOT / page, package)
    with reader:
        reader.types(f"export PYTHONPATH={package}:$PYTHONPATH")  # in place of `pip install`
        reader.follows(page)
    assert "Rounds of votes" in reader.printed["sugarbush settings methods.joint"]


def test_add_a_metric(reader: Reader) -> None:
    page = "docs/how-to/add-a-metric.md"
    package = reader.folder.parent / "my-metrics"
    write_package(ROOT / page, package)
    with reader:
        reader.types(f"export PYTHONPATH={package}:$PYTHONPATH")
        reader.follows(page)
    assert "questions" in reader.printed["sugarbush show metrics --internal"]


def one_more_letter(number: int, body: Body) -> Reply:
    return completion(letters(201 + number)[-1]["text"])


def test_real_models(reader: Reader) -> None:
    page = "docs/how-to/real-models.md"
    with running(FaultServer(behave=one_more_letter, key=None)) as server:
        endpoint = yaml.safe_load(yaml_of(page, "generator:\n  provider: openai"))
        endpoint["generator"]["openai"] |= {"base_url": server.base_url, "model": MODEL}
        donated = [{"message": row["text"], "product": "other"} for row in letters(170)[140:]]
        (reader.folder / "donated.jsonl").write_text(as_lines(donated))
        change_settings(reader.folder, endpoint, {"prepare": {"donated": "donated.jsonl"}})
        with reader:
            reader.follows(page)


def test_fields_conversations_and_json_records(tmp_path: Path) -> None:
    """The files of the page have one record, because `init` reads names and types only."""
    chat = [{"role": "customer", "content": "Hello."}]
    pq.write_table(pa.Table.from_pylist([{"messages": chat}]), tmp_path / "chats.parquet")
    (tmp_path / "chats.jsonl").write_text(as_lines([{"messages": OF_AN_EXPORT}]))
    (tmp_path / "tickets.csv").write_text("subject,body\nLamp,It broke.\n")
    (tmp_path / "records.jsonl").write_text(as_lines([{"record": {"product": "lamp"}}]))
    form = {"type": "object", "properties": {"product": {"enum": ["lamp", "chair"]}}}
    (tmp_path / "ticket.schema.json").write_text(json.dumps(form))
    reader = Reader(tmp_path, tmp_path / "state", after={"sugarbush init demo": edit_the_example})
    with reader:
        reader.follows("docs/how-to/record-shapes.md")
    lines = (tmp_path / "demo/data/released/enlarge/mosaic/synthetic.jsonl").read_text()
    assert all(json.loads(line)["messages"][0]["role"] == "patient" for line in lines.splitlines())
    for project in ("my-tickets", "my-chats", "my-exports", "my-records"):
        assert load_schema(tmp_path / project / "data/public/schema.yaml").text is not None


def test_exported_files(tmp_path: Path) -> None:
    """A survey with three header rows, and a table in which each row is a message of a thread."""
    rows = ["ResponseId,Q1,Q2", 'Response,"What happened?",Age', '"{""ImportId"": 1}",{},{}']
    (tmp_path / "survey.csv").write_text("\n".join([*rows, "R_1,It broke.,41"]) + "\n")
    rows = ["ticket,created_at,author,body", "7,2024-01-31 10:00,customer,Hello."]
    (tmp_path / "chats.csv").write_text("\n".join(rows) + "\n")
    with Reader(tmp_path, tmp_path / "state") as reader:
        reader.follows("docs/how-to/your-data-formats.md")
    survey, chats = (
        yaml.safe_load((tmp_path / name / "params.yaml").read_text())["prepare"]
        for name in ("survey", "chats")
    )
    assert (survey["header_rows"], survey["text_column"]) == (3, "Q1")
    assert chats["messages"] == {"thread": "ticket", "speaker": "author", "time": "created_at"}


def test_histories_of_a_person(tmp_path: Path) -> None:
    """The file has one row, because `init` reads names only."""
    cells = ["customer,opened_on,product,message", "Ana,2024-01-31,lamp,It broke."]
    (tmp_path / "tickets.csv").write_text("\n".join(cells) + "\n")
    with Reader(tmp_path, tmp_path / "state") as reader:
        reader.follows("docs/how-to/histories.md")
    drafted = (tmp_path / "my-tickets/data/public/schema.yaml").read_text()
    schema = load_schema(tmp_path / "my-tickets/data/public/schema.yaml")
    assert schema.text is not None and schema.text.history is not None
    assert [a.column for a in schema.attributes] == ["records", "gap_days"]
    assert "column: product" in drafted and "column: customer" not in drafted


def test_redact_texts(reader: Reader) -> None:
    reader.folder = reader.folder.parent
    with reader:
        reader.follows("docs/how-to/redact.md")


def test_a_weekly_release(reader: Reader) -> None:
    page = "docs/operations.md"
    clone = reader.folder.parent
    states, backup = clone / "srv/sugarbush", clone / "srv/backup"
    for folder in (states, backup):
        folder.mkdir(parents=True)
    reader.state = reader.state.rename(states / "state")
    reader.variables["HOME"] = str(clone)
    reader.replaced = {
        "/srv/": f"{clone}/srv/",
        "budget --repair": f"budget --repair {accepted(reader.folder)}",
    }
    reader.after = {"tar --create": lambda _: (states / "state").rename(states / "old")}
    with reader:
        reader.follows(page)


def test_python_blocks_of_projects(reader: Reader) -> None:
    """The blocks that read a finished project."""
    project = reader.folder
    card = runnable(ROOT / "docs/how-to/read-the-card.md")
    code = (  # the card has the bound for several plans; distributions are rounded up
        f"{card}\nassert 0 < epsilon(events, delta=card['promise']['delta']) <= 1.001\n"
        "assert 0.99 < card['promise']['epsilon'] <= 1\n"
    )
    (project / "card.py").write_text(code)
    concepts = run_apart(ROOT / "docs/concepts.md")
    (project.parent / "concepts.py").write_text(f"{concepts}\nprint(project.plan)\n")
    with reader:
        reader.types("python card.py")
        reader.types("cd .. && python concepts.py")


def test_commands_in_sentences(reader: Reader) -> None:
    """Complete commands in the text. Those that make a new release or delete something are last."""
    donated = [{"message": row["text"], "product": "other"} for row in letters(170)[140:]]
    (reader.folder / "donated.jsonl").write_text(as_lines(donated))
    found = {c for page in READ for c in IN_SENTENCES.findall(page.read_text().replace("\n", " "))}
    complete = sorted(c for c in found if not PLACEHOLDER.search(c) and c not in NAMES)
    assert set(NAMES) <= found
    last = [c for c in complete if re.search("--force| -f$|--clear|clean ", c)]
    done = {c for line in LINES for c in line.commands}
    with reader:
        for command in [c for c in complete if c not in last and c not in done] + last:
            reader.types(f"{command} {SENTENCES.get(command, '')}")


def accepted(project: Path) -> str:
    """Return the options that accept each charge of the releases of a project. On a terminal, the
    program asks for each of them."""
    notes = [json.loads(path.read_text()) for path in project.glob("data/released/**/release.json")]
    charges = sorted({charge["id"] for note in notes for charge in note["charges"]})
    return " ".join(f"--accept {charge}" for charge in charges)
