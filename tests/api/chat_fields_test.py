"""Fields of chat completions: choices, log-probabilities, prefill, progress, timings, tools; by the official client."""

import openai
import pytest

from shoal_server import MODEL_ID

ASK = [{"role": "user", "content": "Name a colour and a city."}]
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def ask(client, messages=None, **fields):
    return client.chat.completions.create(model=MODEL_ID, messages=messages or ASK, **fields)


def shown_bytes(logprobs):
    return b"".join(bytes(one.bytes) for one in logprobs.content)


def test_each_choice_equals_a_request_with_its_seed(client):
    together = ask(client, n=3, seed=11, max_tokens=8)
    alone = [ask(client, seed=11 + i, max_tokens=8) for i in range(3)]
    texts = [choice.message.content for choice in together.choices]
    assert texts == [one.choices[0].message.content for one in alone]
    assert len(set(texts)) == 3
    assert [choice.index for choice in together.choices] == [0, 1, 2]
    assert together.usage.prompt_tokens == alone[0].usage.prompt_tokens
    assert together.usage.completion_tokens == sum(one.usage.completion_tokens for one in alone)


def test_streamed_choices_join_to_the_whole_ones(client):
    whole = ask(client, n=2, seed=5, max_tokens=8, logprobs=True, top_logprobs=3)
    texts, finishes, logs = {}, {}, {0: b"", 1: b""}
    roles = 0
    for chunk in ask(client, n=2, seed=5, max_tokens=8, logprobs=True, top_logprobs=3, stream=True):
        for choice in chunk.choices:
            roles += choice.delta.role == "assistant"
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
            finishes[choice.index] = choice.finish_reason or finishes.get(choice.index)
            if choice.logprobs:
                logs[choice.index] += shown_bytes(choice.logprobs)
    assert roles == 2
    for choice in whole.choices:
        assert texts[choice.index] == choice.message.content
        assert finishes[choice.index] == choice.finish_reason
        assert logs[choice.index] == shown_bytes(choice.logprobs) == choice.message.content.encode()


def test_more_choices_than_there_is_room_are_refused_as_a_whole(start_server):
    server = start_server("--max-sequences", "2", "--max-queue", "1")
    too_many = server.chat(n=4)
    assert too_many.status == 400 and too_many.error["param"] == "n"
    stream = server.open_stream("Count to a hundred.", n=3, max_tokens=200, temperature=0)
    stream.wait_token()
    assert server.chat().status == 429
    stream.close()
    server.wait_idle()
    assert server.chat(n=3, max_tokens=2).status == 200
    server.wait_idle()


def test_the_most_likely_tokens_come_with_each(client):
    choice = ask(client, max_tokens=5, temperature=0, logprobs=True, top_logprobs=4).choices[0]
    assert len(choice.logprobs.content) == 5
    for token in choice.logprobs.content:
        tops = token.top_logprobs
        assert len(tops) == 4
        assert [top.logprob for top in tops] == sorted((top.logprob for top in tops), reverse=True)
        assert (tops[0].token, tops[0].logprob) == (token.token, token.logprob)


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities_end_where_a_stop_string_cuts(client, stream):
    plain = ask(client, max_tokens=12, temperature=0).choices[0].message.content
    stop = plain[len(plain) // 2:len(plain) // 2 + 3]
    fields = {"max_tokens": 12, "temperature": 0, "stop": [stop], "logprobs": True}
    if stream:
        text, joined = "", b""
        for chunk in ask(client, stream=True, **fields):
            text += chunk.choices[0].delta.content or ""
            joined += shown_bytes(chunk.choices[0].logprobs) if chunk.choices[0].logprobs else b""
    else:
        choice = ask(client, **fields).choices[0]
        text, joined = choice.message.content, shown_bytes(choice.logprobs)
    assert text == plain[:plain.index(stop)]
    assert joined == text.encode()


def test_the_last_message_is_continued(client):
    messages = [{"role": "user", "content": "Say: one two three"}, {"role": "assistant", "content": "One two"}]
    body = {"continue_final_message": True}
    text = ask(client, messages, max_tokens=4, temperature=0, extra_body=body).choices[0].message.content
    assert text.startswith(" three")
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, ASK, extra_body=body)
    assert refused.value.param == "messages[0]"


def test_progress_and_timings_have_llama_cpps_names(server):
    stream = server.open_stream("Hello " * 40, max_tokens=3, return_progress=True, timings_per_token=True)
    events = list(stream.events())
    stream.close()
    progress = [event["prompt_progress"] for event in events if "prompt_progress" in event]
    assert progress and progress[-1]["processed"] == progress[-1]["total"]
    assert set(progress[0]) == {"total", "cache", "processed", "time_ms"}
    timings = events[-1]["timings"]
    assert timings["predicted_n"] == 3
    assert timings["prompt_n"] + timings["cache_n"] == progress[-1]["total"]
    assert all(entry["cache"] == timings["cache_n"] for entry in progress)
    assert timings["prompt_ms"] > 0 and timings["predicted_per_second"] > 0
    assert len({event["id"] for event in events}) == 1


def test_the_end_token_can_be_ignored(server):
    fields = {"temperature": 0, "max_tokens": 30}
    short = server.chat("Answer with one word: yes or no?", **fields).json["usage"]["completion_tokens"]
    assert short < 30, "the model must end by itself for this test"
    longer = server.chat("Answer with one word: yes or no?", ignore_eos=True, **fields).json
    assert longer["usage"]["completion_tokens"] == 30
    assert longer["choices"][0]["finish_reason"] == "length"
    assert server.chat("Answer with one word: yes or no?", min_tokens=short + 2,
                       **fields).json["usage"]["completion_tokens"] >= short + 2


def test_tools_are_taken_and_the_answer_is_good(client):
    """The content is not checked: the model is too small to use tools."""
    answer = ask(client, tools=[TOOL], tool_choice="auto", max_tokens=8)
    assert answer.choices[0].finish_reason in ("stop", "length", "tool_calls")
    with client.chat.completions.stream(model=MODEL_ID, messages=ASK, stop=[" "], seed=1) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].finish_reason == "stop" and final.choices[0].message.content
