"""An image that was encoded before is not encoded again, and the usage of every API counts it. The worker is real, with random weights."""

import pytest

from media_host import MediaHost
from shoal_server import ShoalServer
from vision_folder import data_uri, image_part, make_folder, png, text_part

RED, GREEN, BLUE = (png(64, 32, colour) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def media():
    with MediaHost({}) as host:
        yield host


@pytest.fixture(scope="module")
def server(folder, media):
    with ShoalServer("--allow-media-domain", media.name, "--allow-media-private", model=folder) as running:
        running.wait_ready()
        yield running
        running.wait_idle()


@pytest.fixture(autouse=True)
def nothing_is_cached(request):
    if "server" in request.fixturenames:
        assert request.getfixturevalue("server").request("POST", "/v1/cache/reset").status == 200


def usage(server, *parts, headers=None, **fields):
    reply = server.chat(list(parts), headers=headers, temperature=0, **{"max_tokens": 2, **fields})
    assert reply.status == 200, reply.body
    return reply.json["usage"]


def cached(server, *parts, **more):
    return usage(server, *parts, **more)["prompt_tokens_details"]["cached_images"]


def test_an_image_counts_as_cached_the_second_time(server):
    before = server.metrics()
    red = image_part(data_uri(RED))
    assert cached(server, red, text_part("what?")) == 0
    assert cached(server, text_part("Another question. "), red) == 1  # its features
    assert cached(server, red, red, image_part(data_uri(BLUE))) == 2
    assert cached(server, text_part("no image")) == 0
    after = server.metrics()
    assert {name: after[name] - before[name] for name in
            ("vllm:mm_cache_queries_total", "vllm:mm_cache_hits_total", "shoal_patch_rows_total")} == {
        "vllm:mm_cache_queries_total": 5, "vllm:mm_cache_hits_total": 3, "shoal_patch_rows_total": 2 * 16 * 8}
    stats = server.get("/v1/cache/stats").json["vision_cache"]
    assert stats["images"] == after["shoal_images_cached"] == 2
    assert stats["bytes_used"] == after["shoal_feature_used_bytes"] > 0
    assert stats["bytes_total"] == after["shoal_feature_bytes"] >= stats["bytes_used"]
    assert (stats["queries"], stats["hits"]) == (after["vllm:mm_cache_queries_total"], after["vllm:mm_cache_hits_total"])


def test_an_image_in_a_cached_prefix_counts(server):
    parts = [image_part(data_uri(RED)), text_part("a question that fills a block of tokens or two")]
    assert cached(server, *parts) == 0
    before = server.metrics()["vllm:mm_cache_queries_total"]
    again = usage(server, *parts)["prompt_tokens_details"]
    assert again["cached_images"] == 1 and again["cached_tokens"] > 32
    assert server.metrics()["vllm:mm_cache_queries_total"] == before  # the cached prefix holds its keys and values: no features are looked up


def test_every_api_reports_it(server):
    url = data_uri(GREEN)
    assert cached(server, image_part(url)) == 0
    stream = server.open_stream([text_part("b"), image_part(url)], max_tokens=2, stream_options={"include_usage": True})
    assert list(stream.events())[-1]["usage"]["prompt_tokens_details"]["cached_images"] == 1
    told = server.request("POST", "/v1/responses", {"max_output_tokens": 2, "store": False, "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "c"}, {"type": "input_image", "image_url": url}]}]}).json
    assert told["usage"]["input_tokens_details"]["cached_images"] == 1
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": url.split(",")[1]}}
    told = server.request("POST", "/v1/messages", {"max_tokens": 2, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "d"}, image]}]}).json
    assert told["usage"]["cache_read_input_images"] == 1


def test_other_bytes_behind_the_same_url_are_another_picture(server, media):
    part = image_part(f"http://{media.name}/image.png")
    media.files["/image.png"] = RED
    assert cached(server, text_part("one"), part) == 0
    assert cached(server, text_part("two"), part) == 1
    media.files["/image.png"] = BLUE
    assert cached(server, text_part("three"), part) == 0


def test_other_sizes_are_other_images(server):
    assert cached(server, image_part(data_uri(RED))) == 0
    assert cached(server, image_part(data_uri(RED)), resize_shape=[32, 16]) == 0


def test_several_choices_encode_an_image_once(server):
    red = image_part(data_uri(RED))
    assert cached(server, text_part("e"), red, n=3) == 0
    assert cached(server, text_part("f"), red, n=3) == 1


def test_tenants_have_their_own(server):
    red = image_part(data_uri(RED))
    for tenant in ("one", "two", None):
        headers = {"X-Tenant-Id": tenant} if tenant else None
        assert [cached(server, text_part(text), red, headers=headers) for text in "gh"] == [0, 1]


@pytest.mark.parametrize("survives", [0, 1])
def test_after_a_workers_death(folder, start_server, survives):
    """The worker dies in its 40th step, during the second request, after that request's first token has reported its cache hits.

    The next worker encodes the image of the replay again and has lost the other one, unless features outlived the first worker."""
    server = start_server("--speculation", "off", "--worker-fault", "abort-at-step=40", "--kv-survives", str(survives), model=folder)
    red, blue = image_part(data_uri(RED)), image_part(data_uri(BLUE))
    assert cached(server, red, blue, max_tokens=4, ignore_eos=True) == 0
    assert cached(server, text_part("i"), red, max_tokens=50, ignore_eos=True) == 1
    assert server.metrics()["shoal_requests_replayed_total"] == 1
    assert cached(server, text_part("j"), red) == 1
    assert cached(server, text_part("k"), blue) == survives
