"""llama.cpp's native routes: /completion in every shape of a prompt, streamed and whole, /completions, /props, /slots, and /infill with OpenAI's
suffix on a tiny checkpoint whose vocabulary has the tokens for it."""

import json
import shutil

import pytest
from shoal_server import MODEL_ID, ROOT

COUNT = "One, two, three, four,"
TINY = ROOT / "build/checkpoints/qwen3-f32"
PREFIX, SUFFIX, MIDDLE, BOS = 258, 259, 257, 256


def complete(server, **fields):
    reply = server.request("POST", "/completion", {"temperature": 0, **fields})
    assert reply.status == 200, reply.body
    return reply.json


def events(server, path="/completion", **fields):
    reply = server.request("POST", path, {"temperature": 0, "stream": True, **fields})
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/event-stream"), reply.body
    lines = [line for line in reply.body.decode().split("\n\n") if line]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


# --- /completion ----------------------------------------------------------------------------------

def test_an_answer_and_what_it_says_of_itself(server):
    whole = complete(server, prompt=COUNT, n_predict=6, return_tokens=True)
    assert whole["content"] == " five, six, seven," and whole["stop"] is True and whole["model"] == MODEL_ID
    assert server.request("POST", "/detokenize", {"tokens": whole["tokens"]}).json["content"] == whole["content"]
    assert whole["tokens_predicted"] == whole["timings"]["predicted_n"] == 6
    assert whole["prompt"] == COUNT and whole["stop_type"] == "limit" and not whole["truncated"]
    assert whole["tokens_evaluated"] == len(server.request("POST", "/tokenize", {"content": COUNT}).json["tokens"])
    settings = whole["generation_settings"]
    assert settings["n_predict"] == 6 and settings["temperature"] == 0 and settings["top_k"] == 40
    assert complete(server, prompt=COUNT, n_predict=2)["tokens"] == []


def test_a_stream_has_the_same_text(server):
    parts = events(server, prompt=COUNT, n_predict=6)
    assert [part["stop"] for part in parts] == [False] * 6 + [True]
    assert "".join(part["content"] for part in parts) == " five, six, seven,"
    assert all(len(part["tokens"]) == 1 for part in parts[:-1])
    assert parts[-1]["timings"]["predicted_n"] == 6 and parts[-1]["stop_type"] == "limit"


def test_shapes_of_prompts(server):
    ids = server.request("POST", "/tokenize", {"content": COUNT}).json["tokens"]
    text = complete(server, prompt=COUNT, n_predict=4)["content"]
    assert complete(server, prompt=ids, n_predict=4)["content"] == text
    several = complete(server, prompt=[ids, COUNT, "A"], n_predict=4)
    assert [one["index"] for one in several] == [0, 1, 2]
    assert several[0]["content"] == several[1]["content"] == text
    mixed = complete(server, prompt=[*ids[:3], server.request("POST", "/detokenize", {"tokens": ids[3:]}).json["content"]],
                     n_predict=4)
    assert mixed["prompt"] == COUNT and mixed["content"] == text
    assert sorted({part["index"] for part in events(server, prompt=[COUNT, "A"], n_predict=2)}) == [0, 1]


def test_special_tokens_of_a_rendered_template(server):
    chat = {"messages": [{"role": "user", "content": "Say hello."}]}
    prompt = server.request("POST", "/apply-template", chat).json["prompt"]
    tokens = server.request("POST", "/tokenize", chat).json
    answer = complete(server, prompt=prompt, n_predict=8)
    assert answer["tokens_evaluated"] == tokens["count"]
    assert answer["content"] == server.chat("Say hello.", temperature=0, max_tokens=8).json["choices"][0]["message"]["content"]


def test_stop_words_and_lengths(server):
    word = complete(server, prompt=COUNT, n_predict=20, stop=[" seven"])
    assert word["content"] == " five, six," and word["stop_type"] == "word" and word["stopping_word"] == " seven"
    assert "".join(part["content"] for part in events(server, prompt=COUNT, n_predict=20, stop=[" seven"])) == word["content"]
    none = complete(server, prompt=COUNT, n_predict=0)
    assert none["content"] == "" and none["tokens_predicted"] == 0
    bounded = complete(server, prompt="def f():\n    return 1\n", n_predict=60, n_indent=4)
    lines = bounded["content"].split("\n")
    assert all(line.startswith("    ") for line in lines[1:] if line.strip())


def test_probabilities(server):
    listed = complete(server, prompt=COUNT, n_predict=3, n_probs=4)["completion_probabilities"]
    assert len(listed) == 3
    for token in listed:
        tops = token["top_logprobs"]
        assert len(tops) == 4 and token["logprob"] == tops[0]["logprob"] and bytes(token["bytes"]).decode() == token["token"]
        assert tops == sorted(tops, key=lambda top: -top["logprob"])
    for part in events(server, prompt=COUNT, n_predict=3, n_probs=4)[:-1]:
        assert len(part["completion_probabilities"]) == 1
    after = complete(server, prompt=COUNT, n_predict=1, n_probs=4, post_sampling_probs=True)["completion_probabilities"][0]
    assert after["prob"] == 1 and sorted(top["prob"] for top in after["top_probs"]) == [0, 0, 0, 1]


