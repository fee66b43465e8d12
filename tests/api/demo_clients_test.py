"""The demo model through the official clients: images and thinking in all three APIs, streamed and not, over one and several turns;
agents whose calls come back with results; thinking budgets."""

import json
import subprocess

import anthropic
import openai
import pytest

from demo_model import FOLDER, GOLDEN, TOKENS_MOST, chat_messages, parts_of, questions, server  # noqa: F401
from shoal_server import BUILD, PATIENCE_S

MODEL = "demo"
QUESTIONS = questions()


@pytest.fixture(scope="module")
def openais(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def anthropics(server):
    with anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0) as client:
        yield client


# --- one conversation in each API: chat messages in, (reasoning, content) out ------------------------------------------------

def image_url_of(part):
    return part["image_url"]["url"]


def by_chat(openais, _, messages, stream, thinking=False):
    fields = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": TOKENS_MOST, "extra_body": {"enable_thinking": thinking}}
    if not stream:
        message = openais.chat.completions.create(**fields).choices[0].message
        return getattr(message, "reasoning_content", ""), message.content
    pieces = [("", "")]
    for chunk in openais.chat.completions.create(**fields, stream=True):
        for choice in chunk.choices:
            pieces.append((getattr(choice.delta, "reasoning_content", None) or "", choice.delta.content or ""))
    first_content = next(i for i, piece in enumerate(pieces) if piece[1])
    assert not any(thought for thought, _ in pieces[first_content:])
    return tuple("".join(parts) for parts in zip(*pieces))


def by_responses(openais, _, messages, stream, thinking=False):
    def item(message):
        if isinstance(message["content"], str):
            return message
        return {"role": message["role"], "content": [
            {"type": "input_text", "text": part["text"]} if part["type"] == "text" else
            {"type": "input_image", "image_url": image_url_of(part), "detail": "auto"} for part in message["content"]]}
    fields = {"model": MODEL, "input": [item(message) for message in messages], "temperature": 0, "max_output_tokens": TOKENS_MOST,
              "reasoning": {"effort": "medium" if thinking else "none"}}
    if stream:
        with openais.responses.stream(**fields) as opened:
            made = opened.get_final_response()
    else:
        made = openais.responses.create(**fields)
    assert made.status == "completed"
    return "".join(item.content[0].text for item in made.output if item.type == "reasoning"), made.output_text


def by_messages(_, anthropics, messages, stream, thinking=False):
    def block(part):
        if part["type"] == "text":
            return part
        kind, data = image_url_of(part).removeprefix("data:").split(";base64,")
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
    turns = [{"role": message["role"], "content": message["content"] if isinstance(message["content"], str) else
              [block(part) for part in message["content"]]} for message in messages if message["role"] != "system"]
    system = "".join(message["content"] for message in messages if message["role"] == "system")
    fields = {"model": MODEL, "messages": turns, "max_tokens": TOKENS_MOST, "extra_body": {"temperature": 0},
              "thinking": {"type": "adaptive" if thinking else "disabled"}, **({"system": system} if system else {})}
    if stream:
        with anthropics.messages.stream(**fields) as opened:
            made = opened.get_final_message()
    else:
        made = anthropics.messages.create(**fields)
    assert made.stop_reason == "end_turn"
    return ("".join(block.thinking for block in made.content if block.type == "thinking").strip(),
            "".join(block.text for block in made.content if block.type == "text"))


APIS = pytest.mark.parametrize("api", [by_chat, by_responses, by_messages])
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@APIS
@STREAMED
def test_every_kind_of_question_in_every_api(openais, anthropics, api, stream):
    """The first question of each kind, with and without thinking, in one turn and in several, with zero, one and two images."""
    asked = {}
    for question in QUESTIONS:
        if not question["tools"]:
            asked.setdefault((question["kind"], question["thinking"], len(question["messages"]) > 1), question)
    assert len(asked) > 25 and {len(question["pictures"]) for question in asked.values()} == {0, 1, 2}
    for question in asked.values():
        reasoning, content, _ = parts_of(question["text"], question["thinking"])
        told = api(openais, anthropics, chat_messages(question), stream, question["thinking"])
        assert told == (reasoning, content), question["messages"]


