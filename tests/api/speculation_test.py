"""Speculative decoding as clients and operators see it: the option, the field of a request, figures of usage, timings and metrics."""

import json
import shutil
import subprocess

import pytest

import demo_model
from shoal_server import BUILD, COMPILING_S, ROOT, ShoalServer

DRAFTERS = ROOT / "tests/golden/drafters"
TINY = ROOT / "build/checkpoints"
LOOP = "one two three four five six seven eight nine ten " * 6
FIELDS = {"temperature": 0, "max_tokens": 60, "ignore_eos": True}


def complete(server, **fields):
    reply = server.request("POST", "/v1/completions", {"prompt": LOOP, **FIELDS, **fields})
    assert reply.status == 200, reply.body
    return reply.json


@pytest.fixture(scope="module")
def drafting():
    with demo_model.demo_server() as server:
        server.wait_ready()
        yield server


def test_drafts_are_counted_and_change_nothing(drafting):
    plain = complete(drafting, speculation=False)
    drafted = [complete(drafting) for _ in range(4)][-1]
    assert "draft_n" not in plain["timings"]
    assert drafted["choices"] == plain["choices"]
    timings = drafted["timings"]
    assert 0 < timings["draft_n_accepted"] <= timings["draft_n"]
    assert timings["draft_n_accepted"] < timings["predicted_n"]
    values = drafting.metrics()
    assert values["vllm:spec_decode_num_draft_tokens_total"] >= timings["draft_n"]
    accepted = values["vllm:spec_decode_num_accepted_tokens_total"]
    assert timings["draft_n_accepted"] <= accepted <= values["vllm:spec_decode_num_draft_tokens_total"]
    assert 0 < values["vllm:spec_decode_num_drafts_total"] <= values["vllm:spec_decode_num_draft_tokens_total"]


def test_usage_of_a_chat_has_the_drafts(drafting):
    question = {"role": "user", "content": f"Go on: {LOOP}"}
    details = []
    for _ in range(4):
        reply = drafting.request("POST", "/v1/chat/completions", {"messages": [question], **FIELDS})
        details.append(reply.json["usage"]["completion_tokens_details"])
    drafted = [one for one in details if "draft_n" in one]
    assert drafted and all(0 <= one["draft_n_accepted"] <= one["draft_n"] for one in drafted)
    assert any(one["draft_n_accepted"] > 0 for one in drafted)


def test_drafting_can_be_switched_off():
    with demo_model.demo_server("--speculation", "off") as server:
        server.wait_ready()
        assert "draft_n" not in complete(server)["timings"]
        assert server.metrics()["vllm:spec_decode_num_draft_tokens_total"] == 0


