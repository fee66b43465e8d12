"""Draws JSON schemas, and chat requests whose answers must obey one, from a random.Random; says whether an answer does.

The validator is jsonschema_rs with formats asserted. A schema that the server refuses with 400 `grammar_refused` is no failure: it says so.
"""

import json

import jsonschema_rs

FORMATS = ["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"]
PATTERNS = ["^[a-z]{2,5}$", "^(red|green|blue)$", "^[A-Z][a-z]*-[0-9]{1,3}$", "^\\d{3}$", "^x?y+z{0,2}$", "^[^a-m]{1,4}$", "^(a|bb)(c|d)?$"]
NAMES = ["name", "a", "b", "id", "na me", "size", "color", "x-y", "größe", "items", "note", "\"q\""]
WORDS = ["red", "blue", "", "a b", "\"", "é", "\\", "0", "null", "line\nbreak"]


def draw_string(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return {"type": "string", "format": rng.choice(FORMATS)}
    if kind == 1:
        return {"type": "string", "pattern": rng.choice(PATTERNS)}
    if kind == 2:
        return {"type": "string", "enum": rng.sample(WORDS, rng.randint(1, 4))}
    low = rng.randint(0, 4)
    return {"type": "string", "maxLength": low + rng.randint(0, 12), **({"minLength": low} if kind < 5 else {})}


def draw_number(rng):
    kind = rng.choice(["integer", "integer", "number"])
    schema = {"type": kind}
    low = rng.randint(-50, 50)
    high = low + rng.randint(1, 200)
    if kind == "number" and rng.random() < 0.5:
        low, high = low / 4, high / 4
    schema[rng.choice(["minimum", "minimum", "exclusiveMinimum"])] = low
    schema[rng.choice(["maximum", "maximum", "exclusiveMaximum"])] = high + 2
    if kind == "integer" and rng.random() < 0.2:
        schema["multipleOf"] = rng.choice([2, 5, 10])
    return schema


def draw_array(rng, depth, names):
    schema = {"type": "array", "items": draw_schema(rng, depth - 1, names), "maxItems": rng.randint(0, 4)}
    if rng.random() < 0.4:
        schema["minItems"] = rng.randint(0, schema["maxItems"])
    if rng.random() < 0.2:
        schema["prefixItems"] = [draw_schema(rng, depth - 1, names) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.1:
        schema["contains"] = {"type": "integer"}
        schema["maxItems"] += 1
    return schema


def draw_object(rng, depth, names):
    keys = rng.sample(NAMES, rng.randint(0 if depth < 3 else 1, 4))
    schema = {"type": "object", "properties": {key: draw_schema(rng, depth - 1, names) for key in keys}}
    if rng.random() < 0.8:
        schema["required"] = rng.sample(keys, rng.randint(0, len(keys)))
    kind = rng.random()
    if kind < 0.7:
        schema["additionalProperties"] = False
    elif kind < 0.8:
        schema["additionalProperties"] = draw_schema(rng, 0, names)
        schema["maxProperties"] = len(keys) + rng.randint(0, 2)
    elif kind < 0.9:
        schema["patternProperties"] = {"^p_": draw_schema(rng, 0, names)}
        schema["additionalProperties"] = False
    if len(keys) > 1 and rng.random() < 0.1:
        schema["dependentRequired"] = {keys[0]: [keys[1]]}
    if keys and rng.random() < 0.1:
        schema["if"] = {"required": [keys[0]]}
        schema["then"] = {"minProperties": 1}
    return schema


def draw_schema(rng, depth, names=()):
    """A schema whose values nest at most `depth` deep, references apart; `names`: definitions that it may refer to."""
    leaves = [draw_string, draw_string, draw_number, draw_number,
              lambda r: {"type": "boolean"}, lambda r: {"type": "null"},
              lambda r: {"enum": r.sample([1, 2.5, "one", None, True, [1], {"a": 1}, -3], r.randint(1, 4))},
              lambda r: {"const": r.choice(["v1", 0, None, [], {"k": ["v"]}])},
              lambda r: {"type": ["integer", "null"], "minimum": 0, "maximum": r.randint(0, 99)}]
    kind = rng.random()
    if depth <= 0 or kind < 0.3:
        return rng.choice(leaves)(rng)
    if kind < 0.5:
        return draw_array(rng, depth, names)
    if kind < 0.8:
        return draw_object(rng, depth, names)
    if kind < 0.86 and names:
        return {"$ref": f"#/$defs/{rng.choice(names)}"}
    if kind < 0.92:
        return {"anyOf": [draw_schema(rng, depth - 1, names) for _ in range(rng.randint(2, 3))]}
    if kind < 0.95:
        return {"oneOf": [draw_string(rng), draw_number(rng), {"type": "null"}][:rng.randint(2, 3)]}
    if kind < 0.98:
        return {"allOf": [{"type": "string", "minLength": 1}, {"maxLength": rng.randint(2, 9)}]}
    return {"type": "string", "maxLength": 8, "not": {"enum": rng.sample(WORDS, 2)}}


def draw_root(rng):
    """An object schema; one in four with definitions, of which one refers to itself."""
    if rng.random() < 0.75:
        return draw_object(rng, 3, ())
    tree = {"type": "object", "properties": {"v": draw_schema(rng, 0), "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}},
            "required": ["v", "next"], "additionalProperties": False}
    return {**draw_object(rng, 3, ("tree", "leaf")), "$defs": {"tree": tree, "leaf": draw_schema(rng, 1)}}


FORMS = {
    "response_format": lambda schema: {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}},
    "structured_outputs": lambda schema: {"structured_outputs": {"json": schema}},
    "guided_json": lambda schema: {"guided_json": json.dumps(schema)},
    "tool": lambda schema: {"tools": [{"type": "function", "function": {"name": "put", "parameters": schema, "strict": False}}],
                            "tool_choice": {"type": "function", "function": {"name": "put"}}},
}


def draw_request(rng):
    """(schema, form, body) of a chat request."""
    schema, form = draw_root(rng), rng.choice([*FORMS, "response_format"])
    body = {"messages": [{"role": "user", "content": f"Give me JSON about {rng.choice(['a city', 'shapes', 'a recipe', 'you', 'numbers'])}."}],
            "max_tokens": 300, "seed": rng.randrange(2**31), "temperature": rng.choice([0, 0.7, 1, 1, 1.5, 2]), "n": rng.randint(1, 4),
            "chat_template_kwargs": {"enable_thinking": False}, **FORMS[form](schema)}
    for field, value in [("top_p", 0.9), ("top_k", 40), ("min_p", 0.05), ("presence_penalty", 0.7), ("frequency_penalty", 0.5),
                         ("repetition_penalty", 1.1)]:
        if rng.random() < 0.2:
            body[field] = value
    return schema, form, body


def answers_of(reply, form):
    """[(finish_reason, text)] of a chat completion; of a called tool its arguments."""
    found = []
    for choice in reply["choices"]:
        text = choice["message"]["content"]
        if form == "tool":
            calls = choice["message"].get("tool_calls") or []
            text = calls[0]["function"]["arguments"] if len(calls) == 1 else None
        found.append((choice["finish_reason"], text))
    return found


def check(schema, text):
    """None, or what is wrong with the answer."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError) as error:
        return f"no JSON: {error}"
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
    errors = [str(error.message) for error in validator.iter_errors(value)]
    return "; ".join(errors) or None