@STREAMED
def test_images_in_several_turns(openais, anthropics, stream):
    """Each API gives the same answer."""
    shown = [question for question in QUESTIONS if question["kind"] == "describe" and not question["thinking"]][:3]
    for first, then in zip(shown, shown[1:]):
        messages = [*chat_messages(first), {"role": "assistant", "content": first["text"]}, *chat_messages(then)]
        answers = {api(openais, anthropics, messages, stream) for api in (by_chat, by_responses, by_messages)}
        assert len(answers) == 1, answers


def test_a_stored_conversation_keeps_its_image(openais):
    """Asks about the image of the previous turn, which only the server has kept. The recording follows a correct description, so images
    with five or more things are left out: the model was not trained to describe them, and a miscount changes the conversation."""
    continued = 0
    for question in QUESTIONS:
        if not question["pictures"] or len(question["messages"]) == 1:
            continue
        _, said, then = question["messages"]
        image, words = chat_messages(question)[0]["content"]
        fields = {"model": MODEL, "temperature": 0, "reasoning": {"effort": "none"}}
        first = openais.responses.create(**fields, input=[{"role": "user", "content": [
            {"type": "input_image", "image_url": image_url_of(image), "detail": "auto"}, {"type": "input_text", "text": words["text"]}]}])
        if first.output_text != said["content"]:
            assert said["content"].count(" a ") + said["content"].count(" an ") > 4, first.output_text
            continue
        second = openais.responses.create(**fields, previous_response_id=first.id, input=then["content"])
        assert second.output_text == question["text"]
        assert second.usage.input_tokens_details.cached_tokens > 0
        continued += 1
    assert continued >= 10


def test_generate_takes_an_image():
    asked = next(question for question in QUESTIONS if question["kind"] == "describe" and not question["thinking"])
    (name,), words = asked["pictures"], asked["messages"][0]["content"][1]["text"]
    command = [BUILD / "shoal", "generate", "--device", "cpu", "--model", FOLDER, "--image", GOLDEN / name, "--prompt", words, "--temperature", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ended.returncode, ended.stdout) == (0, asked["text"] + "\n"), ended.stderr


# --- agents ------------------------------------------------------------------------------------------------------------

def schema(**properties):
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}, "required": list(properties)}


TOOLS = {"get_weather": ("The weather of a city.", schema(city="string")),
         "calculator": ("Computes an expression.", schema(expression="string")),
         "switch_lamp": ("Switches a lamp.", schema(room="string", on="boolean")),
         "set_reminder": ("Reminds the user later.", schema(minutes="integer", text="string"))}
# The user's text, the expected call, its result, and the expected text after the result.
AGENTS = [
    [("What is the weather in Paris?", ("get_weather", {"city": "Paris"}), '{"temperature": 21, "sky": "sunny"}',
      "In Paris it is sunny with 21 degrees."),
     ("Remind me of the bread in 20 minutes.", ("set_reminder", {"minutes": 20, "text": "bread"}), "ok",
      "I will remind you of the bread in 20 minutes.")],
    [("Turn off the lamp in the kitchen.", ("switch_lamp", {"room": "kitchen", "on": False}), "done", "The lamp in the kitchen is off."),
     ("How is the weather in Oslo?", ("get_weather", {"city": "Oslo"}), '{"temperature": -3, "sky": "windy"}',
      "In Oslo it is windy with -3 degrees.")],
    [("What is 1234 + 4321?", ("calculator", {"expression": "1234 + 4321"}), "5555", "1234 + 4321 = 5555")],
]
AGENT = pytest.mark.parametrize("agent", AGENTS, ids=[agent[0][1][0] for agent in AGENTS])