def test_the_field_is_a_boolean(drafting):
    reply = drafting.request("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1, "speculation": "auto"})
    assert reply.status == 400
    assert "speculation" in reply.json["error"]["message"]


# --- draft models ------------------------------------------------------------------------------------------------------------


def tell(server, number, **fields):
    question = {"role": "user", "content": f"Tell me about circles and squares, {number}."}
    reply = server.request("POST", "/v1/chat/completions",
                           {"messages": [question], "temperature": 1, "seed": number, "max_tokens": 80, "ignore_eos": True, "logprobs": True,
                            "top_logprobs": 3, **fields})
    assert reply.status == 200, reply.body
    return reply.json


def test_a_draft_model_changes_nothing_and_is_counted():
    """The model is its own draft model: its guesses are right, but cost as much as the tokens, so it is soon given up."""
    with ShoalServer("--draft-model", str(demo_model.FOLDER), model=demo_model.FOLDER) as server:
        server.wait_ready()
        drafted = accepted = 0
        for number in range(8):
            plain, fast = (tell(server, number, speculation=on) for on in (False, True))
            assert fast["choices"] == plain["choices"]
            drafted += fast["timings"].get("draft_n", 0)
            accepted += fast["timings"].get("draft_n_accepted", 0)
        assert "or the draft model proposes" in server.log_text()
    assert 0 < accepted <= drafted


def failure(*options, model, device="cpu"):
    """What a server says that does not start."""
    done = subprocess.run([BUILD / "shoal", "generate", "--model", str(model), "--device", device, "--prompt", "a", "--log-level", "warn",
                           *options], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    return done.stderr


def test_a_draft_model_with_another_token_is_refused(tmp_path):
    shutil.copytree(demo_model.FOLDER, tmp_path / "other")
    tokenizer = tmp_path / "other/tokenizer.json"
    described = json.loads(tokenizer.read_text(encoding="utf-8"))
    ids = described["model"]["vocab"]
    (one, first), (two, second) = list(ids.items())[300:302]
    ids[one], ids[two] = second, first
    tokenizer.write_text(json.dumps(described), encoding="utf-8")
    wanted = f"its token {min(first, second)} is another than the model's"
    assert wanted in failure("--draft-model", str(tmp_path / "other"), model=demo_model.FOLDER)


def test_draft_models_that_cannot_be_used_are_refused():
    tiny = ROOT / "build/checkpoints"
    llama = tiny / "llama-f32.gguf"
    for wanted, model, options in [
            ("it has 263 tokens and the model 4096", demo_model.FOLDER, ["--draft-model", str(llama)]),
            ("No such file", llama, ["--draft-model", str(tiny / "none.gguf")]),
            ("recurrent state cannot be taken back", llama, ["--draft-model", str(tiny / "qwen3_5-f32.gguf")]),
            ("is none of auto, text, mtp and off", llama, ["--speculation", "tree"]),
            ("--draft-model is not used with --speculation mtp", llama, ["--draft-model", str(llama), "--speculation", "mtp"]),
            ("--speculation mtp cannot be used: layers that predict a further token are not known of this family", llama, ["--speculation", "mtp"]),
            ("--speculation mtp cannot be used: the checkpoint has no layer that predicts a further token", tiny / "qwen3_5_moe-f32",
             ["--speculation", "mtp"]),
            ("--speculation mtp cannot be used: --step-depth 2", tiny / "qwen3_5-ahead.gguf", ["--speculation", "mtp", "--step-depth", "2"]),
            ("--speculation off", llama, ["--draft-model", str(llama), "--speculation", "off"]),
            ("--step-depth 2", llama, ["--draft-model", str(llama), "--step-depth", "2"])]:
        assert wanted in failure(*options, model=model), wanted


def test_the_layer_of_a_checkpoint_drafts():
    """In every answer the same tokens; with mtp more of them are drafted than of text that was there before."""
    choices, drafted = [], []
    prompt = "The layer is random, and so is what it predicts."
    for speculation in ("off", "text", "auto", "mtp"):
        with ShoalServer("--speculation", speculation, "--device", "cpu", model=ROOT / "build/checkpoints/qwen3_5-ahead.gguf") as server:
            server.wait_ready()
            for seed in range(8):
                reply = server.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 60, "seed": seed, "temperature": 0.7})
                assert reply.status == 200, reply.body
                choices.append((seed, reply.json["choices"]))
            drafted.append(server.metrics()["vllm:spec_decode_num_draft_tokens_total"])
    for seed in range(8):
        answers = [one for number, one in choices if number == seed]
        assert all(one == answers[0] for one in answers)
    assert drafted[0] == 0 and drafted[2] > drafted[1] and drafted[3] > drafted[1]


@pytest.mark.parametrize("model,words,least", [
    (TINY / "demo-ahead", ["--speculation", "mtp"], 0.8),
    (ROOT / "tests/model/demo", ["--draft-model", ROOT / "tests/model/demo_eagle3"], 0.8),
    (ROOT / "tests/model/demo", ["--draft-model", ROOT / "tests/model/demo_dflash"], 0.8)])
