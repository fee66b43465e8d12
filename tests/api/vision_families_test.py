"""Vision families from an image in a request to a token of the answer: image processor, marker, tower and text model fit together."""

import sys

import numpy as np
import pytest

from shoal_server import COMPILING_S, ROOT, ShoalServer
from vision_folder import AYA, COHERE, DEEPSEEK, ERNIE, GEMMA4, GLM, HUNYUAN, INTERNVL, JANUS, KIMI, KIMI_VL, LFM2, LLAVA, MLLAMA, MODALITY, NEXT, OCR, ONEVISION, PADDLE, PIXTRAL, QWEN, data_uri, image_part, make_folder, png, text_part

sys.path.insert(0, str(ROOT / "scripts/golden"))
from checkpoint_variants import read_safetensors, write_safetensors  # noqa: E402

WIDE = image_part(data_uri(png(48, 24, (250, 10, 10))))
TALL = image_part(data_uri(png(24, 40, (10, 10, 250))))

# (tower, form, tokens of WIDE, tokens of TALL), with a token before and after each image. Qwen, GLM, ERNIE and PaddleOCR: one token for 8 x 8 pixels. Gemma 4: a grid
# of at most 70 squares, here 11 x 5 and 6 x 10. InternVL: 9 for each tile of a grid, here 2 x 1 and 2 x 3, and for the whole image. LLaVA:
# 36 for every image, and no other tokens. LLaVA-NeXT: 9 for the whole image, then lines of the grid 1 x 2 or 2 x 2 without the columns of
# padding, and one after each line. Aya: as InternVL, with the characters of TILE_k (6) and TILE_GLOBAL (11). Command A Vision: 9 and
# a line break for each tile of the grid 2 x 1 or 1 x 2 and the whole image. Pixtral: lines
# of 40 x 20 and 24 x 40 pixels in squares of 8 or 4, and a token after each. LFM2-VL: 4 for each tile of a grid, here 2 x 1 and 2 x 3, and the
# characters of its name (19), 2 for the whole image and those of <|img_thumbnail|> (17). Hunyuan: as
# Qwen, and one after each line and two around them. Janus: 25 or 9 for every image. DeepSeek-VL2: three lines of three, one after each line and one more, then
# lines of the grid 1 x 2 or 2 x 2 likewise. DeepSeek-OCR: lines of the grid 4 x 2 or 2 x 3 of squares of four, one after each line, then the whole image's 13. Llama 3.2 Vision: one for every image.
FAMILIES = [("qwen3_vl_moe", QWEN, 6 * 3 + 2, 3 * 5 + 2), ("glm4v", GLM, 6 * 3 + 2, 3 * 5 + 2), ("glm_ocr", GLM, 6 * 3 + 2, 3 * 5 + 2), ("glm4v_moe", GLM, 6 * 3 + 2, 3 * 5 + 2),
            ("paddleocr_vl", PADDLE, 6 * 3 + 2, 3 * 5 + 2), ("gemma4", GEMMA4, 11 * 5 + 2, 6 * 10 + 2),
            ("lfm2_vl", LFM2, 2 * 23 + 19 + 2, 6 * 23 + 19 + 2), ("llava_next", NEXT, 9 + 3 * 7, 9 + 6 * 5),
            ("internvl", INTERNVL, 3 * 9 + 2, 7 * 9 + 2), ("llava", LLAVA, 36, 36),
            ("aya_vision", AYA, 3 * 9 + 2 + 2 * 6 + 11, 7 * 9 + 2 + 6 * 6 + 11), ("cohere2_vision", COHERE, 3 * 10 + 2, 3 * 10 + 2),
            ("ernie4_5_vl_moe", ERNIE, 6 * 3 + 2, 3 * 5 + 2), ("janus", JANUS, 27, 27), ("deepseek_vl_v2", DEEPSEEK, 13 + 3 * 7, 13 + 6 * 7), ("deepseek_ocr", OCR, 4 * 9 + 13, 6 * 5 + 13), ("multi_modality", MODALITY, 11, 11), ("hunyuan_vl", HUNYUAN, 7 * 3 + 4, 4 * 5 + 4), ("kimi_k25", KIMI, 6 * 3 + 2, 3 * 5 + 2), ("kimi_vl", KIMI_VL, 6 * 3 + 2, 3 * 5 + 2),
            ("mllama", MLLAMA, 1, 1), ("mistral3", PIXTRAL, 3 * 6, 5 * 4), ("pixtral", PIXTRAL, 5 * 11, 10 * 7)]


MANY = {"deepseek_vl_v2": 13 + 3 * 4}  # tokens of every image of more than two


@pytest.fixture(scope="module", params=FAMILIES, ids=[family[0] for family in FAMILIES])
def family(request, tmp_path_factory):
    tower, form, wide_tokens, tall_tokens = request.param
    with ShoalServer(model=make_folder(tmp_path_factory.mktemp("model"), tower, form)) as running:
        running.wait_ready()
        running.model_name = tower
        yield running, wide_tokens, tall_tokens


def ask(server, *turns):
    """Each of `turns` is a user message; a fixed assistant message follows each but the last."""
    messages = []
    for parts in turns:
        messages += [{"role": "user", "content": [*parts, text_part("b")]}, {"role": "assistant", "content": "c"}]
    reply = server.request("POST", "/v1/chat/completions", {
        "messages": messages[:-1], "temperature": 0, "max_tokens": 6, "logprobs": True, "ignore_eos": True})
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["logprobs"]["content"], reply.json["usage"]["prompt_tokens"]


