"""Ollama's API beside chat completions, on the demo model, which sees, thinks and calls tools: the same question has the same answer in
both, streamed and whole; options, formats, refusals, and the routes that describe the model."""

import base64
import json

import pytest
from demo_model import FOLDER, chat_body, golden_image, questions, server  # noqa: F401

MODEL = FOLDER.name
QUESTIONS = questions()


def ollama_body(question, **fields):
    """The question as a body of /api/chat: images beside the text, options in their object."""
    chat = chat_body(question)
    messages = []
    for message in chat["messages"]:
        content = message["content"]
        texts = [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
        images = [] if isinstance(content, str) else [
            part["image_url"]["url"].split(",", 1)[1] for part in content if part["type"] == "image_url"]
        calls = [{"function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
                 for call in message.get("tool_calls", [])]
        messages.append({"role": message["role"], "content": "\n".join(texts), **({"images": images} if images else {}),
                         **({"tool_calls": calls} if calls else {})})
    body = {"model": MODEL + ":latest", "messages": messages, "options": {"temperature": 0, "num_predict": chat["max_tokens"]}}
    if chat.get("tools"):
        body["tools"] = chat["tools"]
    body["think"] = bool(chat.get("enable_thinking"))
    return {**body, **fields}


def lines_of(reply):
    assert reply.status == 200 and reply.headers["content-type"] == "application/x-ndjson", reply.body
    return [json.loads(line) for line in reply.body.decode().splitlines()]


def joined(lines):
    """(thinking, content, calls) of a stream, whose last line alone is done."""
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    messages = [line["message"] for line in lines]
    return ("".join(message.get("thinking", "") for message in messages), "".join(message["content"] for message in messages),
            [(call["function"]["name"], call["function"]["arguments"]) for message in messages
             for call in message.get("tool_calls", [])])


def chosen(test, count):
    found = [question for question in QUESTIONS if test(question)]
    assert len(found) >= count
    return found[:count]


@pytest.mark.parametrize("question", [
    *chosen(lambda q: not q["tools"] and not q["thinking"], 3), *chosen(lambda q: q["tools"], 3), *chosen(lambda q: q["thinking"], 2)],
    ids=lambda question: question["text"][:12])
def test_answers_equal_those_of_chat_completions(server, question):  # noqa: F811
    chat = server.request("POST", "/v1/chat/completions", chat_body(question)).json
    message = chat["choices"][0]["message"]
    expected = (message.get("reasoning_content", ""), message["content"] or "",
                [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls", [])])
    stream = lines_of(server.request("POST", "/api/chat", ollama_body(question)))
    assert joined(stream) == expected
    whole = server.request("POST", "/api/chat", ollama_body(question, stream=False))
    assert whole.headers["content-type"] == "application/json" and joined([whole.json]) == expected
    assert whole.json["prompt_eval_count"] == chat["usage"]["prompt_tokens"] and whole.json["done_reason"] == "stop"
    assert whole.json["eval_count"] >= chat["usage"]["completion_tokens"] and whole.json["total_duration"] > 0


def test_calls_without_ids_are_joined_with_their_results(server):  # noqa: F811
    question, = chosen(lambda q: q["tools"], 1)
    calls = [{"function": {"name": name, "arguments": {"n": i}}} for i, name in enumerate("aba")]
    results = [{"role": "tool", "tool_name": name, "content": f"result {i}"} for i, name in enumerate("aab")]
    messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "", "tool_calls": calls}, *results]
    ours = server.request("POST", "/api/chat", ollama_body(question, messages=messages, stream=False)).json
    ids = ["call_0", "call_1", "call_2"]
    full = [{"role": "user", "content": "Go."},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": i, "type": "function", "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
                for i, call in zip(ids, calls)]},
            *({"role": "tool", "tool_call_id": i, "name": result["tool_name"], "content": result["content"]}
              for i, result in zip(["call_0", "call_2", "call_1"], results))]
    chat = server.request("POST", "/v1/chat/completions", {**chat_body(question), "messages": full}).json
    assert ours["prompt_eval_count"] == chat["usage"]["prompt_tokens"]
    assert ours["message"]["content"] == (chat["choices"][0]["message"]["content"] or "")


