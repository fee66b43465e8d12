"""Draws requests of all APIs and settings of the server for exact_replay_test.py.

Every field of a request body and every option of the server is either drawn here or on a list of those that do not change an answer, which
the test compares with openapi.json and `shoal serve --help`, so that no new field is forgotten.
"""

import dataclasses
import pathlib
import re

import demo_model
from shoal_server import ROOT


@dataclasses.dataclass(frozen=True)
class Model:
    path: pathlib.Path
    rich: bool  # images, tools and a context of thousands of tokens
    ids: range  # tokens of ordinary text
    answers: tuple  # lengths of answers
    prompts: tuple  # words of prompts
    cache_bytes: str  # so small that some sequences are preempted


def tiny(name, cache_bytes):
    """Random weights, a token for each byte, a context of 512 tokens."""
    return Model(ROOT / f"build/checkpoints/{name}-f32.gguf", False, range(40, 250), (1, 20, 60, 150), (2, 10), cache_bytes)


DEMO = Model(demo_model.FOLDER, True, range(300, 900), (1, 20, 60, 150, 300, 400), (2, 10, 60), "")
TINY = [tiny("qwen3_5", str(12 * 23040)),  # recurrent
        tiny("lfm2", "180K"),  # convolution
        tiny("mamba2", str(12 * 44928)),  # state space mixers alone
        tiny("gpt_oss", "280K"),  # mixture of experts, attention sinks, sliding windows
        tiny("gemma3", "300K"),  # sliding windows
        tiny("smollm3", "360K")]  # nothing of these
# Drafters that read inner states, by the name of the model.
DRAFTERS = {"smollm3-f32.gguf": ["tests/golden/drafters/eagle3", "tests/golden/drafters/dflash"], "qwen3_5-f32.gguf": ["tests/golden/drafters/eagle3_speculator"],
            DEMO.path.name: ["build/checkpoints/demo-eagle3", "build/checkpoints/demo-dflash"]}
WORDS = "river stone winter light engine paper garden metal story number glass music harbor letter cloud".split()
QUESTIONS = demo_model.questions()

# --- settings of the server ------------------------------------------------------------------

# Options that do not change an answer: how clients reach the server, how long it waits, what it logs, and where files are.
OTHER_OPTIONS = set("""
    --host --port --models-dir --models-memory --models-loaded --models-idle --models-wait --api-key --api-key-file --allow-readable-key-file --key-limits --media-processes --worker-sandbox --allow-debug
    --served-model-name --any-model-name --lora --lora-dir --lora-timeout --warm-prompts --reranking --pooling --strict-fields --mmproj --health-needs-ready --hf-cache --prepare-threads --pipeline-cache
    --slab-bytes --image-memory-bytes --response-store-bytes --max-image-bytes --allow-media-domain --allow-media-private --allow-media-path
    --media-timeout --max-queue --max-requests-per-client --max-body-bytes --max-connections --request-timeout --request-deadline
    --documents --poppler-path --idle-timeout --stream-buffer-bytes --keepalive-comment --drain-timeout --protect-metrics --state-dir --prefix-cache-bytes --cors-origin --allowed-host
    --ignore-weight-changes --no-reload --tls-cert
    --tls-key --worker-timeout --poison-crashes --poison-memory-s --log-format --log-level --profile --help --cpu-tier --vulkan-tier
    --vulkan-validation --worker-fault --prepare-deadline --endpoint --token-file --retries --stall-timeout
""".split())
# Options of which every draw uses one value: the model has one template, and formats are found in it.
FIXED_OPTIONS = {"--chat-template", "--reasoning-format", "--tool-call-parser", "--kv-key-bits", "--kv-value-bits"}


def draw_kv_cache(rng, device):
    kind = rng.choice(["f16", "f16", "f32" if device == "cpu" else "f16", "uniform", "turboquant"])
    if kind in ("f16", "f32"):
        return ["--kv-cache-type", kind]
    options = ["--kv-quant-scheme", kind, "--kv-bits", rng.choice(["4", "8"] if kind == "uniform" else ["2", "3.5", "4"])]
    if kind == "uniform" and rng.random() < 0.5:
        options += ["--kv-group-size", "32"]
    return options + ["--quantized-kv-start", rng.choice(["0", "0", "40", "200"])]


