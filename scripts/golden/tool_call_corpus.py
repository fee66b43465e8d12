#!/usr/bin/env python3
"""Writes tests/golden/tool_calls: answers of models with tool calls, and the parts of each answer.

Usage: scripts/golden/tool_call_corpus.py [--out FOLDER]

The answers are written by hand. One function per format spells calls as the chat template of a family that uses the
format spells the calls of earlier turns (tests/golden/templates/source has the templates; PROVENANCE.md says which), and
the same calls are written in every format. Known mistakes of models are listed case by case in tool_call_mishaps.py. No
parser is used: the parts of an answer are known before it is written.
"""
import argparse
import json
import pathlib

from tool_call_mishaps import MISHAPS

ROOT = pathlib.Path(__file__).resolve().parents[2]


def function(name, properties, **more):
    return {"type": "function", "function": {
        "name": name, "parameters": {"type": "object", "properties": properties, **more}}}


TOOLS = [
    function("get_weather", {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]},
                             "days": {"type": "integer"}}, required=["city"]),
    function("search", {"query": {"type": "string"}, "limit": {"type": ["integer", "null"]},
                        "exact": {"type": "boolean"}, "filter": {"$ref": "#/$defs/filter"}},
             **{"$defs": {"filter": {"type": "object"}}}),
    function("clock", {}),
    function("write_file", {"path": {"type": "string"}, "content": {"type": "string"}}),
    function("add", {"a": {"type": "number"}, "b": {"anyOf": [{"type": "number"}, {"type": "string"}]}, "c": {}}),
]

PARIS = ("get_weather", {"city": "Paris", "unit": "celsius", "days": 2})
OSLO = ("get_weather", {"city": "Oslo \u2744"})
CLOCK = ("clock", {})
SEARCH = ("search", {"query": "a \"b\" \\ 'c'\nnew line\ttab \u2013 \u65e5\u672c \U0001f469\u200d\U0001f4bb", "limit": None,
                     "exact": True, "filter": {"tags": ["x", "y, z"], "score": -7.5, "deep": {"a": [[], {}, [1]]}}})
# Text that looks like a mark: marks of other formats, or of this one in a place where they are text. Harmony's marks end a
# message anywhere.
MARKS = ("write_file", {"path": "/a b/\u00fc.html", "content":
                        "\n<div class=\"a\">{x: [1, 2]}, </div>\n</tool_call> <|tool_call> [TOOL_CALLS] ```json <|end> </func"})


def dumps(value):
    return json.dumps(value, ensure_ascii=False)


def bare(value):
    return value if isinstance(value, str) else dumps(value)


def envelopes(calls, name="name", arguments="arguments", indent=""):
    return [f'{indent}{{"{name}": "{f}", "{arguments}": {dumps(a)}}}' for f, a in calls]


def hermes(calls):
    return "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in envelopes(calls))


def qwen3_coder(calls):
    return "\n".join(
        f"<tool_call>\n<function={f}>\n" + "".join(f"<parameter={k}>\n{bare(v)}\n</parameter>\n" for k, v in a.items()) +
        "</function>\n</tool_call>" for f, a in calls)


def seed_oss(calls):
    return "".join(f"<seed:tool_call>\n<function={f}>\n" +
                   "".join(f"<parameter={k}>{bare(v)}</parameter>\n" for k, v in a.items()) +
                   "</function>\n</seed:tool_call>" for f, a in calls)


def glm(calls, mark=""):
    return "".join(f"\n<{mark}tool_call>{f}\n" + "".join(
        f"<{mark}arg_key>{k}</{mark}arg_key>\n<{mark}arg_value>{bare(v)}</{mark}arg_value>\n" for k, v in a.items()) +
        f"</{mark}tool_call>" for f, a in calls).lstrip("\n")


def longcat(calls):
    return glm(calls, "longcat_")


def hunyuan(calls, word=""):
    return f"<tool_calls{word}>\n" + "".join(f"<tool_call{word}>{f}<tool_sep{word}>\n" + "".join(
        f"<arg_key{word}>{k}</arg_key{word}>\n<arg_value{word}>{bare(v)}</arg_value{word}>\n" for k, v in a.items()) +
        f"</tool_call{word}>\n" for f, a in calls) + f"</tool_calls{word}>"


def hunyuan_v3(calls):
    return hunyuan(calls, ":opensource")


def solar_open(calls):
    return "<|tool_calls|>" + "".join(f"<|tool_call:begin|>a1b2c3d4e{i}<|tool_call:name|>{f}<|tool_call:args|>{dumps(a)}<|tool_call:end|>"
                                      for i, (f, a) in enumerate(calls)) + "<|calls|>"


