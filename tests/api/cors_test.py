"""CORS: which headers browsers get, and for which origins."""

import pytest

from demo_model import FOLDER as SERVER_MODEL
from shoal_server import ShoalServer

ONE, TWO = "https://chat.example.org", "http://localhost:3000"
PREFLIGHT = {"Access-Control-Request-Method": "POST",
             "Access-Control-Request-Headers": "authorization, content-type, x-stainless-os"}


@pytest.fixture(scope="module")
def listed():
    with ShoalServer("--cors-origin", ONE, "--cors-origin", TWO, "--api-key", "sk-1") as running:
        running.wait_ready()
        yield running


@pytest.fixture(scope="module")
def any_origin():
    with ShoalServer("--cors-origin", "*") as running:
        yield running


def cors(reply):
    return {name: value for name, value in reply.headers.items() if name.startswith("access-control-")}


@pytest.mark.parametrize("origin", [ONE, TWO])
def test_a_preflight_is_answered(listed, origin):
    reply = listed.request("OPTIONS", "/v1/chat/completions", headers={"Origin": origin, **PREFLIGHT})
    assert reply.status == 204 and reply.body == b""
    assert cors(reply) == {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": "POST, OPTIONS",
        "access-control-allow-headers": PREFLIGHT["Access-Control-Request-Headers"],
        "access-control-max-age": "600",
        "access-control-expose-headers": "x-request-id, request-id, retry-after, x-shoal-tool-format, x-shoal-loose-tools, x-shoal-ignored-tools",
    }
    assert reply.headers["vary"] == "Origin, Access-Control-Request-Headers"


def test_replies_name_the_origin_whatever_their_status(listed):
    key = {"x-api-key": "sk-1", "Origin": ONE}
    replies = [listed.get("/v1/models", key), listed.get("/v1/models", {"Origin": ONE}), listed.get("/no", key),
               listed.request("POST", "/v1/chat/completions", "{", key), listed.chat("Hi", key, max_tokens=1),
               listed.chat("Hi", key, max_tokens=1, stream=True)]
    assert [reply.status for reply in replies] == [200, 401, 404, 400, 200, 200]
    for reply in replies:
        assert cors(reply) == {"access-control-allow-origin": ONE,
                               "access-control-expose-headers": "x-request-id, request-id, retry-after, x-shoal-tool-format, x-shoal-loose-tools, x-shoal-ignored-tools"}
        assert reply.headers["vary"] == "Origin"


@pytest.mark.parametrize("origin", ["https://evil.example", ONE + ".evil.example", ONE.upper(), "null", ONE + "/", "*"])
def test_other_origins_get_no_headers(listed, origin):
    for reply in (listed.get("/health", {"Origin": origin}),
                  listed.request("OPTIONS", "/v1/models", headers={"Origin": origin, **PREFLIGHT})):
        assert cors(reply) == {}
        assert reply.headers["vary"].startswith("Origin")


def test_replies_vary_also_without_an_origin(listed):
    reply = listed.get("/health")
    assert cors(reply) == {} and reply.headers["vary"] == "Origin"


def test_a_star_allows_every_origin_without_vary(any_origin):
    reply = any_origin.get("/health", {"Origin": "https://any.example"})
    assert cors(reply)["access-control-allow-origin"] == "*"
    assert "vary" not in reply.headers
    assert cors(any_origin.get("/health")) == {}


def test_hostile_header_lists_are_not_echoed(any_origin):
    for names in ("a b;c", "x\"y", "<script>", "a" * 3000):
        reply = any_origin.request("OPTIONS", "/v1/models", headers={
            "Origin": "https://x.example", "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": names})
        assert reply.status == 204 and "access-control-allow-headers" not in reply.headers


def test_without_the_option_there_are_no_headers(server):
    reply = server.request("OPTIONS", "/v1/chat/completions", headers={"Origin": TWO, **PREFLIGHT})
    assert reply.status == 204 and cors(reply) == {} and "vary" not in reply.headers
