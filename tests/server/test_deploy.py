"""What stands in deploy/ fits what Muntin has: metrics, pipeline files, and no open door."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import httpx
import pytest
import yaml
from typer.main import get_command

from muntin import cli
from muntin.assembly.standing import StandingQueries
from muntin.ledger.temporary import temporary
from muntin.server.serving import Server
from muntin.spec import Pipeline
from tests.pipeline.support import pipeline

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def test_rules_and_documents_name_metrics_that_there_are():
    ledger = temporary()
    ledger.open_writer("orders", pipeline().as_json(), query_id="q").close()
    with Server(ledger, port=0) as server:
        text = httpx.get(f"{server.url}/metrics").text
    there = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    texts = [DEPLOY / "prometheus-rules.yaml", ROOT / "docs" / "alerts.md"]
    for file in texts:
        for name in re.findall(r"\bmuntin_\w+", file.read_text()):
            assert name in there, (file.name, name)


def test_the_pipeline_of_the_compose_file_is_one():
    spec = Pipeline.of(DEPLOY / "compose" / "pipeline.yaml")
    StandingQueries(spec, temporary()).close()
    assert spec.queries["dear"].alert is not None


@pytest.mark.parametrize("name", ["muntin-run@.service", "muntin-serve.service"])
def test_a_unit_starts_a_command_that_there_is(name):
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(DEPLOY / "systemd" / name)
    service = unit["Service"]
    program, command, *words = service["ExecStart"].split()
    assert program == "/opt/muntin/bin/muntin"
    get_command(cli.app).commands[command].make_context(command, words)  # or it says what is wrong
    assert service["Restart"] == "on-failure"
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"
    assert "0.0.0.0" not in words  # noqa: S104


def test_nothing_in_the_compose_file_starts_without_its_secret_or_beyond_loopback():
    services = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())["services"]
    secrets = {
        "postgres": "POSTGRES_PASSWORD",
        "server": "MUNTIN_TOKEN",
        "grafana": "GF_SECURITY_ADMIN_PASSWORD",
    }
    for name, variable in secrets.items():
        assert ":?" in services[name]["environment"][variable], name
    for name, service in services.items():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name
    for name in ("pipeline", "server"):
        assert services[name]["read_only"]
        assert services[name]["user"] == "10001:10001"
        assert services[name]["cap_drop"] == ["ALL"]
