"""Checkpoints in folders give the same answers as the GGUF file, in every type and split into several files. If a folder cannot be served,
the server exits with a message that names the file and the reason."""

import shutil
import subprocess
import sys

import pytest
from shoal_server import BUILD, MODEL, ROOT, ShoalServer

FORMS = ROOT / "build/checkpoints"  # scripts/golden/checkpoint_variants.py
SMOLLM2_FOLDER = ROOT / "build/cache/models/smollm2-135m-instruct-f16"
SMOLLM2_F32 = ROOT / "build/cache/models/smollm2-135m-instruct-f32.gguf"
ENDS = 60


def answers_of(model, prompts, **fields):
    """(text, finish_reason, prompt tokens, completion tokens) of the greedy answer to each prompt."""
    with ShoalServer("--kv-cache-type", "f32", model=model) as server:
        server.wait_ready()
        names = [entry["id"] for entry in server.get("/v1/models").json["data"]]
        assert names == [model.name.removesuffix(".gguf")]
        answers = []
        for prompt in prompts:
            reply = server.chat(prompt, temperature=0, **fields).json
            choice = reply["choices"][0]
            answers.append((choice["message"]["content"], choice["finish_reason"], reply["usage"]["prompt_tokens"],
                            reply["usage"]["completion_tokens"]))
        return answers


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_every_form_of_a_tiny_checkpoint_answers_alike(family):
    prompts = ["hello", "1 + 1 = \u00e9?"]
    expected = answers_of(FORMS / f"{family}-f32.gguf", prompts, max_tokens=24)
    assert any(completion > 4 for _, _, _, completion in expected)
    for form in ("f32", "bf16", "f16-sharded"):
        assert answers_of(FORMS / f"{family}-{form}", prompts, max_tokens=24) == expected, form


@pytest.mark.long
def test_the_default_model_from_a_folder():
    if not SMOLLM2_FOLDER.exists():
        command = [sys.executable, str(ROOT / "scripts/golden/gguf_to_folder.py"), str(MODEL), str(SMOLLM2_FOLDER)]
        subprocess.run(command, check=True)
    prompts = ["What is the capital of France?", "Write a haiku about the sea."]
    folder = answers_of(SMOLLM2_FOLDER, prompts, max_tokens=16)
    assert "Paris" in folder[0][0]
    if SMOLLM2_F32.exists():  # made by make test-unit
        assert folder == answers_of(SMOLLM2_F32, prompts, max_tokens=16)


def last_words(folder):
    command = [str(BUILD / "shoal"), "serve", "--device", "cpu", "--model", str(folder), "--port", "0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=ENDS)
    assert ended.returncode == 1, ended
    return ended.stderr.decode()


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(FORMS / "llama-bf16", tmp_path / "model")
    return tmp_path / "model"


def test_a_missing_tokenizer(folder):
    (folder / "tokenizer.json").unlink()
    assert f"{folder}: the folder has neither tokenizer.json nor tokenizer.model" in last_words(folder)


def test_weights_cut_short(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    words = last_words(folder)
    assert "model.safetensors: tensor model." in words and "of the file" in words, words


def test_another_architecture(folder):
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"model_type": "llama"', '"model_type": "mamba"'))
    assert 'config.json: model_type "mamba" is not supported' in last_words(folder)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path):
    """Hugging Face's cache with one repository, tiny/llama: files are links into a store."""
    repository = tmp_path / "hub/models--tiny--llama"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(COMMIT)
    for number, file in enumerate((FORMS / "llama-bf16-sharded").iterdir()):
        shutil.copy(file, repository / "blobs" / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    return tmp_path / "hub"


def test_a_repository_in_the_cache_is_served_under_its_name(hub):
    with ShoalServer("--hf-cache", str(hub), model="tiny/llama") as server:
        server.wait_ready()
        assert [entry["id"] for entry in server.get("/v1/models").json["data"]] == ["tiny/llama"]
        assert server.get("/v1/models/tiny/llama").json["id"] == "tiny/llama"
        assert server.chat("hello", model="tiny/llama", max_tokens=4).status == 200


def test_a_missing_repository_names_the_command(hub):
    command = [str(BUILD / "shoal"), "serve", "--device", "cpu", "--model", "tiny/gemma3", "--hf-cache", str(hub), "--port", "0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=ENDS)
    assert ended.returncode == 2
    assert ended.stderr.decode().rstrip().endswith("to fetch it: shoal pull tiny/gemma3")