def apertus(calls):
    return "<|tools_prefix|>[" + ", ".join(f'{{"{f}": {dumps(a)}}}' for f, a in calls) + "]<|tools_suffix|>"


def gigachat3(calls):
    return "<|message_sep|>\n\n".join(f"function call<|role_sep|>\n{text}" for text in envelopes(calls))


def gigachat31(calls):
    return "".join(f"<|function_call|>{text}" for text in envelopes(calls))


def xlam(calls):
    return "[" + ", ".join(envelopes(calls)) + "]"


def minimax_m2(calls, mark="", outer="minimax:tool_call"):
    return f"<{outer}>\n" + "".join(
        f'<{mark}invoke name="{f}">\n' + "".join(f'<{mark}parameter name="{k}">{bare(v)}</{mark}parameter>\n'
                                                 for k, v in a.items()) + f"</{mark}invoke>\n" for f, a in calls) + f"</{outer}>"


def atem(calls):
    return minimax_m2(calls, "atem:", "atem:function_calls")


def deepseek_v32(calls):
    mark = "\uff5cDSML\uff5c"
    return f"<{mark}function_calls>\n" + "".join(
        f'<{mark}invoke name="{f}">\n' + "".join(
            f'<{mark}parameter name="{k}" string="{str(isinstance(v, str)).lower()}">{bare(v)}</{mark}parameter>\n'
            for k, v in a.items()) + f"</{mark}invoke>\n" for f, a in calls) + f"</{mark}function_calls>"


def deepseek_v4(calls):
    return deepseek_v32(calls).replace("function_calls>", "tool_calls>")


def firefunction(calls):
    return " functools[" + ", ".join(envelopes(calls)) + "]"


def deepseek(word):
    return f"<\uff5ctool\u2581{word.replace(' ', chr(0x2581))}\uff5c>"


def deepseek_v3(calls):
    return deepseek("calls begin") + "\n".join(
        f"{deepseek('call begin')}function{deepseek('sep')}{f}\n```json\n{dumps(a)}\n```{deepseek('call end')}"
        for f, a in calls) + deepseek("calls end")


def deepseek_v31(calls):
    return deepseek("calls begin") + "".join(
        f"{deepseek('call begin')}{f}{deepseek('sep')}{dumps(a)}{deepseek('call end')}" for f, a in calls) + deepseek("calls end")


def kimi_k2(calls):
    return "<|tool_calls_section_begin|>" + "".join(
        f"<|tool_call_begin|>functions.{f}:{i}<|tool_call_argument_begin|>{dumps(a)}<|tool_call_end|>"
        for i, (f, a) in enumerate(calls)) + "<|tool_calls_section_end|>"


def mistral(calls):
    return "[TOOL_CALLS] [" + ", ".join(envelopes(calls)) + "]"


def mistral_v11(calls):
    return "".join(f"[TOOL_CALLS]{f}[CALL_ID]abcDEF{i:03}[ARGS]{dumps(a)}" for i, (f, a) in enumerate(calls))


def granite(calls):
    return "<|tool_call|>[" + ", ".join(envelopes(calls)) + "]"


def nemotron(calls):
    return "<TOOLCALL>[" + ", ".join(envelopes(calls)) + "]</TOOLCALL>"


def jamba(calls):
    return "<tool_calls>[\n" + ",\n".join(envelopes(calls)) + "\n]</tool_calls>"


def internlm(calls):
    return "\n".join(f"<|action_start|><|plugin|>\n{text}<|action_end|>"
                     for text in envelopes(calls, arguments="parameters"))


def cohere(calls):
    return "<|START_ACTION|>[\n" + ",\n".join(
        f'    {{"tool_call_id": "{i}", "tool_name": "{f}", "parameters": {dumps(a)}}}'
        for i, (f, a) in enumerate(calls)) + "\n]<|END_ACTION|>"


def functionary(calls):
    return ">>>".join(f"{f}\n{dumps(a)}" for f, a in calls)


def functionary_v2(calls):
    return "\n<|from|> assistant\n<|recipient|>".join(f"{f}\n<|content|>{dumps(a)}" for f, a in calls)


def llama3(calls):
    return "; ".join(envelopes(calls, arguments="parameters"))


def python(value):
    return repr(value)


def pythonic(calls):
    return "[" + ", ".join(f"{f}(" + ", ".join(f"{k}={python(v)}" for k, v in a.items()) + ")" for f, a in calls) + "]"


