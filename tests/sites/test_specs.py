"""Both files: what is right is kept, what is wrong is named with its line and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.cli import main
from muntin.errors import SpecError
from muntin.ledger.temporary import temporary
from muntin.sites import CoordinatorSpec, Site
from muntin.sites.protocol import check_agreement
from muntin.spec import Pipeline

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "sites"
SITE = """\
name: flights
time: date
pane: 10 seconds
summaries:
  flights: {keys: [origin, [origin, dest]], indicators: {delay: float64, seats: int64}}
  seen: {kind: distinct, item: tailnum}
  rough: {keys: [origin], sketch: {width: 100}}
sites:
  coordinator: ws://127.0.0.1:8790
  site: north
  summary: flights
  key: origin
  window: 15 minutes
  unit: 10 seconds
"""
COORDINATOR = """\
sites: [north, south]
summary: flights
key: origin
window: 15 minutes
unit: 10 seconds
k: 10
"""


def site_of(tmp_path, text):
    path = tmp_path / "site.yaml"
    path.write_text(text)
    return Pipeline.of(path)


def coordinator_of(tmp_path, text):
    path = tmp_path / "coordinator.yaml"
    path.write_text(text)
    return CoordinatorSpec.of(path)


def test_both_examples_fit_together(monkeypatch):
    for site in ("NORTH", "SOUTH"):
        monkeypatch.setenv(f"{site}_TOKEN", f"token-of-{site}-0123456789")
    coordinator = CoordinatorSpec.of(EXAMPLES / "coordinator.yaml")
    pipeline = Pipeline.of(EXAMPLES / "north.yaml")
    site = Site(temporary(), pipeline)
    assert site.spec.site in coordinator.sites
    assert coordinator.tokens()[site.spec.site] == "token-of-NORTH-0123456789"
    check_agreement(site.spec.said(), coordinator)


def test_the_page_shows_both_examples():
    page = (ROOT / "docs" / "topk.md").read_text()
    for name in ("coordinator.yaml", "north.yaml"):
        entries = (EXAMPLES / name).read_text().split("\n", 2)[2]  # without what it is for
        assert entries in page, f"docs/topk.md does not show {name} as it is"


@pytest.mark.parametrize("host", ["127.0.0.2", "[::1]", "localhost"])
def test_a_token_may_go_to_this_machine_in_the_open(tmp_path, host):
    text = SITE.replace("127.0.0.1", host) + "  token: a-token-of-some-length\n"
    assert site_of(tmp_path, text).sites.is_local


def test_no_secret_reaches_the_ledger(tmp_path):
    text = SITE + "  token: a-token-of-some-length\n"
    pipeline = site_of(tmp_path, text)
    assert pipeline.sites.token == "a-token-of-some-length"  # noqa: S105
    assert "token" not in str(pipeline.as_json())
    assert "some-length" not in repr(pipeline)


@pytest.mark.parametrize(("old", "new", "line", "message"), [
    ("summary: flights", "summary: flight", None, "sites.summary: there is no 'flight'"),
    ("summary: flights", "summary: seen", None, "'seen' is distinct: name a vector_matrix"),
    ("summary: flights", "summary: rough", None, "'rough' is sketched"),
    ("key: origin", "key: dest", None, "sites.key: 'flights' is not kept by dest; its keys are"),
    ("key: origin", "key: origin\n  value: count_", None, "sites.value: there is no 'count_'"),
    ("key: origin", "key: origin\n  value: delay", None, "for example scale: 100 for cents"),
    ("unit: 10 seconds", "unit: 15 seconds", None, "sites.unit: 15 seconds is not a whole number"),
    ("window: 15 minutes", "window: 95 seconds", 8, "window: 95 seconds is not a whole number"),
    ("window: 15 minutes", "window: 500 weeks", 8, "units are too many"),
    ("site: north", "site: North", None, "'North' is not a name"),
    ("ws://127.0.0.1:8790", "http://127.0.0.1:8790", 9, "write for example ws://127.0.0.1:8790"),
    ("ws://127.0.0.1:8790", "ws://127.0.0.1:99999", 9, "is no coordinator"),
    ("ws://127.0.0.1:8790", "ws://10.0.0.1:1\n  token_env: T", 8, "use wss://"),
    ("site: north", "site: north\n  token: short", 11, "a token of 5 characters can be guessed"),
    ("site: north", "site: north\n  tokn: x", 11, "did you mean 'token'?"),
    ("site: north", "site: north\n  k: 0", 11, "greater than or equal to 1"),
    ("time: date", "time: date\nretention: {panes: 5 minutes}", None, "keep the panes longer"),
    ("ws://127.0.0.1:8790", "ws://user@127.0.0.1", 9, "is no coordinator"),
])  # fmt: skip
def test_a_wrong_site(tmp_path, old, new, line, message):
    assert old in SITE
    text = SITE
    if old.startswith(("summary", "key", "unit", "window", "site")):
        head, tail = text.split("sites:\n")
        text = head + "sites:\n" + tail.replace(old, new, 1)
    else:
        text = text.replace(old, new, 1)
    with pytest.raises(SpecError) as wrong:
        site_of(tmp_path, text)
    assert message in str(wrong.value)
    if line is not None:
        assert str(wrong.value).startswith(f"{tmp_path}/site.yaml:{line}:")


@pytest.mark.parametrize(("old", "new", "message"), [
    ("sites: [north, south]", "sites: []", "takes at least 1 of them, not 0"),
    ("sites: [north, south]", "sites: [north, north]", "a site stands twice"),
    ("sites: [north, south]", f"sites: {[f's{n}' for n in range(1025)]}", "1024 of them, not 1025"),
    ("sites: [north, south]", "sites: [North]", "'North' is not a name"),
    ("sites: [north, south]", "sites: {north: {token: short}}", "can be guessed"),
    ("sites: [north, south]", "sites: {north: {tokens: x}}", "did you mean 'token'?"),
    ("k: 10", "k: 0", "greater than or equal to 1"),
    ("k: 10", "k: 10\nepsilon: -1", "greater than or equal to 0"),
    ("k: 10", "k: 10\npolicy: best", "'resolution', 'even', 'lsa' or 'gsa'"),
    ("k: 10", "k: 10\nhybrid: sometimes", "'bytes' or 'messages'"),
    ("k: 10", "", "k: is missing"),
    ("key: origin\n", "", "key: is missing"),
    ("unit: 10 seconds", "unit: 7 seconds", "give a multiple of the unit"),
    ("unit: 10 seconds", "unit: soon", "write a number and a unit"),
])  # fmt: skip
def test_a_wrong_coordinator(tmp_path, old, new, message):
    with pytest.raises(SpecError) as wrong:
        coordinator_of(tmp_path, COORDINATOR.replace(old, new, 1))
    assert message in str(wrong.value)


def test_tokens_come_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("MUNTIN_SITE_TOKEN", raising=False)
    assert coordinator_of(tmp_path, COORDINATOR).tokens() == {}
    named = COORDINATOR.replace("[north, south]", "{north: {token_env: NORTH}, south: }")
    with pytest.raises(SpecError, match=r"sites\.north\.token_env: .* NORTH is not set"):
        coordinator_of(tmp_path, named).tokens()
    monkeypatch.setenv("NORTH", "north-0123456789")
    with pytest.raises(SpecError, match=r"sites\.south: has no token and others have"):
        coordinator_of(tmp_path, named).tokens()
    monkeypatch.setenv("MUNTIN_SITE_TOKEN", "all-0123456789abc")
    tokens = coordinator_of(tmp_path, named).tokens()
    assert tokens == {"north": "north-0123456789", "south": "all-0123456789abc"}
    monkeypatch.setenv("NORTH", "short")
    with pytest.raises(SpecError, match="can be guessed"):
        coordinator_of(tmp_path, named).tokens()


def test_a_site_without_its_token_does_not_start(tmp_path, monkeypatch):
    monkeypatch.delenv("NORTH", raising=False)
    pipeline = site_of(tmp_path, SITE + "  token_env: NORTH\n")
    with pytest.raises(SpecError, match=r"sites\.token_env: .* NORTH is not set"):
        Site(temporary(), pipeline)
    with pytest.raises(SpecError, match="sites: is missing"):
        Site(temporary(), pipeline.model_copy(update={"sites": None}))


def test_what_may_be_left_out(tmp_path):
    found = coordinator_of(tmp_path, COORDINATOR + "hybrid: none\n")
    assert (found.hybrid, found.name, found.epsilon, found.port) == (None, "global", 0, 8790)
    assert (found.units, found.clock_unit_seconds) == (90, 10.0)
    assert coordinator_of(tmp_path, COORDINATOR + "speed: 100\n").clock_unit_seconds == 0.1
    assert coordinator_of(tmp_path, COORDINATOR).hybrid == "bytes"


def test_the_command_says_what_is_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["muntin", "coordinator", str(tmp_path / "none.yaml")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "none.yaml: no such file" in capsys.readouterr().err