def with_draft_model(rng, model, options):
    """Adds a draft model: itself, whose guesses are right, or one of other random weights, as beside a
    recurrent model, or a drafter that reads the model's inner states."""
    recurrent = model.path.name in ("qwen3_5-f32.gguf", "lfm2-f32.gguf", "mamba2-f32.gguf")
    options = list(options)
    if "--kv-cache-bytes" in options:  # the draft model's part is as large as the model's
        at = options.index("--kv-cache-bytes") + 1
        number, unit = re.fullmatch(r"(\d+)([KM]?)", options[at]).groups()
        options[at] = f"{2 * int(number)}{unit}"
    other = ROOT / "build/checkpoints/llama-f32.gguf"
    if model.path.name in DRAFTERS and rng.random() < 0.5:
        return options + ["--draft-model", str(ROOT / rng.choice(DRAFTERS[model.path.name]))]
    return options + ["--draft-model", str(model.path if not recurrent and (model.rich or rng.random() < 0.5) else other)]


def draw_settings(rng, device):
    """(model, options)."""
    model = rng.choice([DEMO, DEMO, rng.choice(TINY)])
    options = ["--device", device, "--workers", rng.choice(["1", "1", "2"]), "--threads", rng.choice(["1", "2"])]
    options += ["--prefix-cache", rng.choice(["0", "1", "1"]), "--kv-survives", rng.choice(["0", "1", "1"])]
    if "0" not in options[-4:] and rng.random() < 0.3:
        options += ["--standby", "on"]
    options += ["--step-depth", rng.choice(["0", "1", "2"]), "--speculation", rng.choice(["auto", "auto", "off"])]
    options += ["--step-tokens", rng.choice(["0", "0", "17", "64"]), "--max-tokens", rng.choice(["0", "50"])]
    if rng.random() < 0.3:
        options += ["--mixed-prefill-tokens", rng.choice(["8", "32"])]
    if rng.random() < 0.3:
        options += ["--seed", str(rng.randrange(1 << 32))]
    if rng.random() < 0.3:
        options += ["--itl-target-ms", rng.choice(["1", "10", "1000"])]
    if not model.rich:
        options += ["--max-sequences", "4"] + (["--kv-cache-bytes", model.cache_bytes] if rng.random() < 0.5 else [])
        return model, options
    options += draw_kv_cache(rng, device)
    if rng.random() < 0.3:
        options += ["--batch-invariant"]
    if device == "cpu":
        options += ["--activation-bits", rng.choice(["8", "16"])]
    if rng.random() < 0.5:  # so small that sequences are preempted
        two_forms = "--quantized-kv-start" in options and options[options.index("--quantized-kv-start") + 1] != "0"
        options += ["--context", "1024", "--max-kv-size", "1000", "--max-sequences", "6", "--kv-cache-bytes",
                    "7M" if "f32" in options else "5M" if two_forms else "3500K"]
    else:
        options += ["--max-sequences", rng.choice(["2", "8"])]
    if rng.random() < 0.3:
        options += ["--vision-cache-size", "1", "--vision-cache-bytes", "100K"]
    exact = device == "cpu" and "off" not in options and options[options.index("--step-depth") + 1] != "2"
    return model, with_draft_model(rng, model, options) if exact and rng.random() < 0.3 else options


DRAWN_OPTIONS = set("""
    --model --device --workers --threads --prefix-cache --kv-survives --standby --step-depth --step-tokens --max-tokens --mixed-prefill-tokens --itl-target-ms
    --batch-invariant --speculation --draft-model --seed
    --max-sequences --kv-cache-bytes --kv-cache-type --kv-quant-scheme --kv-bits --kv-group-size --quantized-kv-start --activation-bits --context
    --max-kv-size --vision-cache-size --vision-cache-bytes
""".split())

