"""Anthropic's tools whose schema the server supplies (bash, text editor, memory, computer) and documents of plain text, by the official
client."""

import anthropic
import pytest
from shoal_server import MODEL_ID

TOOLS = [
    {"type": "bash_20250124", "name": "bash"},
    {"type": "text_editor_20250124", "name": "str_replace_editor"},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 5000},
    {"type": "memory_20250818", "name": "memory"},
    {"type": "computer_20250124", "name": "computer", "display_width_px": 1024, "display_height_px": 768, "display_number": 1},
]
COMMANDS = {"str_replace_editor": {"view", "create", "str_replace", "insert", "undo_edit"},
            "str_replace_based_edit_tool": {"view", "create", "str_replace", "insert"},
            "memory": {"view", "create", "str_replace", "insert", "delete", "rename"}}


@pytest.fixture(scope="module")
def client(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)


def ask(client, content, **fields):
    return client.beta.messages.create(model=MODEL_ID, max_tokens=60, extra_body={"temperature": 0},
                                       messages=[{"role": "user", "content": content}], **fields)


@pytest.mark.parametrize("tool", [TOOLS[0], TOOLS[3]], ids=lambda tool: tool["type"])
def test_calls_have_the_inputs_that_clients_implement(client, tool):
    answer = ask(client, "List the files of /tmp.", tools=[{**tool, "strict": True}], tool_choice={"type": "tool", "name": tool["name"]})
    call = next(block for block in answer.content if block.type == "tool_use")
    assert call.name == tool["name"]
    if answer.stop_reason != "tool_use":
        return
    if tool["name"] == "bash":
        assert set(call.input) <= {"command", "restart"}
    else:
        assert call.input["command"] in COMMANDS[tool["name"]]


def test_the_model_is_told_of_them(client):
    messages = [{"role": "user", "content": "Hi"}]
    count = lambda tools: client.messages.count_tokens(model=MODEL_ID, messages=messages, tools=tools).input_tokens  # noqa: E731
    alone = [count([tool]) for tool in TOOLS]
    assert min(alone) > count([{"name": "f", "input_schema": {"type": "object"}}])
    assert count(TOOLS) > max(alone) and count([{**TOOLS[4], "display_width_px": 1280}]) == alone[4]


@pytest.mark.parametrize("tool,place", [
    ({"type": "bash_20250124", "name": "shell"}, "tools[0].name"),
    ({"type": "bash_20250124"}, "tools[0].name"),
    ({"type": "bash_29990101", "name": "bash"}, "tools[0].type"),
    ({"type": "web_search_20250305", "name": "web_search"}, "tools[0].type"),
    ({"type": "computer_20250124", "name": "computer", "display_width_px": 9}, "tools[0].display_height_px"),
    ({"type": "computer_20250124", "name": "computer", "display_width_px": 0, "display_height_px": 9}, "tools[0].display_width_px"),
    ({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": "many"}, "tools[0].max_characters"),
])
def test_a_wrong_tool_is_named(client, tool, place):
    with pytest.raises(anthropic.BadRequestError) as refused:
        ask(client, "Hi", tools=[tool])
    assert place.split(".", 1)[1] in refused.value.message and place.split(".")[0] in refused.value.message


def document(**fields):
    return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "The code is 5521."}, **fields}


def test_documents_of_text_are_part_of_the_prompt(client):
    count = lambda content: client.messages.count_tokens(  # noqa: E731
        model=MODEL_ID, messages=[{"role": "user", "content": content}]).input_tokens
    question = {"type": "text", "text": "What is the code?"}
    parts = [document(title="Codes", context="A list."), question]
    assert count(parts) == count("Codes\nA list.\nThe code is 5521.\nWhat is the code?")


@pytest.mark.parametrize("block", [
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
    {"type": "document", "source": {"type": "text", "media_type": "text/html", "data": "x"}},
    {"type": "document", "source": {"type": "text"}},
    {"type": "document"},
    document(title=3),
    document(citations={"enabled": True}),
])
def test_other_documents_are_refused(client, block):
    with pytest.raises(anthropic.BadRequestError) as refused:
        ask(client, [block])
    assert "messages[0].content[0]" in refused.value.message
