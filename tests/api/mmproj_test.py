"""Vision models as GGUF files with a projector file, through the real server: images get the answers that the folder of the same
weights gives, the file is found beside the model, and one that cannot be used is named."""

import json
import shutil
import subprocess
import sys

import pytest

from shoal_server import BUILD, PATIENCE_S, ROOT, ShoalServer
from vision_folder import CHARACTERS, GEMMA4, GLM, HUNYUAN, JANUS, KIMI, KIMI_VL, LFM2, LLAVA, NEXT, PADDLE, PIXTRAL, QWEN, TEMPLATE, TOWERS, data_uri, image_part, make_folder, png, text_part, tokenizer

sys.path.insert(0, str(ROOT / "scripts/golden"))
import mmproj_files  # noqa: E402
from checkpoint_variants import read_safetensors  # noqa: E402

SQUASHED = LLAVA | {"processor": {"image_processor_type": "SiglipImageProcessorFast", "size": {"height": 20, "width": 20}}}  # SigLIP's
RED, BLUE = png(16, 16, (255, 0, 0)), png(20, 16, (0, 0, 255))
SPECIAL = {"<|endoftext|>": 2, "<|im_start|>": 93, "<|im_end|>": 94}
TOKENS = 96


def add_texts(form):
    def add(writer):
        made = tokenizer(SPECIAL | form["special"], CHARACTERS + form.get("characters", ""))
        ids = made["model"]["vocab"] | {token["content"]: token["id"] for token in made["added_tokens"]}
        names = {number: name for name, number in ids.items()}
        special = {token["id"] for token in made["added_tokens"]}
        names[next(i for i in range(TOKENS) if i not in names)] = "ZZ"  # the file must have a merge; no test writes this
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_list([names.get(i, f"[unused{i}]") for i in range(TOKENS)])
        writer.add_token_types([3 if i in special else 1 if i in names else 5 for i in range(TOKENS)])
        writer.add_token_merges(["Z Z"])
        writer.add_eos_token_id(94)
        writer.add_chat_template(TEMPLATE.replace("MARKER", form["marker"]))
    return add


def write_pair(kind, form, folder, tower_name="mmproj-tiny-f32.gguf"):
    config = json.loads((TOWERS / kind / "config.json").read_text())
    tensors = read_safetensors(TOWERS / kind / "model.safetensors")
    mmproj_files.write_text(kind, config, tensors, folder / "tiny.gguf", add_texts(form))
    mmproj_files.write_tower(kind, config, tensors, folder / tower_name)
    return folder / "tiny.gguf"


def serve(model, *options):
    return ShoalServer("--kv-cache-type", "f32", *options, model=model)


def answers(server, form):
    """One of Gemma 4's images takes half of the context."""
    more = [] if form["marker"] == GEMMA4["marker"] else [image_part(data_uri(RED))]
    found = []
    for parts in ([image_part(data_uri(RED)), text_part("ab")], [text_part("x"), image_part(data_uri(BLUE)), text_part("y"), *more]):
        reply = server.chat(parts, temperature=0, max_tokens=12, logprobs=True, top_logprobs=2, ignore_eos=True)
        assert reply.status == 200, reply.body
        choice = reply.json["choices"][0]
        tokens = [entry["token"] for entry in choice["logprobs"]["content"]]
        tokens = ["" if token == "ZZ" or token.startswith("[unused") else token for token in tokens]  # nameless in the folder
        found.append((tokens, reply.json["usage"]["prompt_tokens"]))
    return found


@pytest.mark.parametrize("kind, form", [("qwen2_5_vl", QWEN), ("gemma4", GEMMA4), ("lfm2_vl", LFM2), ("mistral3", PIXTRAL), ("pixtral", PIXTRAL), ("llava", LLAVA), ("llava_siglip", SQUASHED),
                                        ("llava_next", NEXT), ("glm4v", GLM), ("glm_ocr", GLM), ("glm4v_moe", GLM), ("paddleocr_vl", PADDLE), ("hunyuan_vl", HUNYUAN), ("janus", JANUS), ("kimi_vl", KIMI_VL), ("kimi_k25", KIMI)])