# --- fields ----------------------------------------------------------------------------------

# Fields that do not change an answer, by schema. `model` names the served model.
OTHER_FIELDS = {
    # prompt_logprobs: tests/api/prompt_logprobs_test.py kills workers in the middle of them
    "ChatRequest": {"model", "prompt_logprobs"},
    # suffix: the models drawn have no tokens for it
    "CompletionRequest": {"model", "suffix", "best_of", "prompt_logprobs"},
    "MessagesRequest": {"model", "metadata", "service_tier", "cache_control", "speed", "context_management"},
    "ResponsesRequest": {"model", "metadata", "service_tier", "truncation", "prompt_cache_retention", "prompt_cache_key",
                         "safety_identifier", "user", "max_tool_calls"},
}

# llama.cpp's samplers: the field that turns each on, its values, and its other fields.
SAMPLERS = {
    "dynatemp_range": ([0.3, 1, 2], {"dynatemp_exponent": [0.5, 1, 3]}),
    "xtc_probability": ([0.3, 1], {"xtc_threshold": [0.02, 0.1, 0.3]}),
    "mirostat": ([2], {"mirostat_tau": [1, 3, 5], "mirostat_eta": [0.05, 0.1, 1]}),
    "dry_multiplier": ([0.5, 5], {"dry_base": [1.2, 1.75], "dry_allowed_length": [0, 1, 3], "dry_penalty_last_n": [-1, 0, 9, 60],
                                  "dry_sequence_breakers": [["\n", ":"], ["e"], ["there are", " "]]}),
}


class Body:
    """A body that is being drawn; remembers every name that was set, in any draw."""

    drawn = {}  # schema: names

    def __init__(self, rng, model, schema):
        self.rng = rng
        self.model = model
        self.names = self.drawn.setdefault(schema, set())
        self.fields = {}

    def put(self, name, value):
        self.names.add(name)
        self.fields[name] = value

    def maybe(self, share, name, draw):
        """Sets the field in this share of the draws."""
        self.names.add(name)
        if self.rng.random() < share:
            self.fields[name] = draw()


def sampling(body):
    rng = body.rng
    body.put("seed", rng.randrange(1 << 40))
    body.maybe(0.8, "temperature", lambda: rng.choice([0, 0.7, 1, 1.3, 2]))
    body.maybe(0.3, "top_p", lambda: rng.choice([0.3, 0.8, 0.95]))
    body.maybe(0.3, "top_k", lambda: rng.choice([-1, 1, 5, 40]))
    body.maybe(0.2, "min_p", lambda: rng.choice([0.01, 0.1]))
    body.maybe(0.2, "typical_p", lambda: rng.choice([0.5, 0.9]))
    body.maybe(0.2, "top_n_sigma", lambda: rng.choice([1, 2.5]))
    if rng.random() < 0.2:
        body.put("repeat_penalty", rng.choice([0.9, 1.1, 1.4]))
        body.maybe(0.7, "repeat_last_n", lambda: rng.choice([-1, 0, 1, 40]))
    body.names |= {"repeat_penalty", "repeat_last_n"}
    has_own = "repeat_penalty" in body.fields
    body.maybe(0.3 * (not has_own), "repetition_penalty", lambda: rng.choice([0.9, 1.1, 1.4]))
    body.maybe(0.3, "presence_penalty", lambda: rng.choice([-0.5, 0.5, 1.5]))
    body.maybe(0.3, "frequency_penalty", lambda: rng.choice([-0.2, 0.5, 1.5]))
    for name in ("repetition_context_size", "presence_context_size", "frequency_context_size"):
        body.maybe(0.2 * (name[0] != "r" or not has_own), name, lambda: rng.choice([1, 7, 64]))
    for switch, (values, others) in SAMPLERS.items():
        body.maybe(0.25, switch, lambda values=values: rng.choice(values))
        for name, values in others.items():
            body.maybe(0.5 if switch in body.fields else 0.02, name, lambda values=values: rng.choice(values))


