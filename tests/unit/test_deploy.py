"""What an operator starts: the compose file and the image's files."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.settings import ROOT

DEPLOY = ROOT / "deploy"


def test_the_compose_file_has_no_secret_and_keeps_the_state_outside_the_image() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert {services[name]["user"] for name in ("server", "worker")} == {"10001"}
    for service in services.values():
        for name, value in service.get("environment", {}).items():
            assert value.startswith("${") or not name.endswith(("PASSWORD", "KEY", "STRING"))
    assert "state:/state" in services["worker"]["volumes"]
    assert services["server"]["ports"] == ["127.0.0.1:4200:4200"]


def test_the_image_contains_only_named_files_and_runs_as_a_user() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    copied = [name for line in lines if line.startswith("COPY") for name in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    assert not {"data", "settings", "reports", "."} & {Path(name).parts[0] for name in copied}
    assert lines.index("USER sugarbush") > max(
        number for number, line in enumerate(lines) if line.startswith(("RUN", "COPY"))
    )
    sent = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in sent if line.startswith("!")} == set(copied)
