"""Makes a folder with a vision model, and images to send to it.

The model is a tiny one of tests/golden/towers with random weights: Qwen2.5-VL unless another is named. Its patches are 4 pixels wide, so
an image of 16 x 8 pixels is 2 tokens of Qwen's. The folder also gets a tokenizer of single characters for the 96 tokens of the vocabulary,
a chat template and the settings of the image processor. Only the characters in CHARACTERS become tokens.
"""

import base64
import json
import shutil
import string
import struct
import zlib

from shoal_server import ROOT

TOWERS = ROOT / "tests/golden/towers"
CHARACTERS = string.ascii_letters + string.digits + " .,:!?'()<|>_/"
SPECIAL = {"<|endoftext|>": 2, "<|im_start|>": 93, "<|im_end|>": 94}
QWEN = {
    "special": {"<|vision_start|>": 89, "<|vision_end|>": 90, "<|image_pad|>": 91},
    "marker": "<|vision_start|><|image_pad|><|vision_end|>",
    "processor": {"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 4, "merge_size": 2,
                  "temporal_patch_size": 2, "min_pixels": 64, "max_pixels": 4096},
}
FILM = QWEN | {  # with videos
    "special": QWEN["special"] | {"<|video_pad|>": 92},
    "video_marker": "<|vision_start|><|video_pad|><|vision_end|>",
}
GLM = {
    "special": {"<|begin_of_image|>": 89, "<|end_of_image|>": 90, "<|image|>": 91},
    "marker": "<|begin_of_image|><|image|><|end_of_image|>",
    "processor": {"image_processor_type": "Glm4vImageProcessor", "patch_size": 4, "merge_size": 2, "temporal_patch_size": 2,
                  "size": {"shortest_edge": 128, "longest_edge": 8192}},
}
PADDLE = {
    "special": {"<|IMAGE_START|>": 89, "<|IMAGE_END|>": 90, "<|IMAGE_PLACEHOLDER|>": 91},
    "marker": "<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>",
    "processor": {"image_processor_type": "PaddleOCRVLImageProcessor", "patch_size": 4, "merge_size": 2, "temporal_patch_size": 1,
                  "size": {"shortest_edge": 64, "longest_edge": 4096}},
}
ERNIE = PADDLE | {
    "marker": "<|IMAGE_START|><|image@placeholder|><|IMAGE_END|>",
    "processor": {"image_processor_type": "Ernie_45T_VLImageProcessor", "patch_size": 4, "merge_size": 2, "temporal_conv_size": 2,
                  "min_pixels": 64, "max_pixels": 4096},
}
HUNYUAN = {
    "special": {"<｜hy_place▁holder▁no▁100｜>": 89, "<｜hy_place▁holder▁no▁101｜>": 90, "<｜hy_place▁holder▁no▁102｜>": 91},
    "marker": "<｜hy_place▁holder▁no▁100｜><｜hy_place▁holder▁no▁102｜><｜hy_place▁holder▁no▁101｜>",
    "processor": {"image_processor_type": "HunYuanVLImageProcessor", "patch_size": 4, "merge_size": 2, "temporal_patch_size": 1, "resample": 1,
                  "min_pixels": 64, "max_pixels": 4096},
}
JANUS = {
    "special": {"<begin_of_image>": 89, "<end_of_image>": 90, "<image_placeholder>": 91},
    "marker": "<image_placeholder>",
    "processor": {"image_processor_type": "JanusImageProcessor", "size": {"height": 20, "width": 20}, "min_size": 14,
                  "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]},
}
DEEPSEEK = {
    "special": {"<image>": 91},
    "marker": "<image>",
    "processor": {},
    "whole_processor": {"candidate_resolutions": [[20, 20], [20, 40], [40, 20], [40, 40], [60, 20], [20, 60]], "downsample_ratio": 2, "image_mean": [0.5, 0.5, 0.5],
                        "image_std": [0.5, 0.5, 0.5], "image_token": "<image>", "normalize": True, "patch_size": 4},
}
OCR = DEEPSEEK | {"whole_processor": DEEPSEEK["whole_processor"] | {"candidate_resolutions": [[24, 24]], "downsample_ratio": 4, "patch_size": 2, "tile_size": 16}}
MODALITY = JANUS | {"processor": {"image_processor_type": "VLMImageProcessor", "image_size": 15, "min_size": 14, "background_color": [127, 127, 127],
                                  "do_normalize": True, "rescale_factor": 0.00392156862745098}}
GEMMA4 = {
    "special": {"<|image>": 89, "<image|>": 90, "<|image|>": 91},
    "marker": "<|image|>",
    "processor": {"image_processor_type": "Gemma4ImageProcessor", "patch_size": 4, "pooling_kernel_size": 3,
                  "max_soft_tokens": 70},
}
INTERNVL = {
    "special": {"<img>": 89, "</img>": 90, "<IMG_CONTEXT>": 91},
    "marker": "<IMG_CONTEXT>",
    "processor": {"image_processor_type": "GotOcr2ImageProcessorFast", "size": {"height": 24, "width": 24}, "crop_to_patches": False,
                  "max_patches": 12},
}
LLAVA = {
    "special": {"<image>": 91},
    "marker": "<image>",
    "processor": {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 24}, "crop_size": {"height": 24, "width": 24}},
}
NEXT = {
    "special": {"<image>": 91},
    "marker": "<image>",
    "processor": {"image_processor_type": "LlavaNextImageProcessorFast", "size": {"shortest_edge": 12}, "crop_size": {"height": 12, "width": 12},
                  "image_grid_pinpoints": [[12, 12], [12, 24], [24, 12], [24, 24], [12, 36]]},
}
ONEVISION = {
    "special": {"<image>": 91},
    "marker": "<image>",
    "processor": {"image_processor_type": "LlavaOnevisionImageProcessorFast", "size": {"height": 15, "width": 15},
                  "image_grid_pinpoints": [[15, 15], [15, 30], [30, 15], [30, 30], [30, 45], [15, 45]]},
}
LFM2 = {
    "special": {"<|image_start|>": 89, "<|image_end|>": 90, "<image>": 91},
    "marker": "<image>",
    "processor": {"image_processor_type": "Lfm2VlImageProcessorFast", "encoder_patch_size": 4, "tile_size": 16, "min_image_tokens": 1,
                  "max_image_tokens": 4, "max_tiles": 6},
}
AYA = {
    "special": {"<|START_OF_IMG|>": 89, "<|END_OF_IMG|>": 90, "<|IMG_PATCH|>": 91},
    "marker": "<image>",
    "processor": {"image_processor_type": "GotOcr2ImageProcessorFast", "size": {"height": 24, "width": 24}, "crop_to_patches": True},
}
COHERE = {
    "special": {"<|START_OF_IMG|>": 89, "<|END_OF_IMG|>": 90, "<|IMG_PATCH|>": 91, "<|IMG_LINE_BREAK|>": 92},
    "marker": "<|IMG_PATCH|>",
    "processor": {"image_processor_type": "Cohere2VisionImageProcessorFast", "size": {"height": 24, "width": 24}, "patch_size": 3},
}
PIXTRAL = {
    "special": {"[IMG_BREAK]": 89, "[IMG_END]": 90, "[IMG]": 91},
    "marker": "[IMG]",
    "processor": {"image_processor_type": "PixtralImageProcessorFast", "size": {"longest_edge": 40}, "patch_size": 4},
}
KIMI = {
    "special": {"<|media_begin|>": 89, "<|media_end|>": 90, "<|media_pad|>": 91},
    "marker": "<|media_begin|><|media_pad|><|media_end|>",
    "processor": {"media_proc_cfg": {"patch_size": 4, "merge_kernel_size": 2, "in_patch_limit": 64, "patch_limit_on_one_side": 512,
                                     "fixed_output_tokens": None, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}},
}
KIMI_VL = KIMI | {"processor": {"patch_size": 4, "merge_kernel_size": [2, 2], "in_token_limit": 4096, "pad_input": True}}
MLLAMA = {
    "special": {"<|image|>": 88},
    "marker": "<|image|>",
    "processor": {"image_processor_type": "MllamaImageProcessor", "size": {"height": 12, "width": 12}, "max_image_tiles": 4, "resample": 2,
                  "do_pad": True},
}
AUDIO = {  # 40 mel rows in a second, which is the longest sound
    "special": {"<|audio_bos|>": 89, "<|audio_eos|>": 90, "<|AUDIO|>": 91},
    "marker": "",
    "audio_marker": "<|audio_bos|><|AUDIO|><|audio_eos|>",
    "processor": {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 16, "sampling_rate": 16000, "hop_length": 400,
                  "n_fft": 400, "chunk_length": 1},
}
OMNI = {  # pieces of 20 mel rows, half a second
    "special": {"<|vision_bos|>": 83, "<|vision_eos|>": 84, "<|audio_bos|>": 85, "<|audio_eos|>": 86, "<|VIDEO|>": 90, "<|AUDIO|>": 91,
                "<|IMAGE|>": 92},
    "marker": "<|vision_bos|><|IMAGE|><|vision_eos|>",
    "video_marker": "<|vision_bos|><|VIDEO|><|vision_eos|>",
    "audio_marker": "<|audio_bos|><|AUDIO|><|audio_eos|>",
    "processor": QWEN["processor"] | AUDIO["processor"] | {"chunk_length": 4},
    "video": {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2, "fps": 2, "min_frames": 4, "max_frames": 32,
              "size": {"shortest_edge": 256, "longest_edge": 2048}, "max_video_tokens": 150, "cap_pixels_per_frame": True},
}
GEMMA4_SOUND = GEMMA4 | {
    "special": GEMMA4["special"] | {"<|audio>": 86, "<audio|>": 87, "<|audio|>": 88},
    "audio_marker": "<|audio|>",
    "whole_processor": {"feature_extractor": {"feature_extractor_type": "Gemma4AudioFeatureExtractor", "feature_size": 16}},
}
GEMMA4_SOUND_WIDE = GEMMA4_SOUND | {
    "whole_processor": {"feature_extractor": {"feature_extractor_type": "Gemma4AudioFeatureExtractor", "feature_size": 20}},
}
GEMMA3N_SOUND = {
    "special": {"<start_of_audio>": 85, "<end_of_audio>": 88, "<audio_soft_token>": 89},
    "characters": "\n",
    "marker": "",
    "audio_marker": "<audio_soft_token>",
    "processor": {"feature_extractor_type": "Gemma3nAudioFeatureExtractor", "feature_size": 16},
}
FIRST_CHARACTER = 3