def word_bias(rng, model):
    pairs = {rng.choice([str(rng.choice(model.ids)), " " + rng.choice(WORDS)]): rng.choice([-100, -5, 3, 10, False])
             for _ in range(rng.randrange(1, 5))}
    return pairs if rng.random() < 0.7 else [[name, bias] for name, bias in pairs.items()]


def ends(body, stop="stop", bias=True):
    rng = body.rng
    body.maybe(0.25, stop, lambda: rng.sample(["5", " a ", "shapes", ".", "e", " the", "\n"], rng.randrange(1, 4)))
    if bias:
        body.maybe(0.3, "logit_bias", lambda: word_bias(rng, body.model))
        body.maybe(0.2, "min_tokens", lambda: rng.randrange(0, 30))
        body.maybe(0.7, "ignore_eos", lambda: True)
        body.maybe(0.2, "suppress_tokens", lambda: rng.sample(list(body.model.ids), 5))
        body.maybe(0.2, "stop_token_ids", lambda: rng.sample(list(body.model.ids), 3))
        body.maybe(0.3, "include_stop_str_in_output", lambda: True)


def words(rng, model):
    return " ".join(rng.choices(WORDS, k=rng.choice(model.prompts)))


def question(rng, model):
    return rng.choice(QUESTIONS) if model.rich and rng.random() < 0.6 else None


def tools(rng, asked):
    return asked["tools"] if asked and asked["tools"] else rng.choice([q for q in QUESTIONS if q["tools"]])["tools"]


SCHEMAS = [{"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "count": {"type": "integer", "minimum": 0}},
            "required": ["name"], "additionalProperties": False},
           {"type": "array", "items": {"enum": ["red", "blue", 3]}, "maxItems": 4}]
GRAMMARS = ['root ::= "yes" | "no" ("," [a-z]{1,5}){0,3}', 'root ::= [a-z ]+ "."']
# Fields that ask for a form of the answer, each with a value; a request has one of them.
FORMS = {
    "structured_outputs": lambda rng: rng.choice([{"json": rng.choice(SCHEMAS)}, {"regex": "[0-9]{1,8}"}, {"choice": ["red", "blue"]},
                                                  {"grammar": rng.choice(GRAMMARS)}, {"json_object": True}]),
    "guided_json": lambda rng: rng.choice(SCHEMAS),
    "guided_regex": lambda rng: "[a-f]{3,20}",
    "guided_choice": lambda rng: ["red", "blue", "green"],
    "guided_grammar": lambda rng: rng.choice(GRAMMARS),
    "grammar": lambda rng: rng.choice(GRAMMARS),
    "json_schema": lambda rng: rng.choice(SCHEMAS),
    "regex": lambda rng: "(ab|c)+",
    "ebnf": lambda rng: rng.choice(GRAMMARS),
}


TAG = {"type": "structural_tag", "format": {"type": "sequence", "elements": [
    {"type": "const_string", "value": "n="}, {"type": "regex", "pattern": "[0-9]{1,6}"}]}}


def response_form(rng):
    return rng.choice([{"type": "text"}, {"type": "json_object"}, TAG,
                       {"type": "json_schema", "json_schema": {"name": "a", "schema": rng.choice(SCHEMAS)}}])


def form(body, formats=("response_format",)):
    """At most one field; one of `formats` takes an object with a type."""
    rng = body.rng
    body.names |= {*formats, *FORMS, "grammar_lazy", "grammar_triggers"}
    name = rng.choice([*formats, *FORMS]) if rng.random() < 0.25 else None
    if name in FORMS:
        body.put(name, FORMS[name](rng))
        if name == "grammar" and rng.random() < 0.3:
            body.put("grammar_lazy", True)
            body.put("grammar_triggers", [{"type": 1, "value": "no"}])
    elif name:
        body.put(name, response_form(rng))


def thinking(body):
    rng = body.rng
    body.maybe(0.5, "enable_thinking", lambda: rng.random() < 0.7)
    body.maybe(0.3, "thinking_budget", lambda: rng.choice([0, 1, 5, 25]))
    body.maybe(0.2, "thinking_start_token", lambda: "<think>")
    body.maybe(0.2, "thinking_end_token", lambda: "</think>")
    body.maybe(0.2, "chat_template_kwargs", lambda: {"enable_thinking": rng.random() < 0.5})