def lfm2(calls):
    return f"<|tool_call_start|>{pythonic(calls)}<|tool_call_end|>"


def braces(value, quote, quoted_keys):
    if isinstance(value, str):
        return quote + value + quote
    if isinstance(value, dict):
        return "{" + ",".join((quote + k + quote if quoted_keys else k) + ":" + braces(v, quote, quoted_keys)
                              for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(braces(v, quote, quoted_keys) for v in value) + "]"
    return dumps(value)


def gemma4(calls):
    return "".join(f"<|tool_call>call:{f}" + braces(a, "<|\"|>", False) + "<tool_call|>" for f, a in calls)


def function_gemma(calls):
    return "".join(f"<start_function_call>call:{f}" + braces(a, "<escape>", False) + "<end_function_call>" for f, a in calls)


def harmony(calls):
    return "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{f} <|constrain|>json<|message|>{dumps(a)}<|call|>" for f, a in calls)


# Format: how it spells calls, and whether text may precede and follow them.
SPELLINGS = {
    "hermes": (hermes, "both"), "qwen3_coder": (qwen3_coder, "both"), "seed_oss": (seed_oss, "both"),
    "glm": (glm, "both"), "longcat": (longcat, "both"), "minimax_m2": (minimax_m2, "both"), "atem": (atem, "both"),
    "hunyuan": (hunyuan, "both"), "hunyuan_v3": (hunyuan_v3, "both"), "solar_open": (solar_open, "both"), "apertus": (apertus, "both"),
    "gigachat3": (gigachat3, "both"), "gigachat31": (gigachat31, "both"), "xlam": (xlam, "behind"),
    "deepseek_v32": (deepseek_v32, "both"), "deepseek_v4": (deepseek_v4, "both"), "firefunction": (firefunction, "none"), "deepseek_v3": (deepseek_v3, "both"), "deepseek_v31": (deepseek_v31, "both"),
    "kimi_k2": (kimi_k2, "both"), "mistral": (mistral, "both"), "mistral_v11": (mistral_v11, "both"),
    "granite": (granite, "both"), "nemotron": (nemotron, "both"), "jamba": (jamba, "both"), "internlm": (internlm, "both"),
    "cohere": (cohere, "both"), "functionary": (functionary, "none"), "functionary_v2": (functionary_v2, "none"),
    "llama3": (llama3, "behind"), "pythonic": (pythonic, "behind"), "lfm2": (lfm2, "both"), "gemma4": (gemma4, "both"),
    "function_gemma": (function_gemma, "both"), "harmony": (harmony, "none"),
}


def identity(format_name, index, name):
    return {"kimi_k2": f"functions.{name}:{index}", "mistral_v11": f"abcDEF{index:03}", "solar_open": f"a1b2c3d4e{index}", "cohere": str(index)}.get(format_name)


def expected(format_name, calls):
    return [{"name": f, "arguments": a, **({"id": i} if (i := identity(format_name, n, f)) else {})}
            for n, (f, a) in enumerate(calls)]


def spelled(format_name):
    spell, text = SPELLINGS[format_name]

    def case(name, calls, before="", behind="", content=""):
        return {"name": name, "text": before + spell(calls) + behind, "content": content, "calls": expected(format_name, calls)}
    cases = [case("one", [PARIS]), case("no_arguments", [CLOCK]), case("several", [PARIS, CLOCK, OSLO]),
             case("nested", [SEARCH]), case("marks_in_strings", [MARKS])]
    if text == "both":
        cases += [case("text_before", [PARIS], "Let me see \u2026\n\n", "\n", "Let me see \u2026"),
                  case("blanks_around", [OSLO, CLOCK], "\n\n", " \n"),
                  case("text_around", [OSLO], "Let me see:  ", "\nDone. ", "Let me see:  \nDone. ")]
    if text != "none":
        cases += [case("text_behind", [OSLO], "", "\n\nDone.", "Done.")]
    plain = "Nothing < to [do] here, {\"a\": [1]}; f(x) >= <b>3</b>\n"
    return cases + [{"name": "no_call", "text": plain, "content": plain, "calls": []},
                    {"name": "empty", "text": "", "content": "", "calls": []}]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/golden/tool_calls")
    out = options.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    def write(name, data):
        (out / f"{name}.json").write_text(json.dumps(data, ensure_ascii=False, indent=1, separators=(",", ":")) + "\n")
    write("tools", TOOLS)
    assert set(MISHAPS) <= set(SPELLINGS)
    for name in SPELLINGS:
        write(f"format_{name}", spelled(name) + MISHAPS.get(name, []))


if __name__ == "__main__":
    main()
