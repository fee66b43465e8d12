"""A server without keys on a loopback address: web pages of other origins, and names of other machines, are refused."""

import json

import pytest

from shoal_server import ShoalServer

CHAT = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})
EVIL = "https://evil.example"


@pytest.fixture(scope="module")
def proxied():
    with ShoalServer("--allowed-host", "shoal.example", "--cors-origin", "https://chat.example") as running:
        running.wait_ready()
        yield running


@pytest.mark.parametrize("method, path, body", [("POST", "/v1/chat/completions", CHAT), ("POST", "/v1/cache/reset", ""),
                                                ("POST", "/v1/messages", CHAT), ("GET", "/v1/models", None),
                                                ("GET", "/v1/status", None), ("OPTIONS", "/v1/models", None)])
@pytest.mark.parametrize("headers, code", [({"Host": "evil.example"}, "foreign_host"), ({"Origin": EVIL}, "foreign_origin"),
                                           ({"Origin": "null"}, "foreign_origin"),
                                           ({"Origin": EVIL, "Content-Type": "text/plain"}, "foreign_origin")])
def test_foreign_hosts_and_pages_are_refused(server, method, path, body, headers, code):
    before = server.metrics()["shoal_http_requests_foreign_total"]
    reply = server.request(method, path, body, headers)
    assert reply.status == 403
    assert not [name for name in reply.headers if name.startswith("access-control-")]
    error = json.loads(reply.body)["error"]
    assert error["type"] == "permission_error" and (path == "/v1/messages" or error["code"] == code)
    assert server.metrics()["shoal_http_requests_foreign_total"] == before + 1


@pytest.mark.parametrize("headers", [{}, {"Host": "localhost"}, {"Host": "[::1]:1"}, {"Origin": "http://localhost:3000"},
                                     {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}])
def test_requests_of_this_machine_are_answered_with_any_content_type(server, headers):
    assert server.request("POST", "/v1/chat/completions", CHAT, headers).status == 200


def test_listed_hosts_and_origins_are_answered(proxied):
    assert proxied.request("POST", "/v1/chat/completions", CHAT, {"Host": "shoal.example:443"}).status == 200
    assert proxied.request("POST", "/v1/chat/completions", CHAT, {"Origin": "https://chat.example"}).status == 200
    assert proxied.request("POST", "/v1/chat/completions", CHAT, {"Host": "other.example"}).status == 403


def test_with_a_key_any_name_is_answered():
    with ShoalServer("--api-key", "sk-1") as guarded:
        assert guarded.get("/health", {"Host": "gateway.example"}).status == 200
        assert guarded.get("/v1/models", {"Origin": EVIL}).status == 401


def test_a_malformed_allowed_host_ends_the_start():
    with pytest.raises(AssertionError, match="not a host name"), ShoalServer("--allowed-host", "http://x"):
        pass