def chat(rng, model):
    body = Body(rng, model, "ChatRequest")
    asked = question(rng, model)
    if asked:
        messages = demo_model.chat_messages(asked)
    else:
        messages = [{"role": "user", "content": words(rng, model)}]
    body.put("messages", messages)
    if rng.random() < 0.15:
        messages.append({"role": "assistant", "content": "There are"})
        body.put("continue_final_message", True)
        body.put("add_generation_prompt", False)
    sampling(body)
    ends(body)
    thinking(body)
    body.put(rng.choice(["max_tokens", "max_completion_tokens"]), rng.choice(model.answers))
    body.maybe(0.25, "n", lambda: rng.choice([2, 3]))
    body.maybe(0.5, "logprobs", lambda: True)
    if body.fields.get("logprobs"):
        body.maybe(0.6, "top_logprobs", lambda: rng.choice([0, 1, 5, 20]))
    body.maybe(0.3 * model.rich, "tools", lambda: tools(rng, asked))
    if "tools" in body.fields:
        body.maybe(0.5, "tool_choice", lambda: rng.choice(["auto", "none", "required"]))
        body.maybe(0.3, "parallel_tool_calls", lambda: rng.random() < 0.5)
    form(body)
    body.maybe(0.2, "return_token_ids", lambda: True)
    body.maybe(0.1, "include_reasoning", lambda: rng.random() < 0.5)
    body.maybe(0.1, "modalities", lambda: ["text"])
    body.maybe(0.2, "thinking", lambda: rng.choice([{"type": "disabled"}, {"type": "enabled", "budget_tokens": 7}]))
    body.maybe(0.1, "verbosity", lambda: rng.choice(["low", "high"]))
    body.maybe(0.1, "reasoning_effort", lambda: rng.choice(["none", "low", "high"]))
    body.maybe(0.2, "resize_shape", lambda: rng.choice([64, [96, 64]]))
    body.maybe(0.2, "cache_prompt", lambda: False)
    body.maybe(0.2, "speculation", lambda: False)
    body.maybe(0.6, "stream", lambda: True)
    if body.fields.get("stream"):
        body.maybe(0.6, "stream_options", lambda: {"include_usage": True})
        body.maybe(0.2, "return_progress", lambda: True)
    body.maybe(0.2, "timings_per_token", lambda: True)
    return "/v1/chat/completions", body.fields


def completion(rng, model):
    body = Body(rng, model, "CompletionRequest")
    ids = [rng.choice(model.ids) for _ in range(rng.choice([1, 30, 90]))]
    body.put("prompt", rng.choice([words(rng, model), [words(rng, model), words(rng, model)], ids, [ids, ids[:5] + [310]]]))
    sampling(body)
    ends(body)
    form(body)
    body.put("max_tokens", rng.choice(model.answers))
    body.maybe(0.25, "n", lambda: rng.choice([2, 3]))
    body.maybe(0.2, "return_token_ids", lambda: True)
    body.maybe(0.5, "logprobs", lambda: rng.choice([0, 1, 5, 20]))
    if "logprobs" not in body.fields:
        body.maybe(0.3, "echo", lambda: True)
    body.maybe(0.2, "cache_prompt", lambda: False)
    body.maybe(0.2, "speculation", lambda: False)
    body.maybe(0.6, "stream", lambda: True)
    if body.fields.get("stream"):
        body.maybe(0.6, "stream_options", lambda: {"include_usage": True})
        body.maybe(0.2, "return_progress", lambda: True)
    body.maybe(0.2, "timings_per_token", lambda: True)
    return "/v1/completions", body.fields