@AGENT
@STREAMED
def test_an_agent_over_chat(openais, agent, stream):
    tools = [{"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
             for name, (description, parameters) in TOOLS.items()]
    messages = []

    def ask(message):
        messages.append(message)
        fields = {"model": MODEL, "messages": messages, "tools": tools, "temperature": 0, "max_tokens": TOKENS_MOST}
        if stream:
            with openais.chat.completions.stream(**fields) as opened:
                choice = opened.get_final_completion().choices[0]
        else:
            choice = openais.chat.completions.create(**fields).choices[0]
        messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed"}))
        return choice

    for asked, (name, arguments), result, said in agent:
        choice = ask({"role": "user", "content": asked})
        call, = choice.message.tool_calls
        assert (choice.finish_reason, call.function.name, json.loads(call.function.arguments)) == ("tool_calls", name, arguments)
        choice = ask({"role": "tool", "tool_call_id": call.id, "content": result})
        assert (choice.finish_reason, choice.message.content, choice.message.tool_calls or []) == ("stop", said, [])


@AGENT
@STREAMED
def test_an_agent_over_messages(anthropics, agent, stream):
    tools = [{"name": name, "description": description, "input_schema": parameters}
             for name, (description, parameters) in TOOLS.items()]
    messages = []

    def ask(content):
        messages.append({"role": "user", "content": content})
        fields = {"model": MODEL, "messages": messages, "tools": tools, "max_tokens": TOKENS_MOST, "extra_body": {"temperature": 0}}
        if stream:
            with anthropics.messages.stream(**fields) as opened:
                message = opened.get_final_message()
        else:
            message = anthropics.messages.create(**fields)
        messages.append({"role": "assistant", "content": [block.to_dict() for block in message.content]})
        return message

    for asked, (name, arguments), result, said in agent:
        message = ask(asked)
        use, = message.content
        assert (message.stop_reason, use.type, use.name, use.input) == ("tool_use", "tool_use", name, arguments)
        message = ask([{"type": "tool_result", "tool_use_id": use.id, "content": result}])
        text, = message.content
        assert (message.stop_reason, text.type, text.text) == ("end_turn", "text", said)


@STREAMED
def test_a_thought_and_a_call(anthropics, stream):
    tools = [{"name": name, "description": description, "input_schema": parameters}
             for name, (description, parameters) in list(TOOLS.items())[:2]]
    fields = {"model": MODEL, "messages": [{"role": "user", "content": "What is the weather in Rome?"}], "tools": tools,
              "max_tokens": TOKENS_MOST, "thinking": {"type": "adaptive"}, "extra_body": {"temperature": 0}}
    if stream:
        with anthropics.messages.stream(**fields) as opened:
            message = opened.get_final_message()
    else:
        message = anthropics.messages.create(**fields)
    thought, use = message.content
    assert (thought.thinking.strip(), use.name, use.input) == ("I should use get_weather.", "get_weather", {"city": "Rome"})


# --- thinking on demand --------------------------------------------------------------------------------------------------

QUESTION = "What is the capital of Kenya?"
THOUGHT = "Kenya is a country. Its capital is Nairobi."
SAID = "The capital of Kenya is Nairobi."


def test_thinking_is_on_demand(server):
    def ask(**fields):
        reply = server.chat(QUESTION, temperature=0, **fields)
        assert reply.status == 200, reply.body
        message, usage = reply.json["choices"][0]["message"], reply.json["usage"]
        return message.get("reasoning_content", ""), message["content"], usage["completion_tokens_details"]["reasoning_tokens"] > 0
    for fields in ({"enable_thinking": True}, {"chat_template_kwargs": {"enable_thinking": True}}):
        assert ask(**fields) == (THOUGHT, SAID, True)
    for fields in ({}, {"enable_thinking": False}, {"chat_template_kwargs": {"enable_thinking": False}}):
        assert ask(**fields) == ("", SAID, False)


def test_a_budget_cuts_the_thought(server, anthropics):
    """The reasoning is a prefix of the unlimited one, at most `budget` tokens long; an answer follows."""
    def ask(budget):
        body = server.chat(QUESTION, temperature=0, enable_thinking=True, thinking_budget=budget, max_tokens=TOKENS_MOST).json
        message = body["choices"][0]["message"]
        return message.get("reasoning_content", ""), message["content"], body["usage"]["completion_tokens_details"]["reasoning_tokens"]
    lengths = []
    for budget in (0, 1, 4, 8):
        reasoning, content, tokens = ask(budget)
        assert tokens == budget and THOUGHT.startswith(reasoning) and content
        lengths.append(len(reasoning))
    assert lengths[0] == 0 and lengths == sorted(set(lengths))
    assert ask(100)[:2] == (THOUGHT, SAID)
    message = anthropics.messages.create(
        model=MODEL, max_tokens=TOKENS_MOST, messages=[{"role": "user", "content": QUESTION}],
        thinking={"type": "enabled", "budget_tokens": 4}, extra_body={"temperature": 0})
    assert (message.content[0].thinking.strip(), message.content[1].text) == ask(4)[:2]
    assert message.usage.output_tokens_details.thinking_tokens == 4