TEMPLATE = (
    "{%- for message in messages -%}<|im_start|>{{ message.role }}:"
    "{%- if message.content is string -%}{{ message.content }}{%- elif message.content -%}{%- for part in message.content -%}"
    "{%- if part.type == 'image' -%}MARKER{%- elif part.type == 'video' -%}VIDEO{%- elif part.type == 'audio' -%}SOUND"
    "{%- else -%}{{ part.text }}{%- endif -%}{%- endfor -%}{%- endif -%}<|im_end|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|im_start|>assistant:{%- endif -%}"
)


def make_folder(folder, tower="qwen2_5_vl", form=QWEN):
    shutil.copy(TOWERS / tower / "config.json", folder)
    shutil.copy(TOWERS / tower / "model.safetensors", folder)
    return add_assets(folder, form)


def add_assets(folder, form):
    """Adds tokenizer, template and processor settings to a folder with weights and config.json."""
    files = {
        "tokenizer.json": tokenizer(SPECIAL | form["special"], CHARACTERS + form.get("characters", "")),
        "tokenizer_config.json": {"chat_template": template(form), "eos_token": "<|im_end|>"},
        "generation_config.json": {"eos_token_id": [94], "do_sample": False},
        "preprocessor_config.json": form["processor"],
    }
    if "whole_processor" in form:
        files["processor_config.json"] = form["whole_processor"]
    if "video" in form:
        files["video_preprocessor_config.json"] = form["video"]
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def template(form):
    return TEMPLATE.replace("MARKER", form["marker"]).replace("VIDEO", form.get("video_marker", "")).replace("SOUND", form.get("audio_marker", ""))


def tokenizer(special, characters=CHARACTERS):
    vocabulary = {c.translate({32: "\u0120", 10: "\u010a"}): FIRST_CHARACTER + i for i, c in enumerate(characters)}
    assert FIRST_CHARACTER + len(characters) <= 89
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for text, i in special.items()]
    return {
        "version": "1.0", "added_tokens": added, "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
                  "merges": []},
    }


def png(width, height, colour):
    return png_of_rows(width, height, (b"\0" + bytes(colour) * width) * height)


def png_of_frame(frame):
    """Of a numpy array u8 [height, width, 3]."""
    return png_of_rows(frame.shape[1], frame.shape[0], b"".join(b"\0" + row.tobytes() for row in frame))


def png_of_rows(width, height, rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def data_uri(file):
    return "data:image/png;base64," + base64.b64encode(file).decode()


def image_part(url, **more):
    return {"type": "image_url", "image_url": {"url": url, **more}}


def text_part(text):
    return {"type": "text", "text": text}