def messages(rng, model):
    body = Body(rng, model, "MessagesRequest")
    asked = question(rng, model)
    body.put("messages", [{"role": "user", "content": words(rng, model)}])
    body.maybe(0.3, "system", lambda: "You count. " + words(rng, model))
    body.put("max_tokens", rng.choice(model.answers))
    sampling(body)
    if body.fields.get("temperature", 0) > 1 and rng.random() < 0.5:
        body.fields["temperature"] = 1
    ends(body, "stop_sequences", bias=False)
    if body.fields["max_tokens"] > 10:
        body.maybe(0.4, "thinking", lambda: rng.choice([{"type": "enabled", "budget_tokens": rng.randrange(1, 10)},
                                                        {"type": "disabled"}]))
    form(body, ("response_format", "output_format"))
    if not body.fields.keys() & {*FORMS, "response_format", "output_format"}:
        body.maybe(0.2, "output_config", lambda: rng.choice([{"effort": rng.choice(["low", "high"])}, {"format": response_form(rng)}]))
    body.maybe(0.3 * model.rich, "tools", lambda: [{"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]}
                                      for tool in tools(rng, asked)])
    if "tools" in body.fields:
        body.maybe(0.5, "tool_choice", lambda: {"type": rng.choice(["auto", "any", "none"])})
    body.maybe(0.6, "stream", lambda: True)
    return "/v1/messages", body.fields


def responses(rng, model):
    body = Body(rng, model, "ResponsesRequest")
    asked = question(rng, model)
    body.put("input", rng.choice([words(rng, model), [{"role": "user", "content": words(rng, model)}]]))
    body.maybe(0.3, "instructions", lambda: "You count. " + words(rng, model))
    body.put("max_output_tokens", rng.choice(model.answers))
    sampling(body)
    ends(body)
    thinking(body)
    body.maybe(0.5, "include", lambda: ["message.output_text.logprobs"])
    if "include" in body.fields:
        body.maybe(0.5, "top_logprobs", lambda: rng.choice([0, 1, 5, 20]))
    form(body, ())
    if not body.fields.keys() & FORMS.keys():
        body.maybe(0.2, "text", lambda: {"format": response_form(rng)})
    body.maybe(0.2, "reasoning", lambda: {"effort": rng.choice(["none", "low", "high"])})
    body.maybe(0.3 * model.rich, "tools", lambda: [{"type": "function", "name": tool["function"]["name"],
                                       "parameters": tool["function"]["parameters"]} for tool in tools(rng, asked)])
    if "tools" in body.fields:
        body.maybe(0.5, "tool_choice", lambda: rng.choice(["auto", "none", "required"]))
        body.maybe(0.3, "parallel_tool_calls", lambda: rng.random() < 0.5)
    body.maybe(0.2, "cache_prompt", lambda: False)
    body.maybe(0.2, "speculation", lambda: False)
    body.maybe(0.5, "stream", lambda: True)
    if body.fields.get("stream"):
        body.maybe(0.3, "stream_options", lambda: {"include_obfuscation": False})
        body.maybe(0.3, "store", lambda: False)
    else:
        body.maybe(0.4, "background", lambda: True)
        body.maybe(0.2, "background_options", lambda: {"completion_window": "soonest"})
    body.maybe(0.2, "previous_response_id", lambda: None)  # the test puts in the id of a response of its own
    return "/v1/responses", body.fields


def draw_request(rng, model):
    """(path, body)."""
    path, body = rng.choice([chat, chat, completion, messages, responses])(rng, model)
    most = min(body[name] for name in ("max_tokens", "max_completion_tokens", "max_output_tokens") if name in body)
    if "min_tokens" in body:
        body["min_tokens"] = min(body["min_tokens"], most)
    return path, body


def force(rng, model, path, body):
    """Makes the tokens independent of rounding: one token is so likely that nothing else is drawn."""
    if path == "/v1/messages":
        return None  # no biases
    for name in ("repetition_penalty", "repeat_penalty", "frequency_penalty", "presence_penalty", "tools", "tool_choice", "response_format", "text",
                 "grammar_lazy", "grammar_triggers", *FORMS):
        body.pop(name, None)
    body["logit_bias"] = {str(rng.choice(model.ids)): 100}
    return path, body
