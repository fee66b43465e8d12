"""schemathesis tries every operation of the served document with bodies and parameters inside and outside the document. The server
survives all of them, every reply has a documented status, type and schema, and what the document does not allow is refused.

Bodies at and beyond every bound go to one route of each request reader; routes that share a reader get a few. The worker is scripted, so
answers need no model.
"""

import json

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi import checks

from scripted_server import ScriptedServer
from shoal_server import ROOT

pytestmark = [pytest.mark.long, pytest.mark.longest]

DOCUMENT = ROOT / "frontend/api/openapi.json"
# Acceptance of all documented bodies is not checked: the document cannot express rules between fields.
CHECKS = [not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
          checks.response_schema_conformance, checks.negative_data_rejection]
READERS = ["/v1/chat/completions", "/v1/completions", "/completion", "/v1/messages", "/v1/responses", "/v1/detokenize",
           "/v1/responses/{response_id}/input_items"]

# The served model lacks what these need, so they answer 501, which is documented.
UNSUPPORTED = ["/infill", "/v1/embeddings", "/embeddings", "/embedding", "/api/embed", "/api/embeddings", "/rerank", "/reranking", "/score", "/v1/rerank", "/v1/reranking", "/v1/score"]

# Its events have no end (page_test.py).
ENDLESS = ["/v1/status/stream"]

api = schemathesis.openapi.from_path(DOCUMENT, config=SchemathesisConfig(seed=20261122))


def steady(phases):
    return settings(max_examples=2, deadline=None, derandomize=True, database=None, phases=phases,
                    suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    with ScriptedServer(tmp_path_factory.mktemp("openapi")) as running:
        running.says({"text": "Well \u2026 \U0001f41f \"quoted\" and done.", "repeat": True})
        running.wait_ready()
        yield running
        running.wait_idle()


@pytest.fixture(scope="module")
def session():
    with requests.Session() as kept:
        yield kept


def test_the_document_that_is_served_is_the_one_that_is_tried(scripted):
    assert scripted.get("/openapi.json").json == json.loads(DOCUMENT.read_text(encoding="utf-8"))


@api.include(path=READERS).parametrize()
@steady([Phase.explicit, Phase.generate])
def test_bounds(case, scripted, session):
    case.call_and_validate(base_url=scripted.url, session=session, checks=CHECKS)


@api.exclude(path=READERS + ENDLESS).parametrize()
@steady([Phase.generate])
def test_operation(case, scripted, session):
    case.call_and_validate(base_url=scripted.url, session=session, checks=CHECKS[1:] if case.path in UNSUPPORTED else CHECKS)