# --- /api/generate --------------------------------------------------------------------------------

def generate(server, **fields):  # noqa: F811
    return server.request("POST", "/api/generate", {"model": MODEL, "stream": False, **fields})


def test_generate_is_a_chat_of_one_turn(server):  # noqa: F811
    question, = chosen(lambda q: not q["tools"] and not q["thinking"] and len(q["pictures"]) == 1 and len(q["messages"]) == 1, 1)
    chat = server.request("POST", "/v1/chat/completions", chat_body(question)).json
    body = ollama_body(question)
    user = body["messages"][-1]
    fields = {"prompt": user["content"], "images": user["images"], "options": body["options"], "think": False}
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert generate(server, **fields).json["response"] == chat["choices"][0]["message"]["content"]
    lines = lines_of(generate(server, stream=True, **fields))
    assert "".join(line["response"] for line in lines) == chat["choices"][0]["message"]["content"]
    assert lines[-1]["done"] and lines[-1]["done_reason"] == "stop"


def test_raw_prompts_loading_and_log_probabilities(server):  # noqa: F811
    options = {"temperature": 0, "num_predict": 4}
    raw = generate(server, prompt="red circle", raw=True, options=options, logprobs=True, top_logprobs=2).json
    plain = server.request("POST", "/completion", {"prompt": "red circle", "n_predict": 4, "temperature": 0}).json
    assert raw["response"] == plain["content"] and raw["done_reason"] == "length" and raw["eval_count"] == 4
    assert len(raw["logprobs"]) == 4 and all(len(one["top_logprobs"]) == 2 for one in raw["logprobs"])
    assert "".join(one["token"] for one in raw["logprobs"]) == raw["response"]
    for loaded in (generate(server, keep_alive="5m"), server.request("POST", "/api/chat", {"model": MODEL, "messages": []})):
        line = json.loads(loaded.body)
        assert loaded.status == 200 and line["done"] is True and line["done_reason"] == "load"


def test_formats_and_options(server):  # noqa: F811
    chat = {"messages": [{"role": "user", "content": "Which colour?"}], "stream": False, "think": False}
    schema = {"type": "object", "properties": {"c": {"enum": ["red"]}}, "required": ["c"], "additionalProperties": False}
    ask = lambda **fields: server.request("POST", "/api/chat", {**chat, **fields}).json  # noqa: E731
    assert json.loads(ask(format=schema)["message"]["content"]) == {"c": "red"}
    assert ask(format="json", options={"temperature": 0, "num_predict": 20})["message"]["content"].lstrip().startswith("{")
    same = [ask(options={"seed": 5, "temperature": 1.5, "num_predict": 12, "num_ctx": 4096, "num_gpu": 1, "repeat_penalty": 1.2,
                         "repeat_last_n": 8, "top_k": 0, "top_p": 1.0})["message"] for _ in range(2)]
    assert same[0] == same[1]
    stopped = ask(options={"temperature": 0, "stop": [" "]})
    assert " " not in stopped["message"]["content"] and stopped["done_reason"] == "stop"
    defaults = {"penalize_newline": True, "tfs_z": 1.0, "logits_all": False, "embedding_only": False}  # of Ollama's own Options
    assert ask(options={"temperature": 0, "stop": [" "], **defaults})["message"] == stopped["message"]


