"""Calls in every format of reply/tool_format: drawn token by token under the grammar, read by the reply parser, validated by jsonschema_rs.

build/tests/grammar/tool_call_probe draws, with the demo model's vocabulary and with one in which the formats' marks are special tokens.
"""

import contextlib
import json
import random
import re
import shutil
import subprocess

import jsonschema_rs
import pytest

import demo_model
import schema_draws
from shoal_server import BUILD, ROOT

MARKS = """<|tool_call> <tool_call|> <|"|> <start_function_call> <end_function_call> <escape> <|channel|> <|message|> <|start|> <|end|>
    <|constrain|> <|call|> <|START_ACTION|> <|END_ACTION|> <|tool_calls|> <|tool_call:begin|> <|tool_call:name|> <|tool_call:args|>
    <|tool_call:end|> <|calls|> <|tools_prefix|> <|tools_suffix|> <|function_call|> <|message_sep|> <|role_sep|> <minimax:tool_call>
    </minimax:tool_call> <seed:tool_call> </seed:tool_call> <longcat_tool_call> </longcat_tool_call> <tool_calls> </tool_calls> <arg_key>
    </arg_key> <arg_value> </arg_value> <tool_sep> ｜DSML｜ <｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <｜tool▁sep｜> <｜tool▁call▁end｜>
    <｜tool▁calls▁end｜> <|tool_calls_section_begin|> <|tool_call_begin|> <|tool_call_argument_begin|> <|tool_call_end|>
    <|tool_calls_section_end|> [TOOL_CALLS] [ARGS] <|from|> <|recipient|> <|content|> <|tool_call|> <TOOLCALL> </TOOLCALL> <|action_start|>
    <|plugin|> <|action_end|> <|tool_call_start|> <|python_start|> <|python_end|> <|python_tag|>""".split()
FORMATS = re.findall(r'^    \{\.name = "(\w+)"', (ROOT / "frontend/reply/tool_format.c").read_text(encoding="utf-8"), re.MULTILINE)
# Every format enforces this schema as a whole.
SCHEMA = {"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 6}, "kind": {"type": "string", "enum": ["a b", "c\"d", ""]}, "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
    "days": {"type": "integer", "minimum": 1, "maximum": 30}, "exact": {"type": "boolean"}, "none": {"type": "null"},
    "sizes": {"type": "array", "items": {"type": "number", "minimum": -2, "maximum": 2}, "minItems": 1, "maxItems": 3},
    "deep": {"type": "object", "properties": {"x": {"type": "string", "maxLength": 3}, "y": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]}},
             "required": ["y"], "additionalProperties": False}},
    "required": ["city", "days", "sizes"], "additionalProperties": False, "$defs": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The demo model's files, and the same with marks as special tokens."""
    marked = tmp_path_factory.mktemp("marked")
    for file in demo_model.FOLDER.iterdir():
        if file.suffix in (".json", ".jinja", ".safetensors"):
            shutil.copy(file, marked / file.name)
    tokenizer = json.loads((marked / "tokenizer.json").read_text(encoding="utf-8"))
    known = {token["content"] for token in tokenizer["added_tokens"]} | set(tokenizer["model"]["vocab"])
    first = len(tokenizer["model"]["vocab"]) + len([1 for token in tokenizer["added_tokens"] if token["content"] not in tokenizer["model"]["vocab"]])
    first = max(first, 1 + max(token["id"] for token in tokenizer["added_tokens"]))
    for number, mark in enumerate(mark for mark in MARKS if mark not in known):
        tokenizer["added_tokens"].append({"id": first + number, "content": mark, "single_word": False, "lstrip": False, "rstrip": False,
                                          "normalized": False, "special": True})
    (marked / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return {"plain": demo_model.FOLDER, "marked": marked}


@pytest.fixture(scope="module")
def probe():
    with subprocess.Popen([BUILD / "tests/grammar/tool_call_probe"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          encoding="utf-8") as process:
        def draw(**line):
            process.stdin.write(json.dumps({"answers": 3, "tokens": 600, "seed": 1, **line}, ensure_ascii=False) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())
        yield draw
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def tools_of(schemas):
    return [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in schemas.items()]


def check(answer, schemas, loose, least, most):
    """The number of valid calls; of loose tools only the JSON is looked at."""
    calls = answer["calls"]
    assert least <= len(calls) <= most, answer
    if least and "<|message|>" not in answer["text"]:  # harmony may have messages before
        assert not answer["content"].strip(), answer
    for call in calls:
        assert call["name"] in schemas, answer
        arguments = json.loads(call["arguments"])
        assert isinstance(arguments, dict), answer
        if call["name"] not in loose:
            errors = [error.message for error in jsonschema_rs.validator_for(schemas[call["name"]], validate_formats=True).iter_errors(arguments)]
            assert not errors, (errors, answer, schemas[call["name"]])
    return len(calls)


# Without special tokens random draws hardly ever end a message of harmony; its only vocabulary has them.
CASES = [(name, "marked") for name in FORMATS] + [pytest.param(name, "plain", marks=pytest.mark.long) for name in FORMATS if name != "harmony"]


@pytest.mark.parametrize("name, vocabulary", CASES)
def test_calls_are_valid(probe, folders, name, vocabulary):
    both = {"f": SCHEMA, "g": {**SCHEMA, "required": []}}
    ended = calls = 0
    for fields, least, most in [({"choice": "required", "single": True}, 1, 1), ({"choice": "required"}, 1, 128), ({"choice": "auto"}, 0, 128),
                                ({"choice": "named", "name": "g"}, 1, 1)]:
        told = probe(folder=str(folders[vocabulary]), format=name, tools=tools_of(both), strict=["f", "g"], **fields)
        assert "error" not in told, told
        assert told["loose"] == ""
        names = {"g": both["g"]} if fields["choice"] == "named" else both
        for answer in told["answers"]:
            if answer["ended"]:
                ended += 1
                calls += check(answer, names, [], least, most)
    assert calls > 2 and ended > 5, (ended, calls)


@pytest.mark.long
@pytest.mark.parametrize("name", FORMATS)
def test_drawn_schemas(probe, folders, name):
    rng = random.Random(f"drawn {name}")
    for number in range(3):
        schemas = {"f": schema_draws.draw_object(rng, 2, ()), "g": schema_draws.draw_object(rng, 1, ())}
        told = probe(folder=str(folders["marked"]), format=name, tools=tools_of(schemas), choice="required", single=True, seed=number)
        if "error" in told:
            assert "cannot be enforced" in told["error"]
            continue
        for answer in told["answers"]:
            if answer["ended"]:
                check(answer, schemas, told["loose"].split(", "), 1, 1)