def test_trained_drafters_of_the_demo_model_are_mostly_right(model, words, least):
    """Questions about images and without, greedy. How often first drafts are right over all of them: tests/model/demo_*/made.json. How many
    tokens follow the first one, and where a step has drafts at all, is the policy's choice and depends on time; drafts of found text are counted
    too. So the share has room for two standard deviations of as many drafts as there were."""
    questions = [one for one in demo_model.questions() if not one["tools"]]
    questions = [one for one in questions if one["pictures"]][:50] + [one for one in questions if not one["pictures"]]
    with ShoalServer(*words, "--device", "cpu", model=model) as server:
        server.wait_ready()
        for _ in range(4):
            for question in questions:
                body = demo_model.chat_body(question, logprobs=True, top_logprobs=2)
                drafted, plain = (server.request("POST", "/v1/chat/completions", body | {"speculation": on}) for on in (True, False))
                assert drafted.status == plain.status == 200, drafted.body + plain.body
                assert drafted.json["choices"] == plain.json["choices"]
            values = server.metrics()
            drafts, first = values["vllm:spec_decode_num_drafts_total"], values['vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"}']
            if drafts >= 20:
                break
    assert drafts > 0 and first >= least * drafts - 2 * (drafts * least * (1 - least)) ** 0.5


@pytest.mark.parametrize("name,changed,wanted", [
    ("mtp.norm.weight", {"name": "mtp.other.weight"}, "tensor mtp.norm.weight is missing"),
    ("mtp.fc.weight", {"shape": [128, 64]}, "tensor mtp.fc.weight is [64, 128, 1, 1], not [128, 64] (fastest first)"),
    ("model.layers.0.input_layernorm.weight", {"copy": "mtp.layers.1.input_layernorm.weight"},
     "tensor mtp.layers.1.input_layernorm.weight is not part of architecture qwen35 as this build knows it")])
def test_broken_layers_are_refused_or_left_out(tmp_path, name, changed, wanted):
    """The model itself is served without such a layer unless it is asked for."""
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "build/checkpoints/qwen3_5-ahead", folder)
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    entry = dict(header[name]) if "copy" in changed else header.pop(name)
    if "copy" in changed:  # its bytes follow the others'
        begin, end = entry["data_offsets"]
        entry["data_offsets"] = [len(data) - 8 - length, len(data) - 8 - length + end - begin]
        data += data[8 + length + begin:8 + length + end]
    header[changed.get("name", changed.get("copy", name))] = entry | {"shape": changed.get("shape", entry["shape"])}
    text = json.dumps(header).encode()
    weights.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length:])
    said = failure("--speculation", "mtp", model=folder)
    assert f"--speculation mtp cannot be used: {wanted}" in said, said
    with ShoalServer("--device", "cpu", model=folder) as server:
        server.wait_ready()
        assert "the layer that predicts a further token is not used" in server.log_text()


# --- drafters that read the model's inner states -----------------------------------------------------------------------------

@pytest.mark.parametrize("model,drafter,name", [("smollm3-f32.gguf", "eagle3", "EAGLE-3 head"),
                                                ("qwen3_5-f32", "eagle3_speculator", "EAGLE-3 head"),
                                                ("smollm3-f32", "dflash", "DFlash drafter"),
                                                ("gemma4-f32.gguf", "gemma4_assistant", "assistant")])
def test_a_drafter_of_inner_states_changes_no_answer(model, drafter, name):
    """It is random, so few of its tokens are right. An assistant reads caches too."""
    with ShoalServer("--draft-model", str(DRAFTERS / drafter), "--device", "cpu", model=TINY / model) as server:
        server.wait_ready()
        for seed in range(8):
            body = {"prompt": f"{seed}: it reads the states of three layers.", "max_tokens": 60, "seed": seed, "temperature": 0.7, "logprobs": 2}
            # first with drafts: a prompt that was cached without them has none
            drafted, plain = (server.request("POST", "/v1/completions", body | {"speculation": on}) for on in (True, False))
            assert plain.status == drafted.status == 200, plain.body + drafted.body
            assert plain.json["choices"] == drafted.json["choices"]
        assert f"or the {name} proposes" in server.log_text()
        assert server.metrics()["vllm:spec_decode_num_draft_tokens_total"] > 0