def test_images_in_turns_count_their_tokens(family):
    server, wide_tokens, tall_tokens = family
    none, one, both = ([], []), ([WIDE], []), ([WIDE], [TALL])
    empty = ask(server, *none)[1]
    assert ask(server, *one)[1] - empty == wide_tokens
    assert ask(server, *both)[1] - empty == wide_tokens + tall_tokens
    assert ask(server, [WIDE, TALL], [])[1] - empty == wide_tokens + tall_tokens
    if server.model_name in MANY:
        wide_tokens = tall_tokens = MANY[server.model_name]
    assert ask(server, [WIDE, TALL, WIDE], [])[1] - empty == 2 * wide_tokens + tall_tokens
    assert ask(server, [WIDE, TALL], [WIDE, WIDE])[1] - empty == 3 * wide_tokens + tall_tokens


def test_the_answer_depends_on_the_images_and_their_order(family):
    server, _, _ = family
    answers = [ask(server, *turns)[0] for turns in (([WIDE], [TALL]), ([TALL], [WIDE]), ([WIDE], [WIDE]), ([TALL], [TALL]))]
    assert ask(server, [WIDE], [TALL])[0] == answers[0]
    for i, answer in enumerate(answers):
        assert answer not in answers[:i]


def test_several_images_of_onevision_are_a_square_each(tmp_path):
    """Alone, an image also has the features of its tiles: 4 lines of 9 and 6 of 4, resized to 2 of 6 and 5 of 3, and a newline each."""
    with ShoalServer(model=make_folder(tmp_path, "llava_onevision", ONEVISION)) as server:
        server.wait_ready()
        empty = ask(server, [], [])[1]
        assert ask(server, [WIDE], [])[1] - empty == 9 + 2 * 7
        assert ask(server, [TALL], [])[1] - empty == 9 + 5 * 4
        assert ask(server, [WIDE], [TALL])[1] - empty == 2 * (9 + 1)
        assert ask(server, [WIDE, TALL], [])[0] != ask(server, [TALL, WIDE], [])[0]


def test_a_side_beyond_the_towers_positions_is_refused_by_numbers(tmp_path):
    """The tiny Gemma 4 mixture has 12 positions along each side, so at most 12 x 12 patches."""
    form = GEMMA4 | {"processor": GEMMA4["processor"] | {"pooling_kernel_size": 2}}
    with ShoalServer(model=make_folder(tmp_path, "gemma4_moe", form)) as server:
        server.wait_ready()
        reply = server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": [text_part("a"), WIDE]}]})
        assert reply.status == 400, reply.body
        assert (reply.json["error"]["code"], reply.json["error"]["param"]) == ("invalid_image", "messages[0].content[1]")
        assert "48 x 24 pixels becomes 22 x 10 patches, and this model has positions for 12" in reply.json["error"]["message"]
        assert len(ask(server, [])[0]) == 6


def test_more_patches_than_a_worker_takes_are_refused_by_numbers(tmp_path):
    form = QWEN | {"processor": QWEN["processor"] | {"max_pixels": 1 << 20}}
    with ShoalServer(model=make_folder(tmp_path, "qwen2_5_vl", form)) as server:
        server.wait_ready()
        large = image_part(data_uri(png(640, 576, (250, 10, 10))))
        body = {"messages": [{"role": "user", "content": [text_part("a"), large]}]}
        reply = server.request("POST", "/v1/chat/completions", body)
        assert reply.status == 400, reply.body
        assert reply.json["error"]["param"] == "messages[0].content[1]"
        assert "640 x 576 pixels becomes 23040 patches, more than 20480" in reply.json["error"]["message"]
        reply = server.request("POST", "/v1/chat/completions", body | {"resize_shape": [64, 64], "max_tokens": 1})
        assert reply.status == 200, reply.body


@pytest.mark.parametrize("options", [[], pytest.param(["--device", "vulkan", "--worker-timeout", str(COMPILING_S)], marks=pytest.mark.long)], ids=["cpu", "vulkan"])
def test_rows_of_text_use_no_experts_of_images(tmp_path, options):
    """In the second folder the experts of images give NaN, so a row that used one, with a weight of 0 too, would have no logits."""
    answers, seen = [], []
    for name, spoiled in (("whole", lambda expert: False), ("images", lambda expert: expert >= 6)):
        (tmp_path / name).mkdir()
        folder = make_folder(tmp_path / name, "ernie4_5_vl_moe", ERNIE)
        tensors = read_safetensors(folder / "model.safetensors")
        for tensor, array in tensors.items():
            if ".experts." in tensor and spoiled(int(tensor.split(".experts.")[1].split(".")[0])):
                array[:] = np.nan
        write_safetensors(folder / "model.safetensors", tensors, "BF16")
        with ShoalServer(*options, model=folder) as server:
            server.wait_ready(COMPILING_S)
            answers.append([ask(server, *turns) for turns in (([],), ([], []))])
            seen.append(ask(server, [WIDE])[0])
    assert answers[0] == answers[1] and seen[0] != seen[1]