def test_the_same_answers_as_the_folder(tmp_path, kind, form):
    if kind == "qwen2_5_vl":  # bounds that the projector file's defaults would not reach with such images
        form = form | {"processor": form["processor"] | {"min_pixels": 56 * 56, "max_pixels": 28 * 28 * 16384}}
    elif kind == "gemma4":
        form = form | {"processor": form["processor"] | {"max_soft_tokens": 280}}
    elif form is GLM:
        form = form | {"processor": form["processor"] | {"size": {"shortest_edge": 112 * 112, "longest_edge": 28 * 28 * 12288}}}
    elif form is PIXTRAL:
        form = form | {"processor": form["processor"] | {"size": {"longest_edge": 64}}}
    elif form is LFM2:
        form = form | {"processor": {"encoder_patch_size": 4}}
    (tmp_path / "folder").mkdir()
    with serve(make_folder(tmp_path / "folder", kind, form)) as server:
        server.wait_ready()
        expected = answers(server, form)
    model = write_pair(kind, form, tmp_path)
    with serve(model) as server:  # found beside the model
        server.wait_ready()
        assert server.get("/v1/models").json["data"][0]["vision"] is True
        assert answers(server, form) == expected
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.move(tmp_path / "mmproj-tiny-f32.gguf", tmp_path / "elsewhere" / "tower.gguf")
    with serve(model, "--mmproj", str(moved)) as server:
        server.wait_ready()
        assert answers(server, form) == expected


def test_grids_that_are_no_whole_tiles_are_refused(tmp_path):
    config = json.loads((TOWERS / "llava_next" / "config.json").read_text())
    tensors = read_safetensors(TOWERS / "llava_next" / "model.safetensors")
    model = write_pair("llava_next", NEXT, tmp_path)
    for grid in ([13, 12], [12 * 64, 12], [0, 12]):
        broken = config | {"image_grid_pinpoints": [[12, 24], grid]}
        mmproj_files.write_tower("llava_next", broken, tensors, tmp_path / "mmproj-tiny-f32.gguf")
        with serve(model) as server:
            server.wait_ready()
            refused_image(server)
            assert "image_grid_pinpoints" in server.log_text()


def refused_image(server):
    reply = server.chat([image_part(data_uri(RED)), text_part("a")])
    assert reply.status == 400, reply.body
    assert server.chat("a", max_tokens=2).status == 200
    return reply.error["message"]


def test_without_a_tower_images_are_refused(tmp_path):
    model = write_pair("qwen2_5_vl", QWEN, tmp_path)
    with serve(model, "--mmproj", "none") as server:
        server.wait_ready()
        assert "takes no images" in refused_image(server)


def test_another_models_file_beside_it_is_not_used(tmp_path):
    model = write_pair("qwen2_5_vl", QWEN, tmp_path)
    write_pair("gemma4", GEMMA4, tmp_path, "mmproj-f16.gguf")
    write_pair("qwen2_5_vl", QWEN, tmp_path, "other.gguf")
    (tmp_path / "mmproj-tiny-f32.gguf").unlink()
    with serve(model) as server:
        server.wait_ready()
        assert "takes no images" in refused_image(server)


def test_a_named_file_must_be_usable(tmp_path):
    model = write_pair("qwen2_5_vl", QWEN, tmp_path)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes((tmp_path / "mmproj-tiny-f32.gguf").read_bytes().replace(b"clip.vision.block_count", b"clip.vision.block_c0unt"))
    ended = subprocess.run([BUILD / "shoal", "generate", "--device", "cpu", "--model", model, "--mmproj", broken, "--prompt", "a"],
                           capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 1, ended
    assert "broken.gguf: key clip.vision.block_count is missing" in ended.stderr
