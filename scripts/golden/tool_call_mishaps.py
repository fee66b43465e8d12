"""Answers that scripts/golden/tool_call_corpus.py adds format by format: variants that models write, and mistakes.

A case states the parts of the answer. `truncated`: the length limit cut the answer; `open`: the argument text of the last
call if it was cut; `reasoning`: for harmony.
"""


def case(name, text, calls=(), content="", **more):
    return {"name": name, "text": text, "content": content, "calls": list(calls), **more}


def call(name, identity=None, **arguments):
    return {"name": name, "arguments": arguments, **({"id": identity} if identity else {})}


def text_only(name, text, **more):
    return case(name, text, content=text, **more)


def broken(name, text, announced, **more):
    return case(name, text, [announced], content=text, **more)


PARIS = call("get_weather", city="Paris")
H = '<tool_call>\n{"name": "get_weather", "arguments": '
D = "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>"
SEP = "<\uff5ctool\u2581sep\uff5c>"

MISHAPS = {
    "hermes": [
        case("arguments_first", '<tool_call>{"arguments": {"city": "Paris"}, "name": "get_weather"}</tool_call>', [PARIS]),
        case("identity", '<tool_call>{"id": "c1", "type": "function", "name": "clock", "arguments": {}}</tool_call>',
             [call("clock", "c1")]),
        case("identity_late", '<tool_call>{"name": "clock", "arguments": {}, "id": "c1"}</tool_call>', [call("clock")]),
        case("wrapped", '<tool_call>{"type": "function", "function": {"name": "get_weather", "parameters": {"city": "Paris"}}}</tool_call>',
             [PARIS]),
        case("arguments_as_text", '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}</tool_call>', [PARIS]),
        case("arguments_null", '<tool_call>{"name": "clock", "arguments": null}</tool_call>', [call("clock")]),
        case("arguments_missing", '<tool_call>{"name": "clock"}</tool_call>', [call("clock")]),
        case("more_members", '<tool_call>{"thought": ["I {should}", 1.5e3, null], "name": "clock", "arguments": {}, "x": -0}</tool_call>',
             [call("clock")]),
        case("list", '<tool_call>[{"name": "clock", "arguments": {}}, {"name": "clock", "arguments": {}}]</tool_call>',
             [call("clock"), call("clock")]),
        case("two_in_block", '<tool_call>\n{"name": "clock", "arguments": {}}\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
             [call("clock"), PARIS]),
        case("brace_missing", H + '{"city": "Paris"}\n</tool_call>', [PARIS]),
        case("closing_missing", H + '{"city": "Paris"}}', [PARIS]),
        case("closing_cut", H + '{"city": "Paris"}}\n</tool_c', [PARIS], truncated=True),
        case("unknown_tool", '<tool_call>{"name": "no_such", "arguments": {"a": [1, "b"]}}</tool_call>', [call("no_such", a=[1, "b"])]),
        case("line_break_in_string", H + '{"city": "New\nYork\t"}}</tool_call>', [call("get_weather", city="New\nYork\t")]),
        case("unescaped_backslash", H + '{"city": "C:\\dir \\u12 \\"q\\" \\\\"}}</tool_call>',
             [call("get_weather", city='C:\\dir \\u12 "q" \\')]),
        case("surrogates", H + '{"city": "\\ud83d\\ude00 \\ud83d \\ude00 \\ud83d\\n\\ud83d\\ud83d\\ude00"}}</tool_call>',
             [call("get_weather", city="\U0001f600 \ufffd \ufffd \ufffd\n\ufffd\U0001f600")]),
        case("xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>", [PARIS]),
        text_only("no_json", "<tool_call>get_weather(Paris)</tool_call>"),
        text_only("no_name", '<tool_call>{"arguments": {"city": "Paris"}}</tool_call>'),
        text_only("name_no_text", '<tool_call>{"name": 5, "arguments": {}}</tool_call>'),
        text_only("arguments_no_object", '<tool_call>{"name": "clock", "arguments": [1, 2]}</tool_call>'),
        text_only("arguments_text_no_object", '<tool_call>{"name": "clock", "arguments": "now"}</tool_call>'),
        text_only("mark_alone", "I could write <tool_call> here, or </tool_call>."),
        case("mark_twice", '<tool_call><tool_call>{"name": "clock", "arguments": {}}</tool_call>', [call("clock")], "<tool_call>"),
        broken("broken_later", H + '{"city": "Par" oops}}\n</tool_call>', call("get_weather", city="Par")),
        broken("broken_in_key", H + '{"city": "Paris", "un\n', call("get_weather", city="Paris", **{"un\n": None})),
        broken("broken_in_number", H + '{"days": -}}</tool_call>', call("get_weather", days=0)),
        broken("broken_in_word", H + '{"days": tru, "city": 1}}</tool_call>', call("get_weather", days=True)),
        broken("broken_after_comma", H + '{"city": "Paris", }}</tool_call>', PARIS),
        broken("broken_in_list", H + '{"city": ["a", {"b": [1, }', call("get_weather", city=["a", {"b": [1]}])),
        case("broken_then_good", '<tool_call>{"name": "clock", "arguments": {"a" 1}}</tool_call>\n<tool_call>{"name": "clock", "arguments": {}}</tool_call>',
             [call("clock", a=None), call("clock")], '<tool_call>{"name": "clock", "arguments": {"a" 1}}</tool_call>'),
        broken("stopped", H + '{"city": "Par', call("get_weather", city="Par")),
        case("cut", H + '{"city": "Par', [], truncated=True, open={"name": "get_weather", "text": '{"city": "Par'}),
        case("cut_after_comma", H + '{"city": "Par", ', [], truncated=True, open={"name": "get_weather", "text": '{"city": "Par"'}),
        case("cut_in_second", '<tool_call>{"name": "clock", "arguments": {}}</tool_call>\n' + H + "{", [call("clock")],
             truncated=True, open={"name": "get_weather", "text": "{"}),
        text_only("cut_before_arguments", '<tool_call>\n{"name": "get_wea', truncated=True),
        text_only("cut_in_mark", "Well <tool_ca", truncated=True),
        broken("deep", H + '{"a": ' + "[" * 70, {"name": "get_weather", "arguments": {"a": eval("[" * 63 + "]" * 63)}}),
    ],
    "qwen3_coder": [
        case("types", "<tool_call>\n<function=add>\n<parameter=a>\n 5.50 \n</parameter>\n<parameter=b>\nfive\n</parameter>\n"
             "<parameter=c>\n{\"x\": 1}\n</parameter>\n</function>\n</tool_call>", [call("add", a=5.5, b="five", c={"x": 1})]),
        case("types_of_text", "<tool_call>\n<function=get_weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\nsoon\n</parameter>\n"
             "</function>\n</tool_call>", [call("get_weather", city="12", days="soon")]),
        case("python_words", "<tool_call><function=search><parameter=query>True</parameter><parameter=exact>False</parameter>"
             "<parameter=limit>None</parameter><parameter=filter>{'tags': ['a', \"b\"], 'on': True}</parameter></function></tool_call>",
             [call("search", query="True", exact=False, limit=None, filter={"tags": ["a", "b"], "on": True})]),
        case("unknown_tool", "<tool_call>\n<function=no_such>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\ntext\n</parameter>\n</function>\n</tool_call>",
             [call("no_such", a=1, b="text")]),
        case("without_tool_call", "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>", [PARIS]),
        case("parameter_end_missing", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n<parameter=days>\n3\n</function>\n</tool_call>",
             [call("get_weather", city="Paris", days=3)]),
        case("function_end_missing", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</tool_call>", [PARIS]),
        case("ends_after_value", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n", [PARIS]),
        case("blank_lines", "<tool_call>\n<function=get_weather>\n<parameter=city>\n\nParis\n\n\n</parameter>\n</function>\n</tool_call>",
             [call("get_weather", city="\nParis\n\n")]),
        case("empty_value", "<tool_call>\n<function=get_weather>\n<parameter=city>\n</parameter>\n</function>\n</tool_call>",
             [call("get_weather", city="")]),
        case("two_functions", "<tool_call>\n<function=clock>\n</function>\n<function=clock>\n</function>\n</tool_call>",
             [call("clock"), call("clock")]),
        case("json", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>', [PARIS]),
        text_only("no_function", "<tool_call>\n<func=get_weather>\n</tool_call>"),
        broken("text_between", "<tool_call>\n<function=get_weather>\nParis\n</function>\n</tool_call>", call("get_weather")),
        broken("stopped", "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar", call("get_weather", city="Par")),
        broken("stopped_in_number", "<tool_call>\n<function=get_weather>\n<parameter=days>\n3", call("get_weather", days=None)),
        case("cut", "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar\n", [], truncated=True,
             open={"name": "get_weather", "text": '{"city":"Par'}),
        case("cut_after_value", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n", [], truncated=True,
             open={"name": "get_weather", "text": '{"city":"Paris"'}),
    ],
    "glm": [
        case("no_line_breaks", "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>days</arg_key>"
             "<arg_value>3</arg_value></tool_call><tool_call>clock</tool_call>", [call("get_weather", city="Paris", days=3), call("clock")]),
        case("json", '<tool_call>{"name": "clock", "arguments": {}}</tool_call>', [call("clock")]),
        broken("text_between", "<tool_call>get_weather\ncity: Paris</tool_call>", call("get_weather")),
        broken("stopped", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Par", call("get_weather", city="Par")),
        case("cut", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Par", [], truncated=True,
             open={"name": "get_weather", "text": '{"city":"Par'}),
    ],
    "minimax_m2": [
        case("types", '<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">1</parameter>\n<parameter name="b">2</parameter>\n</invoke>\n</minimax:tool_call>',
             [call("add", a=1, b=2)]),
        broken("text_between", '<minimax:tool_call>\n<invoke name="add">\n1 + 2</invoke>', call("add")),
        text_only("no_invoke", "<minimax:tool_call>\nadd(1, 2)\n</minimax:tool_call>"),
    ],
    "deepseek_v3": [
        case("only_call_marks", f"<\uff5ctool\u2581call\u2581begin\uff5c>function{SEP}clock\n```json\n{{}}\n```<\uff5ctool\u2581call\u2581end\uff5c>", [call("clock")]),
        case("newer_form", f'{D}get_weather{SEP}{{"city": "Paris"}}', [PARIS]),
        text_only("no_object", f"{D}function{SEP}clock\nnow"),
        broken("broken_later", f'{D}function{SEP}get_weather\n```json\n{{"city": Paris}}\n```', call("get_weather", city=None)),
        case("cut", f'{D}function{SEP}get_weather\n```json\n{{"city": "Pa', [], truncated=True, open={"name": "get_weather", "text": '{"city": "Pa'}),
    ],
    "hunyuan_v3": [
        case("bare_tags", "<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
             "</tool_call>\n</tool_calls>", [PARIS]),
        case("alone", "<tool_call:opensource>clock<tool_sep:opensource>\n</tool_call:opensource>", [call("clock")]),
    ],
    "solar_open": [
        case("no_id", '<|tool_calls|><|tool_call:begin|><|tool_call:name|>get_weather<|tool_call:args|>{"city": "Paris"}<|tool_call:end|>',
             [PARIS]),
        text_only("no_arguments_mark", "<|tool_call:begin|>x<|tool_call:name|>get_weather"),
    ],
    "apertus": [
        case("line_breaks", '<|tools_prefix|>[\n{"get_weather": {"city": "Paris"}},\n{"clock": {}}\n]<|tools_suffix|>', [PARIS, call("clock")]),
        text_only("no_call", '<|tools_prefix|>[]<|tools_suffix|>'),
    ],
    "gigachat3": [
        case("message_before", 'Let me see.<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "get_weather", "arguments": {"city": "Paris"}}',
             [PARIS], content="Let me see."),
        case("separator_behind", 'function call<|role_sep|>\n{"name": "clock", "arguments": {}}<|message_sep|>', [call("clock")]),
        text_only("words", "A function call is a call of a function: f(x)."),
    ],
    "xlam": [
        case("fence", '```json\n[{"name": "get_weather", "arguments": {"city": "Paris"}}]\n```', [PARIS]),
        case("mistrals_mark", '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}]', [PARIS]),
        case("qwens_mark", '<tool_call>\n[{"name": "get_weather", "arguments": {"city": "Paris"}}]\n</tool_call>', [PARIS]),
        text_only("a_list_of_others", '[{"name": "no_such", "arguments": {}}]'),
    ],
    "kimi_k2": [
        case("no_section", '<|tool_call_begin|>functions.get_weather:7<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|>',
             [call("get_weather", "functions.get_weather:7", city="Paris")]),
        case("plain_identity", "<|tool_calls_section_begin|><|tool_call_begin|>clock<|tool_call_argument_begin|>{}<|tool_call_end|>",
             [call("clock", "clock")]),
        case("dotted_name", "<|tool_call_begin|>functions.ns.clock:10 <|tool_call_argument_begin|> {} <|tool_call_end|>",
             [call("ns.clock", "functions.ns.clock:10")]),
        text_only("no_arguments_mark", "<|tool_calls_section_begin|><|tool_call_begin|>functions.clock:0{}"),
        broken("broken_later", '<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1 2}', call("add", "functions.add:0", a=1)),
        case("cut", '<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1', [], truncated=True,
             open={"name": "add", "id": "functions.add:0", "text": '{"a": 1'}),
    ],
    "mistral": [
        case("identities", '[TOOL_CALLS][{"name": "clock", "arguments": {}, "id": "123456789"}]', [call("clock")]),
        case("identity_first", '[TOOL_CALLS][{"id": "123456789", "name": "clock", "arguments": {}}]', [call("clock", "123456789")]),
        case("one_object", '[TOOL_CALLS] {"name": "clock", "arguments": {}}', [call("clock")]),
        case("name_object", '[TOOL_CALLS]get_weather{"city": "Paris"}[TOOL_CALLS]clock{}', [PARIS, call("clock")]),
        case("list_unclosed", '[TOOL_CALLS] [{"name": "clock", "arguments": {}}', [call("clock")]),
        case("second_broken", '[TOOL_CALLS] [{"name": "clock", "arguments": {}}, {"name": "clock", "arguments": {"a"}}]',
             [call("clock"), call("clock", a=None)], ', {"name": "clock", "arguments": {"a"}}]'),
        case("text_in_list", '[TOOL_CALLS] [{"name": "clock", "arguments": {}}, now]', [call("clock")], ", now]"),
        text_only("text", "[TOOL_CALLS] none needed"),
    ],
    "mistral_v11": [
        case("no_identity", '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}', [PARIS]),
        broken("broken_later", '[TOOL_CALLS]get_weather[ARGS]{"city": Paris}', call("get_weather", city=None)),
        text_only("no_object", "[TOOL_CALLS]get_weather[ARGS]Paris"),
        case("cut", '[TOOL_CALLS]get_weather[ARGS]{"city": "Pa', [], truncated=True, open={"name": "get_weather", "text": '{"city": "Pa'}),
    ],
    "granite": [
        case("xml_mark", '<tool_call>[{"name": "clock", "arguments": {}}]', [call("clock")]),
        case("phi_end", '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]<|/tool_call|>', [PARIS]),
        case("empty_list", "<|tool_call|>[]", [], "<|tool_call|>[]"),
    ],
    "cohere": [
        text_only("no_list", "<|START_ACTION|>clock<|END_ACTION|>"),
        case("number_as_identity", '<|START_ACTION|>[{"tool_call_id": 0, "tool_name": "clock", "parameters": {}}]<|END_ACTION|>', [call("clock")]),
    ],
    "jamba": [case("lines", '<tool_calls>\n{"name": "clock", "arguments": {}}\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_calls>',
                   [call("clock"), PARIS])],
    "functionary": [
        case("text_first", 'all\nLet me see.>>>get_weather\n{"city": "Paris"}', [PARIS], "Let me see."),
        case("text_only", "all\nHello.", [], "Hello."),
        case("xml", '<function=get_weather>{"city": "Paris"}</function>', [PARIS]),
        text_only("unknown_tool", "no_such\n{}"),
        text_only("one_word", "clock"),
    ],
    "functionary_v2": [
        case("text_first", 'all\n<|content|>Let me see.\n<|from|> assistant\n<|recipient|> get_weather\n<|content|> {"city": "Paris"}', [PARIS], "Let me see."),
    ],
    "llama3": [
        case("python_tag", '<|python_tag|>{"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}}', [PARIS]),
        case("python_tag_text", 'Sure.\n<|python_tag|>{"name": "clock", "parameters": {}}', [call("clock")], "Sure."),
        case("function_tag", '<function=get_weather>{"city": "Paris"}</function>', [PARIS]),
        case("type_first", ' {"type": "function", "name": "clock", "parameters": {}}', [call("clock")]),
        text_only("unknown_tool", '{"name": "Bob", "parameters": {"age": 3}}'),
        text_only("json_answer", '{"answer": 42, "name": "clock", "parameters": {}}'),
        text_only("code", "<|python_tag|>print(1)"),
        text_only("not_at_start", 'It is {"name": "clock", "parameters": {}}'),
        broken("broken_later", '{"name": "get_weather", "parameters": {"city": Paris}}', call("get_weather", city=None)),
        case("cut", '{"name": "get_weather", "parameters": {"city": "Pa', [], truncated=True, open={"name": "get_weather", "text": '{"city": "Pa'}),
    ],
    "pythonic": [
        case("quotes", "[write_file(path='a\\'b', content=\"\"\"two\n\"lines\" \\\\ \\x41\\u00e9\\U0001f600\\ud83d\\q\"\"\")]",
             [call("write_file", path="a'b", content="two\n\"lines\" \\ A\u00e9\U0001f600\ufffd\\q")]),
        case("numbers", "[add(a=+1, b=-.5, c=[5., 1e3, (1, 2), {}, '', None],)]", [call("add", a=1, b=-0.5, c=[5.0, 1000.0, [1, 2], {}, "", None])]),
        case("json_words", "[search(query=\"x\", exact=true, limit=null)]", [call("search", query="x", exact=True, limit=None)]),
        case("marked", "Now: <|python_start|>[clock()]<|python_end|>", [call("clock")], "Now:"),
        case("envelope", '{"name": "clock", "parameters": {}}', [call("clock")]),
        text_only("unknown_tool", "[no_such(a=1)]"),
        text_only("link", "[see](here) or [1, 2]"),
        broken("positional", "[get_weather('Paris')]", call("get_weather")),
        broken("expression", "[add(a=1 + 2)]", call("add", a=1)),
        broken("stopped", "[get_weather(city='Pa", call("get_weather", city="Pa")),
        case("cut", "[get_weather(city='Pa\\", [], truncated=True, open={"name": "get_weather", "text": '{"city":"Pa'}),
    ],
    "lfm2": [
        case("envelopes", '<|tool_call_start|>[{"name": "clock", "arguments": {}}]<|tool_call_end|>', [call("clock")]),
        text_only("no_call", "<|tool_call_start|>clock<|tool_call_end|>"),
    ],
    "gemma4": [
        case("quoted_keys", '<|tool_call>call:search{filter:{<|"|>a b<|"|>:<|"|>c<|"|>},query:<|"|>q<|"|>}<tool_call|>',
             [call("search", filter={"a b": "c"}, query="q")]),
        case("bare_words", "<|tool_call>call:get_weather{city:New York,days:3,unit:celsius}<tool_call|>",
             [call("get_weather", city="New York", days=3, unit="celsius")]),
        case("response_mark", "<|tool_call>call:clock{}<tool_call|><|tool_response>", [call("clock")]),
        case("plain_quotes", '<|tool_call>call:get_weather{"city": "Paris, France"}<tool_call|>', [call("get_weather", city="Paris, France")]),
        text_only("no_call", "<|tool_call>get_weather{}<tool_call|>"),
        broken("stopped", '<|tool_call>call:get_weather{city:<|"|>Pa<|', call("get_weather", city="Pa")),
        broken("broken_later", "<|tool_call>call:add{a:1 {b}}", call("add", a=1)),
        case("cut", '<|tool_call>call:get_weather{city:<|"|>Pa<', [], truncated=True, open={"name": "get_weather", "text": '{"city":"Pa'}),
    ],
    "harmony": [
        case("reasoning", "<|channel|>analysis<|message|>Hm, a <b>.<|end|><|start|>assistant<|channel|>final<|message|>Hi \u2026<|return|>",
             content="Hi \u2026", reasoning="Hm, a <b>."),
        case("preamble", "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
             "<|start|>assistant<|channel|>analysis<|message|>Two.<|end|>"
             "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Paris\"}<|call|>",
             [PARIS], "I look.", reasoning="One.\nTwo."),
        case("recipient_first", " to=functions.clock<|channel|>commentary<|message|>{}<|call|>", [call("clock")]),
        case("recipient_in_role", "<|channel|>analysis<|message|>x<|end|><|start|>assistant to=functions.clock<|channel|>analysis code<|message|>{}<|call|>",
             [call("clock")], reasoning="x"),
        case("no_prefix", '<|channel|>commentary to=get_weather<|message|>{"city": "Paris"}', [PARIS]),
        case("empty_body", "<|channel|>commentary to=functions.clock<|message|><|call|>", [call("clock")]),
        case("end_missing", "<|channel|>analysis<|message|>x<|channel|>final<|message|>y<|start|>assistant<|channel|>final<|message|>z",
             content="y\nz", reasoning="x"),
        case("plain", "Hello, to you.", content="Hello, to you."),
        case("answer_opened", "ta da<|return|>", content="ta da"),
        case("constrain_in_text", "<|channel|>final<|message|>a <|constrain|> b <|message|> c < d <|en<|end|>", content="a <|constrain|> b <|message|> c < d <|en"),
        case("not_a_header", "<|start|>assistant<|end|><|channel|>final<|message|>x", content="assistant\nx"),
        case("text_behind_call", "<|channel|>commentary to=functions.clock<|message|>{} done<|call|>", [call("clock")], "done"),
        broken("broken_later", '<|channel|>commentary to=functions.get_weather<|message|>{"city": Paris}', call("get_weather", city=None)),
        case("no_object", "<|channel|>commentary to=functions.clock<|message|>now<|call|>", content="<|channel|>commentary to=functions.clock<|message|>now"),
        case("stopped", '<|channel|>commentary to=functions.add<|message|>{"a": 1<|call|>', [call("add", a=1)],
             '<|channel|>commentary to=functions.add<|message|>{"a": 1'),
        case("cut", '<|channel|>commentary to=functions.get_weather<|message|>{"city": "Pa', [], truncated=True,
             open={"name": "get_weather", "text": '{"city": "Pa'}),
        case("cut_header", "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|chan", reasoning="x", truncated=True),
        text_only("cut_call_header", "<|channel|>commentary to=functions.clo", truncated=True),
    ],
}
