"""The OpenAPI document against the server: schemathesis makes requests of it, right and wrong."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from muntin.server.http import described
from tests.server.conftest import PATIENCE_SECONDS, fed_server

schemathesis = pytest.importorskip("schemathesis")
from schemathesis import GenerationMode  # noqa: E402
from schemathesis.specs.openapi import checks  # noqa: E402

EXAMPLES = 20  # of each route, right and wrong
ENDLESS = "/events"
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.negative_data_rejection,
]
ROUTES = [
    (path, method)
    for path, route in described("muntin.server")["paths"].items()
    for method in route
    if path != ENDLESS
]


@pytest.fixture(scope="module")
def served():
    """A ledger with data, and its pipeline, which answers commands."""
    with fed_server() as server:
        yield server


@pytest.fixture(scope="module")
def schema(served):
    refusals = [400, 401, 403, 404, 408, 413, 415, 431, 503]
    checked = {"negative_data_rejection": {"expected-statuses": refusals}}
    return schemathesis.openapi.from_url(
        served.url + "/openapi.json", config=schemathesis.Config.from_dict({"checks": checked})
    )


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("path", "method"), ROUTES, ids=[p for p, _ in ROUTES])
def test_the_server_does_as_its_document_says(schema, path, method, mode):
    operation = schema[path][method]
    takes = operation.query or operation.body
    if mode is GenerationMode.NEGATIVE and not takes:
        pytest.skip("nothing that could be wrong")

    @given(operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES if takes else 3,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        case.call_and_validate(checks=CHECKS, timeout=PATIENCE_SECONDS)

    ask()