def test_named_fields_only(server):
    named = complete(server, prompt=COUNT, n_predict=4,
                     response_fields=["content", "generation_settings/n_predict", "prompt", "nothing", "timings/x"])
    assert named == {"content": " five, six,", "generation_settings/n_predict": 4, "prompt": COUNT}


def test_samplers_penalties_and_biases(server):
    five, six = (server.request("POST", "/tokenize", {"content": word}).json["tokens"][0] for word in (" five", " six"))
    banned = complete(server, prompt=COUNT, n_predict=1, return_tokens=True, logit_bias=[[five, False]])
    assert banned["tokens"] != [five]
    forced = complete(server, prompt=COUNT, n_predict=1, return_tokens=True, logit_bias=[[" six", 100]])
    assert forced["tokens"] == [six]
    off = complete(server, prompt=COUNT, n_predict=1, temperature=1, samplers=["temperature", "top_k"])["generation_settings"]
    assert off["min_p"] == 0 and off["top_p"] == 1 and off["top_k"] == 40
    last = complete(server, prompt=COUNT, n_predict=1, repeat_penalty=1.3, repeat_last_n=-1)["generation_settings"]
    assert last["repeat_penalty"] == pytest.approx(1.3) and last["repeat_last_n"] == -1
    schema = complete(server, prompt=COUNT, n_predict=8, json_schema={"enum": [7]})
    assert schema["content"] == "7"


def test_the_seed_decides(server):
    same = [complete(server, prompt=COUNT, n_predict=8, temperature=1, seed=7)["content"] for _ in range(2)]
    assert same[0] == same[1]
    random = complete(server, prompt=COUNT, n_predict=8, temperature=1, seed=-1)
    again = complete(server, prompt=COUNT, n_predict=8, temperature=1, seed=random["generation_settings"]["seed"])
    assert random["content"] == again["content"]


def test_the_seed_of_the_server(start_server):
    running = start_server("--seed", "42", model=TINY)
    texts = [running.chat("Hi", temperature=1, max_tokens=16, **fields).json["choices"][0]["message"]["content"] for fields in ({}, {}, {"seed": 42}, {"seed": 43})]
    assert texts[0] == texts[1] == texts[2] != texts[3]
    assert running.get("/props").json["default_generation_settings"]["params"]["seed"] == 42
    assert running.get("/slots").json[0]["params"]["seed"] == 42


@pytest.mark.parametrize("fields,param", [
    ({}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [[1, {}]]}, "prompt"),
    ({"prompt": [["a", 99999999], "b"]}, "prompt[0]"),
    ({"prompt": {"a": 1}}, "prompt"),
    ({"prompt": "a", "n_predict": -2}, "n_predict"),
    ({"prompt": "a", "n_predict": 1.5}, "n_predict"),
    ({"prompt": "a", "n_probs": 21}, "n_probs"),
    ({"prompt": "a", "post_sampling_probs": True, "temperature": 1}, "post_sampling_probs"),
    ({"prompt": "a", "samplers": ["infill"]}, "samplers"),
    ({"prompt": "a", "samplers": "edskypmxt"}, "samplers"),
    ({"prompt": "a", "dry_base": "2"}, "dry_base"),
    ({"prompt": "a", "dry_sequence_breakers": []}, "dry_sequence_breakers"),
    ({"prompt": "a", "id_slot": 3}, "id_slot"),
    ({"prompt": "a", "response_fields": "content"}, "response_fields"),
    ({"prompt": "a", "repeat_penalty": "x"}, "repeat_penalty"),
    ({"prompt": "a", "logit_bias": [[1]]}, "logit_bias"),
    ({"prompt": "a", "logit_bias": [[-1, 2]]}, "logit_bias"),
    ({"prompt": "a", "image_data": [{"id": 1}]}, "image_data"),
    ({"prompt": "a", "lora": [{"id": 0}]}, "lora"),
])
def test_a_wrong_field_is_named(server, fields, param):
    refused = server.request("POST", "/completion", fields)
    assert refused.status == 400 and refused.error["param"] == param


def test_completions_without_v1_is_either_api(server):
    native = server.request("POST", "/completions", {"prompt": COUNT, "n_predict": 4, "temperature": 0}).json
    assert native["content"] == " five, six," and native["stop_type"] == "limit"
    openai = server.request("POST", "/completions", {"prompt": COUNT, "max_tokens": 4, "temperature": 0}).json
    assert openai["choices"][0]["text"] == " five, six,"
    assert events(server, "/completions", prompt=COUNT, n_predict=2)[-1]["stop"] is True


# --- the server -----------------------------------------------------------------------------------