@pytest.mark.parametrize("path,fields,words", [
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}], "options": {"num_predicted": 3}}, "options.num_predicted"),
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}], "options": []}, "options"),
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}], "options": {"num_gpu": "all"}}, "options.num_gpu"),
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}], "options": {"repeat_last_n": -2}}, "options.repeat_last_n"),
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}], "options": {"mirostat_tau": "5"}}, "mirostat_tau"),
    ("/api/generate", {"prompt": "a", "options": {"mirostat_eta": -0.1}}, "mirostat_eta"),
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}], "options": {"penalize_newline": False}}, "options.penalize_newline"),
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}], "options": {"tfs_z": 0.9}}, "options.tfs_z"),
    ("/api/generate", {"prompt": "a", "options": {"logits_all": "no"}}, "options.logits_all"),
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}], "think": "deeply"}, "think"),
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}], "format": "xml"}, "format"),
    ("/api/chat", {"messages": [{"role": "user", "content": "a", "images": "x"}]}, "images"),
    ("/api/chat", {"messages": [{"role": "user", "content": "a", "images": ["!!"]}]}, "messages[0]"),
    ("/api/chat", {"messages": [{"role": "friend", "content": "a"}]}, "messages[0].role"),
    ("/api/chat", {"messages": [1]}, "messages[0]"),
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}], "n": 2}, "n must be"),
    ("/api/generate", {"prompt": "a", "n": 3}, "n must be"),
    ("/api/chat", {"messages": [], "keep_alive": {}}, "keep_alive"),
    ("/api/generate", {"prompt": 3}, "prompt"),
    ("/api/generate", {"prompt": "a", "context": [1, 2]}, "context"),
    ("/api/generate", {"prompt": "a", "template": "x"}, "template"),
    ("/api/generate", {"prompt": "a", "suffix": "b"}, "suffix"),
])
def test_a_wrong_field_is_named(server, path, fields, words):  # noqa: F811
    refused = server.request("POST", path, fields)
    assert refused.status == 400 and set(refused.json) == {"error"} and words in refused.json["error"], refused.body


# --- the model ------------------------------------------------------------------------------------

def test_the_model_describes_itself(server):  # noqa: F811
    entry, = server.get("/api/tags").json["models"]
    assert entry["name"] == entry["model"] == MODEL and len(entry["digest"]) == 64 and entry["size"] > 10 ** 6
    assert entry["details"]["format"] == "safetensors" and set(entry["capabilities"]) >= {"completion", "tools", "vision", "thinking"}
    running, = server.get("/api/ps").json["models"]
    assert running["digest"] == entry["digest"] and running["context_length"] > 0
    shown = server.request("POST", "/api/show", {"model": MODEL + ":latest"}).json
    family = shown["model_info"]["general.architecture"]
    assert shown["model_info"][f"{family}.context_length"] == running["context_length"] and shown["template"]
    assert shown["capabilities"] == entry["capabilities"]
    assert server.request("POST", "/api/show", {"name": MODEL}).status == 200
    unknown = server.request("POST", "/api/show", {"model": "other"})
    assert unknown.status == 404 and "other" in unknown.json["error"]
    assert tuple(map(int, server.get("/api/version").json["version"].split("."))) >= (0, 6, 4)


def test_keys_are_asked_for(start_server):
    server = start_server("--api-key", "k")  # noqa: F811
    for method, path in (("GET", "/api/tags"), ("GET", "/api/ps"), ("POST", "/api/show"), ("POST", "/api/chat"), ("POST", "/api/generate")):
        assert server.request(method, path, {} if method == "POST" else None).status == 401
        refused = server.request(method, path, {} if method == "POST" else None)
        assert isinstance(refused.json["error"], str)
    assert server.get("/api/tags", {"Authorization": "Bearer k"}).status == 200


def test_images_are_taken_as_base64(server):  # noqa: F811
    image = base64.b64encode(golden_image("015-0.png")).decode()
    body = {"messages": [{"role": "user", "content": "What do you see?", "images": [image, image]}], "stream": False}
    one = server.request("POST", "/api/chat", {**body, "messages": [{**body["messages"][0], "images": [image]}]}).json
    two = server.request("POST", "/api/chat", body).json
    assert two["prompt_eval_count"] > one["prompt_eval_count"] + 10