@pytest.mark.parametrize("drafter,name", [("demo-eagle3", "EAGLE-3 head"), ("demo-dflash", "DFlash drafter")])
def test_a_drafter_of_inner_states_changes_no_answer_about_an_image(drafter, name):
    """Rows of images have the embeddings of placeholders and the model's states."""
    questions = [one for one in demo_model.questions() if one["pictures"]][:4]
    with ShoalServer("--draft-model", str(TINY / drafter), "--device", "cpu", model=demo_model.FOLDER) as server:
        server.wait_ready()
        for question in questions:
            body = demo_model.chat_body(question, temperature=0.7, seed=5, max_tokens=60, logprobs=True, top_logprobs=2)
            drafted, plain = (server.request("POST", "/v1/chat/completions", body | {"speculation": on}) for on in (True, False))
            assert plain.status == drafted.status == 200, plain.body + drafted.body
            assert plain.json["choices"] == drafted.json["choices"]
        assert f"or the {name} proposes" in server.log_text()


def test_drafters_of_inner_states_that_cannot_be_used_are_refused(tmp_path):
    shutil.copytree(DRAFTERS / "eagle3", tmp_path / "head")
    config = tmp_path / "head/config.json"
    described = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps(described | {"num_hidden_layers": 2}), encoding="utf-8")
    for wanted, model, drafter in [
            ("it reads the model's state after 2 layers, and the model has 2", TINY / "llama-f32.gguf", DRAFTERS / "eagle3"),
            ("config.json: its vocabulary has 263 tokens and the model's 4096", demo_model.FOLDER, DRAFTERS / "eagle3"),
            ("config.json: it has 2 layers, not one", TINY / "smollm3-f32", tmp_path / "head")]:
        assert f"--draft-model: {drafter}: {wanted}" in failure("--draft-model", str(drafter), model=model), wanted


EXACT = ("--batch-invariant", "--step-depth", "1")


def test_drafts_on_a_vulkan_device_need_rows_that_do_not_depend_on_the_step():
    llama, ahead = (ROOT / "build/checkpoints" / name for name in ("llama-f32.gguf", "qwen3_5-ahead.gguf"))
    for options, model in ((("--draft-model", str(llama)), llama), (("--speculation", "mtp"), ahead)):
        for exact, wanted in (((), "without --batch-invariant"), (EXACT[:1], "without --step-depth 1")):
            assert f"{' '.join(options[:2]) if 'mtp' in options else options[0]} cannot be used: " in failure(*options, *exact, model=model, device="vulkan")
            assert wanted in failure(*options, *exact, model=model, device="vulkan")


@pytest.mark.parametrize("options,model,said", [
    (("--draft-model", str(ROOT / "build/checkpoints/llama-f32.gguf")), "llama-f32.gguf", "or the draft model proposes"),
    (("--draft-model", str(DRAFTERS / "eagle3")), "smollm3-f32.gguf", "or the EAGLE-3 head proposes"),
    (("--draft-model", str(DRAFTERS / "dflash")), "smollm3-f32.gguf", "or the DFlash drafter proposes"),
    (("--speculation", "mtp"), "qwen3_5-ahead.gguf", "or the checkpoint's own layer for it proposes")])
def test_drafts_on_a_vulkan_device_change_no_answer(options, model, said):
    body = {"max_tokens": 60, "temperature": 0.7, "logprobs": 2}
    with ShoalServer(*options, "--device", "vulkan", *EXACT, model=ROOT / "build/checkpoints" / model) as server:
        server.wait_ready(COMPILING_S)
        for seed in range(6):
            body["prompt"] = f"{seed}: what is drafted is judged by the device."
            drafted, plain = (server.request("POST", "/v1/completions", body | {"seed": seed, "speculation": on}) for on in (True, False))
            assert plain.status == drafted.status == 200, plain.body + drafted.body
            assert plain.json["choices"] == drafted.json["choices"]
        assert said in server.log_text()
        drafts = server.metrics()["vllm:spec_decode_num_draft_tokens_total"]
        assert drafts > 0 or "llama" not in model  # what is random may never pay