def test_props_and_slots(server):
    props = server.get("/props").json
    assert props["model_path"].endswith(".gguf") and "<|im_start|>" in props["chat_template"]
    assert props["default_generation_settings"]["params"]["temperature"] == 0.8
    slots = server.get("/slots").json
    assert len(slots) == props["total_slots"] and not any(slot["is_processing"] for slot in slots)
    stream = server.open_stream("Tell me a long story.", max_tokens=200, ignore_eos=True)
    stream.wait_token()
    busy = [slot for slot in server.get("/slots").json if slot["is_processing"]]
    assert len(busy) == 1 and busy[0]["n_prompt_tokens"] > 0 and busy[0]["next_token"]["n_decoded"] > 0
    stream.close()
    server.wait_idle()
    assert not any(slot["is_processing"] for slot in server.get("/slots").json)


def test_slots_show_details_to_their_own_key_only(start_server):
    server = start_server("--api-key", "one", "--api-key", "two", "--max-sequences", "1")
    assert server.get("/slots").status == server.get("/props").status == 401
    body = {"prompt": "Once", "n_predict": 300, "ignore_eos": True, "stream": True}
    with server.connect() as connection:
        text = json.dumps(body).encode()
        connection.sendall(b"POST /completion HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer one\r\nContent-Length: %d\r\n\r\n"
                           % len(text) + text)
        assert b"200 OK" in connection.recv(4096)
        slots = {key: server.get("/slots", {"Authorization": f"Bearer {key}"}).json for key in ("one", "two")}
        full = server.get("/slots?fail_on_no_slot=1", {"Authorization": "Bearer one"})
    assert slots["one"][0]["is_processing"] and slots["two"][0]["is_processing"] and len(slots["one"]) == 1
    assert "next_token" in slots["one"][0] and "next_token" not in slots["two"][0]
    assert full.status == 503 and full.json["error"]["code"] == "no_slot"


# --- /infill and suffix ---------------------------------------------------------------------------

def make_infill_model(folder):
    """TINY with the tokens for prefix, suffix and middle."""
    shutil.copytree(TINY, folder)
    path = folder / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    for old, new in (("<|im_start|>", "<|fim_prefix|>"), ("<|im_end|>", "<|fim_suffix|>"), ("<|end|>", "<|fim_middle|>")):
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    for name, old, new in (("tokenizer_config.json", "<|end|>", "<|begin|>"), ("config.json", ": 257", ": 256"),
                           ("generation_config.json", "257", "256")):
        path = folder / name
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def infill_model(tmp_path_factory):
    return make_infill_model(tmp_path_factory.mktemp("infill") / "tiny")


def test_infill_and_suffix(start_server, infill_model):
    server = start_server(model=infill_model)
    encode = lambda text: server.request("POST", "/tokenize", {"content": text}).json["tokens"]  # noqa: E731
    ids = [BOS, PREFIX, *encode("hello "), SUFFIX, *encode(" there"), MIDDLE]
    fields = {"temperature": 0, "ignore_eos": True}
    expected = complete(server, prompt=ids, n_predict=5, return_tokens=True, ignore_eos=True)
    filled = server.request("POST", "/infill", {"input_prefix": "hello ", "input_suffix": " there", "n_predict": 5,
                                                "return_tokens": True, **fields}).json
    assert filled["prompt"] == "<|begin|><|fim_prefix|>hello <|fim_suffix|> there<|fim_middle|>"
    assert filled["tokens"] == expected["tokens"] and filled["tokens_evaluated"] == len(ids)
    openai = server.request("POST", "/v1/completions", {"prompt": "hello ", "suffix": " there", "max_tokens": 5, **fields}).json
    assert openai["choices"][0]["text"] == expected["content"] and openai["usage"]["prompt_tokens"] == len(ids)
    extra = server.request("POST", "/infill", {"input_prefix": "a", "input_suffix": "b", "prompt": "c<|fim_suffix|>", "n_predict": 1,
                                               "input_extra": [{"filename": "x.h", "text": "int x;\n"}],
                                               "samplers": ["top_k", "infill"], **fields}).json
    assert extra["prompt"] == "<|begin|>\n\n--- snippet ---\n\nint x;\n<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>c<|fim_suffix|>"
    assert extra["tokens_evaluated"] > len(encode(extra["prompt"]))  # the client's text is no special token
    for wrong in ({}, {"filename": "ok"}, {"filename": 123}, {"filename": 123, "text": "abc"}, {"text": 456}):
        body = {"input_prefix": "a", "input_suffix": "b", "input_extra": [wrong]}
        refused = server.request("POST", "/infill", body)
        assert refused.status == 400 and refused.error["param"] == "input_extra"
    assert server.request("POST", "/infill", {"input_suffix": "b"}).error["param"] == "input_prefix"


def test_a_model_without_the_tokens_says_so(server):
    refused = server.request("POST", "/infill", {"input_prefix": "a", "input_suffix": "b"})
    assert refused.status == 501 and refused.error["code"] == "infill_unsupported" and "prefix suffix middle" in refused.error["message"]
    refused = server.request("POST", "/v1/completions", {"prompt": "a", "suffix": "b"})
    assert refused.status == 400 and refused.error["param"] == "suffix"
