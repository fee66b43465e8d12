"""LoRA adapters over the API: chosen by the model's name, listed, kept apart in the prefix cache, many in one batch, across a kill, and refused
with words if they cannot be used. tests/model/lora_adapters_test.c compares their logits with PEFT's."""

import concurrent.futures
import os
import random
import signal
import subprocess

import numpy as np
import pytest
from lora_files import draw_pairs, write_gguf, write_peft, write_safetensors
from shoal_server import BUILD, PATIENCE_S, ROOT, ShoalServer

BASE = ROOT / "build/checkpoints/llama-f32"  # scripts/golden/checkpoint_variants.py: 2 layers of 8 heads of 16, 2 of keys
SHAPES = {"self_attn.q_proj": (128, 64), "self_attn.k_proj": (32, 64), "self_attn.v_proj": (32, 64), "self_attn.o_proj": (64, 128),
          "mlp.gate_proj": (96, 64), "mlp.up_proj": (96, 64), "mlp.down_proj": (64, 96)}
RANKS = [1, 3, 8, 16, 40]
ADAPTERS = 16


def draw_adapters(folder, count, seed):
    """{name: (PEFT folder, tensors, alpha)}: any modules, ranks and scales."""
    draw, adapters = np.random.default_rng(seed), {}
    for number in range(count):
        modules = draw.choice(list(SHAPES), draw.integers(1, len(SHAPES) + 1), replace=False)
        rank, alpha = int(draw.choice(RANKS)), float(draw.integers(4, 40))
        tensors = draw_pairs({module: SHAPES[module] for module in modules}, 2, rank, draw, size=1.5)
        root = bool(draw.integers(2))
        path = write_peft(folder / f"adapter-{number}", tensors, r=rank, lora_alpha=alpha, use_rslora=root)
        adapters[f"tuned-{number}"] = (path, tensors, alpha * rank ** 0.5 if root else alpha)
    return adapters


def options_of(adapters):
    return [word for name, (path, _, _) in adapters.items() for word in ("--lora", f"{name}={path}")]


def ask(server, model, prompt, **fields):
    reply = server.chat(prompt, model=model, **{"temperature": 0, "max_tokens": 16, "ignore_eos": True} | fields)
    assert reply.status == 200, reply.body
    return reply.json


def text_of(reply):
    return reply["choices"][0]["message"]["content"]


def test_requests_choose_adapters_by_name(tmp_path):
    adapters = draw_adapters(tmp_path, 2, 5)
    with ShoalServer("--kv-cache-type", "f32", "--served-model-name", "base", *options_of(adapters), model=BASE) as server:
        server.wait_ready()
        listed = {entry["id"]: entry for entry in server.get("/v1/models").json["data"]}
        assert list(listed) == ["base", *adapters]
        assert "parent" not in listed["base"]
        for name, (path, _, _) in adapters.items():
            assert listed[name]["parent"] == "base" and listed[name]["root"] == str(path)
            assert server.get(f"/v1/models/{name}").json == listed[name]
        assert f'max_lora="2",running_lora_adapters="{",".join(adapters)}",waiting_lora_adapters=""' in server.get("/metrics").body.decode()
        prompt = "the same words, long enough for blocks of sixteen tokens"
        first = {}
        for name in ["base", *adapters]:
            reply = ask(server, name, prompt)
            assert reply["model"] == name
            first[name] = text_of(reply)
            assert reply["usage"].get("prompt_tokens_details", {}).get("cached_tokens", 0) == 0, name
        assert len(set(first.values())) == 3
        for name in ["base", *adapters]:
            again = ask(server, name, prompt)
            assert text_of(again) == first[name]
            assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        other = server.chat(prompt, model="tuned-9")
        assert other.status == 404 and other.error["code"] == "model_not_found"


def test_other_apis_name_the_adapter(tmp_path):
    adapters = draw_adapters(tmp_path, 1, 6)
    with ShoalServer("--served-model-name", "base", *options_of(adapters), model=BASE) as server:
        server.wait_ready()
        message = {"model": "tuned-0", "max_tokens": 8, "messages": [{"role": "user", "content": "hello"}]}
        assert server.request("POST", "/v1/messages", message).json["model"] == "tuned-0"
        text = server.request("POST", "/v1/completions", {"model": "tuned-0", "prompt": "hello", "max_tokens": 8})
        assert text.json["model"] == "tuned-0"
        answer = server.request("POST", "/v1/responses", {"model": "tuned-0", "input": "hello", "max_output_tokens": 16})
        assert answer.json["model"] == "tuned-0"


def test_gguf_adapters_answer_like_those_of_folders(tmp_path):
    adapters = draw_adapters(tmp_path, 4, 7)
    with ShoalServer("--kv-cache-type", "f32", *options_of(adapters), model=BASE) as server:
        server.wait_ready()
        want = {name: text_of(ask(server, name, "1 + 1 = ?")) for name in adapters}
    files = {name: (write_gguf(tmp_path / f"{name}.gguf", tensors, alpha, 8, 2), None, None)
             for name, (_, tensors, alpha) in adapters.items()}
    with ShoalServer("--kv-cache-type", "f32", *options_of(files), model=BASE.with_name("llama-f32.gguf")) as server:
        server.wait_ready()
        assert {name: text_of(ask(server, name, "1 + 1 = ?")) for name in files} == want


