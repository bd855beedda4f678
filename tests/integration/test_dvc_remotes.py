"""`dvc push` to a folder and to an S3-compatible server, and `dvc pull` in a second clone.

Only released and public files may be pushed: every pushed file is searched for private fragments.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.integration.canary import files_with, unpacked
from tests.integration.project import Checkout, letters
from tests.pipelines import FinishedPipelines, copied
from tests.s3 import BUCKET, s3_server

pytestmark = [
    pytest.mark.xdist_group("dvc"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # moto and boto3
]
# A sentence with the order's number, and the id, of each private record. The simulator invents
# numbers too, so a number alone could occur in a release by chance.
FRAGMENTS = [
    next(s for s in row["text"].split(". ") if f"of order {1000 + i} " in s)
    for i, row in enumerate(letters(146)[6:], start=6)
] + [f"letter-{i}" for i in range(6, 146)]


@pytest.fixture(scope="module")
def committed(finished: FinishedPipelines, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A finished project whose owner committed dvc.lock."""
    project = copied(finished("dvc"), tmp_path_factory.mktemp("remotes"))
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message=release")
    return project


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an S3-compatible server with an empty bucket."""
    with s3_server(monkeypatch) as address:
        yield address


def downloaded(address: str, folder: Path) -> Path:
    """Every object of the bucket as a file."""
    bucket = boto3.resource("s3", endpoint_url=address).Bucket(BUCKET)
    for each in bucket.objects.all():
        (folder / each.key).parent.mkdir(parents=True, exist_ok=True)
        bucket.download_file(each.key, str(folder / each.key))
    return folder


def check_remote(project: Checkout, pushed: Path, folder: Path) -> None:
    """Only released and public files were pushed, and a clone gets the release without a state."""
    files = [path for path in pushed.rglob("*") if path.is_file()]
    content = "\n".join(map(unpacked, files))
    assert [fragment for fragment in FRAGMENTS if fragment in content] == []
    released = project.path / "data/released/enlarge/maple/synthetic.jsonl"
    assert released.read_text() in content
    clone = Checkout(folder / "clone", folder / "empty_state")
    project.git("clone", "--quiet", str(project.path), str(clone.path))
    config = ".dvc/config.local"
    (clone.path / config).write_bytes((project.path / config).read_bytes())
    clone.dvc("pull", "--remote", "shared")
    for name in ("data/released/enlarge/maple/synthetic.jsonl", "reports/public/index.html"):
        assert (clone.path / name).read_bytes() == (project.path / name).read_bytes()
    assert not (clone.path / "data/private").exists()
    assert not (clone.path / "reports/internal").exists()
    assert not clone.state.exists()
    assert files_with(FRAGMENTS[0], [clone.path / "data", clone.path / "reports"]) == []
    shown = clone.run("sugarbush", "show", "card")
    assert "epsilon" in shown.stdout


def test_private_fragments_are_found_where_they_are(committed: Checkout) -> None:
    assert {row["id"] for row in letters(146)[6:]} == set(FRAGMENTS[140:])
    (private,) = (committed.path / "data/private/prepared/train.parquet").iterdir()
    assert sum(fragment in unpacked(private) for fragment in FRAGMENTS) > 100


def test_a_folder_as_remote_gets_nothing_private(committed: Checkout, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    committed.dvc("remote", "add", "--local", "--force", "shared", str(remote))
    committed.dvc("push", "--remote", "shared")
    check_remote(committed, remote, tmp_path)


def test_an_s3_server_as_remote_gets_nothing_private(
    committed: Checkout, s3: str, tmp_path: Path
) -> None:
    committed.dvc("remote", "add", "--local", "--force", "shared", f"s3://{BUCKET}/project")
    committed.dvc("remote", "modify", "--local", "shared", "endpointurl", s3)
    committed.dvc("push", "--remote", "shared")
    check_remote(committed, downloaded(s3, tmp_path / "objects"), tmp_path)