def test_many_adapters_in_one_batch_and_a_kill(tmp_path):
    """64 streams of 16 adapters and of none: every answer is the one that it has alone, also when the worker is killed."""
    adapters = draw_adapters(tmp_path, ADAPTERS, 8)
    draw = random.Random(9)
    models = ["base", *adapters]
    bodies = [(models[i % len(models)], {"seed": i, "temperature": draw.choice([0, 0.8]), "max_tokens": draw.randint(20, 60)},
               "words " * draw.randint(1, 12) + str(i)) for i in range(64)]
    options = ["--served-model-name", "base", "--max-sequences", "64", *options_of(adapters)]
    with ShoalServer(*options, model=BASE) as server:
        server.wait_ready()
        alone = [text_of(ask(server, model, prompt, **fields)) for model, fields, prompt in bodies]
    with ShoalServer(*options, model=BASE) as server, concurrent.futures.ThreadPoolExecutor(64) as pool:
        server.wait_ready()

        def stream(body):
            model, fields, prompt = body
            events = server.open_stream(prompt, model=model, ignore_eos=True, **fields)
            return events.text()[0]

        assert list(pool.map(stream, bodies)) == alone
        first = server.open_stream(bodies[1][2], model=bodies[1][0], ignore_eos=True, **bodies[1][1] | {"max_tokens": 400})
        first.wait_token()
        running = [pool.submit(stream, body) for body in bodies]
        os.kill(server.worker_pid(), signal.SIGKILL)
        assert [one.result(PATIENCE_S) for one in running] == alone
        first.text()
        server.wait_idle()


def last_words(*options, model=BASE):
    command = [str(BUILD / "shoal"), "serve", "--device", "cpu", "--model", str(model), "--port", "0", *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode != 0
    return ended.stderr.decode()


PAIR = {"layers.0.self_attn.q_proj.lora_A": np.ones((4, 64)), "layers.0.self_attn.q_proj.lora_B": np.ones((128, 4))}
HOSTILE_TENSORS = {
    "columns": (PAIR | {"layers.0.self_attn.q_proj.lora_A": np.ones((4, 65))}, "q_proj.lora_A.weight is [4, 65]"),
    "rows": (PAIR | {"layers.0.self_attn.q_proj.lora_B": np.ones((64, 4))}, "q_proj.lora_B.weight is [64, 4]"),
    "ranks": (PAIR | {"layers.0.self_attn.q_proj.lora_B": np.ones((128, 5))}, "have ranks 4 and 5"),
    "rank": ({"layers.0.mlp.up_proj.lora_A": np.ones((257, 64))}, "has rank 257"),
    "half": ({"layers.0.mlp.up_proj.lora_A": np.ones((4, 64))}, "the tensor B of weight model.layers.0.mlp.up_proj.weight is missing"),
    "vector": (PAIR | {"layers.0.self_attn.q_proj.lora_A": np.ones(64)}, "is not a matrix"),
    "nan": (PAIR | {"layers.0.self_attn.q_proj.lora_A": np.full((4, 64), np.nan)}, "value that is not finite"),
    "layer": ({"layers.7.mlp.up_proj.lora_A": np.ones((4, 64))}, "no projection model.layers.7.mlp.up_proj.weight"),
    "embedding": ({"embed_tokens.lora_A": np.ones((4, 64))}, "embed_tokens"),
    "magnitude": (PAIR | {"layers.0.self_attn.q_proj.lora_magnitude_vector": np.ones((4, 64))}, "lora_magnitude_vector"),
    "none": ({}, "no tensors"),
}
HOSTILE_CONFIGS = {
    "use_dora": True, "bias": "all", "modules_to_save": ["lm_head"], "lora_alpha": float("nan"), "r": 257, "peft_type": "IA3",
    "init_lora_weights": "pissa", "fan_in_fan_out": True, "layer_replication": [[0, 1]], "target_parameters": ["x"],
    "trainable_token_indices": [1], "unheard_of": 1, "alpha_pattern": {"q_.*": 3}, "use_rslora": 3, "lora_bias": True,
}


@pytest.mark.parametrize("case", HOSTILE_TENSORS)
def test_bad_tensors_are_refused(tmp_path, case):
    tensors, words = HOSTILE_TENSORS[case]
    path = write_peft(tmp_path / "bad", tensors)
    said = last_words("--lora", f"bad={path}")
    assert "adapter bad: adapter_model.safetensors: " in said and words in said, said


@pytest.mark.parametrize("member", HOSTILE_CONFIGS)
def test_bad_configs_are_refused(tmp_path, member):
    path = write_peft(tmp_path / "bad", PAIR, **{member: HOSTILE_CONFIGS[member]})
    said = last_words("--lora", f"bad={path}")
    assert "adapter bad: adapter_config.json: " in said and member in said, said


def test_bad_files_and_names_are_refused(tmp_path):
    good = write_peft(tmp_path / "good", PAIR)
    assert "NAME=PATH is expected" in last_words("--lora", str(good))
    assert "another adapter has the name a" in last_words("--lora", f"a={good}", "--lora", f"a={good}")
    assert "the model itself has this name" in last_words("--served-model-name", "a", "--lora", f"a={good}")
    assert "No such file" in last_words("--lora", f"a={tmp_path}/none")
    (good / "adapter_model.safetensors").unlink()
    assert "adapter_model.safetensors: No such file" in last_words("--lora", f"a={good}")
    (good / "adapter_model.safetensors").write_bytes(b"\xff" * 100)
    assert "adapter_model.safetensors: " in last_words("--lora", f"a={good}")
    (good / "adapter_config.json").write_text("[" * 100000)
    assert "adapter_config.json: " in last_words("--lora", f"a={good}")
    write_safetensors(tmp_path / "alone.safetensors", PAIR)
    assert "adapter a: the GGUF file: " in last_words("--lora", f"a={tmp_path}/alone.safetensors")
