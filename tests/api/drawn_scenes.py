"""Small vision models of drawn sizes, and a prompt with an image, for drawn_scenes_test.py: `draw(name, drawn)` gives a config, the text's
family of scripts/golden/families with its config, and the image's size."""

import dataclasses
import typing

import drawn_texts
from drawn_texts import GOLDEN

VOCAB, IMAGE, BEGIN, END = 96, 91, 89, 90


def text_of(name, drawn, **settings):
    """(module, config) of a family of text, without what only the whole's config has."""
    family, config = drawn_texts.drawn_config(name, drawn)
    config = {key: value for key, value in config.items() if key not in ("architectures", "torch_dtype")}
    return family, config | {"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 2} | settings


def sections(drawn, config, pairs, interleaved):
    """Of three axes; if they take turns, line and column have the same number."""
    across = drawn.randint(1, pairs // 3) if pairs >= 3 else 0
    down = across if interleaved else drawn.randint(0, pairs - across)
    rope = {"rope_type": "default", "rope_theta": config.get("rope_theta", 5000.0), "mrope_section": [pairs - across - down, down, across]}
    return rope | ({"mrope_interleaved": True} if interleaved else {})


def with_sections(drawn, name, interleaved):
    family, config = text_of(name, drawn)
    rope = sections(drawn, config, config["head_dim"] // 2, interleaved)
    config = {key: value for key, value in config.items() if key not in ("rope_scaling", "rope_theta", "sliding_window")}
    return family, config | {"rope_parameters": rope, "use_sliding_window": False, "sliding_window": None}


def tower_sizes(drawn, multiple=4):
    """multiple: of a head's columns."""
    heads = drawn.randint(1, 3)
    return {"hidden_size": multiple * drawn.randint(1, 4) * heads, "intermediate_size": 8 * drawn.randint(2, 8), "heads": heads,
            "layers": drawn.randint(1, 3), "patch_size": drawn.randint(2, 5)}


TOKENS = {"image_token_id": IMAGE, "video_token_id": 92, "vision_start_token_id": BEGIN, "vision_end_token_id": END}


def qwen_tower(drawn, kind, text):
    found = tower_sizes(drawn)
    return {"model_type": kind, "depth": found["layers"], "hidden_size": found["hidden_size"], "intermediate_size": found["intermediate_size"],
            "num_heads": found["heads"], "patch_size": found["patch_size"], "spatial_merge_size": drawn.randint(1, 3), "temporal_patch_size": 2,
            "out_hidden_size": text["hidden_size"]}


def any_size(drawn, vision, merge):
    unit = vision["patch_size"] * merge
    return drawn.randint(1, 5) * unit, drawn.randint(1, 5) * unit


def draw_qwen2_vl(drawn):
    family, text = with_sections(drawn, "qwen2", False)
    vision = qwen_tower(drawn, "qwen2_vl", text)
    del vision["out_hidden_size"], vision["intermediate_size"]
    vision |= {"embed_dim": vision["hidden_size"], "hidden_size": text["hidden_size"], "mlp_ratio": drawn.randint(1, 4), "hidden_act": "quick_gelu", "in_channels": 3}
    return {**TOKENS, "text_config": text | {"model_type": "qwen2_vl_text"}, "vision_config": vision}, family, any_size(drawn, vision, vision["spatial_merge_size"])


def draw_qwen2_5_vl(drawn):
    family, text = with_sections(drawn, "qwen2", False)
    vision = qwen_tower(drawn, "qwen2_5_vl", text)
    merge = vision["spatial_merge_size"]
    vision |= {"hidden_act": "silu", "in_chans": 3, "spatial_patch_size": vision["patch_size"], "tokens_per_second": 2,
               "window_size": drawn.randint(1, 3) * vision["patch_size"] * merge,
               "fullatt_block_indexes": sorted(drawn.sample(range(vision["depth"]), drawn.randint(0, vision["depth"])))}
    return {**TOKENS, "text_config": text | {"model_type": "qwen2_5_vl_text"}, "vision_config": vision}, family, any_size(drawn, vision, merge)


def draw_qwen3_vl(drawn):
    family, text = with_sections(drawn, "qwen3", True)
    vision = qwen_tower(drawn, "qwen3_vl", text)
    stacks = drawn.randint(0, min(vision["depth"], text["num_hidden_layers"] - 1))
    vision |= {"hidden_act": "gelu_pytorch_tanh", "in_channels": 3, "num_position_embeddings": drawn.randint(2, 6) ** 2,
               "deepstack_visual_indexes": sorted(drawn.sample(range(vision["depth"]), stacks))}
    return {**TOKENS, "text_config": text | {"model_type": "qwen3_vl_text"}, "vision_config": vision}, family, any_size(drawn, vision, vision["spatial_merge_size"])


def draw_qwen3_5(drawn):
    family, text = text_of("qwen3_5", drawn)
    turning = text["rope_parameters"]["partial_rotary_factor"]
    rope = sections(drawn, {"rope_theta": 5000.0}, int(text["head_dim"] * turning) // 2, True)
    text["rope_parameters"] = rope | {"partial_rotary_factor": turning}
    vision = qwen_tower(drawn, "qwen3_5", text) | {"hidden_act": "gelu_pytorch_tanh", "in_channels": 3, "num_position_embeddings": drawn.randint(2, 6) ** 2}
    return {**TOKENS, "text_config": text, "vision_config": vision}, family, any_size(drawn, vision, vision["spatial_merge_size"])


def square_tower(drawn, kind, side):
    """Of one size of images, `side` patches each way."""
    found = tower_sizes(drawn)
    return {"model_type": kind, "hidden_size": found["hidden_size"], "intermediate_size": found["intermediate_size"], "num_hidden_layers": found["layers"],
            "num_attention_heads": found["heads"], "patch_size": found["patch_size"], "image_size": side * found["patch_size"], "num_channels": 3}


def fixed(vision):
    return vision["image_size"], vision["image_size"]


def draw_gemma3(drawn):
    """Windows are not shorter than an image: transformers' would let its rows see all of it, and the product's see what is in the window."""
    family, text = text_of("gemma3", drawn)
    tokens = drawn.randint(1, 4)
    text["sliding_window"] = max(text["sliding_window"], tokens ** 2)
    vision = square_tower(drawn, "siglip_vision_model", tokens * drawn.randint(1, 3)) | {
        "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6, "vision_use_head": False}
    return {"image_token_index": IMAGE, "image_token_id": IMAGE, "boi_token_index": BEGIN, "eoi_token_index": END, "mm_tokens_per_image": tokens ** 2,
            "text_config": text, "vision_config": vision}, family, fixed(vision)


def draw_smolvlm(drawn):
    family, text = plain_text(drawn)
    join = drawn.randint(1, 3)
    vision = square_tower(drawn, "smolvlm_vision", join * drawn.randint(1, 4)) | {"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6}
    return {"image_token_id": IMAGE, "scale_factor": join, "text_config": text, "vision_config": vision}, family, fixed(vision)


def plain_text(drawn):
    """Llama's, without the scaling of its golden checkpoint."""
    family, text = text_of("llama", drawn)
    del text["rope_scaling"]
    return family, text


def draw_llava(drawn):
    family, text = plain_text(drawn)
    vision = square_tower(drawn, "clip_vision_model", drawn.randint(2, 6)) | {"projection_dim": 16, "vocab_size": VOCAB, "num_hidden_layers": drawn.randint(2, 4)}
    return {"image_token_index": IMAGE, "projector_hidden_act": "gelu", "vision_feature_layer": drawn.choice([-1, -2]), "vision_feature_select_strategy": "default",
            "image_seq_length": (vision["image_size"] // vision["patch_size"]) ** 2, "text_config": text, "vision_config": vision}, family, fixed(vision)


def draw_llava_siglip(drawn):
    family, text = text_of("mistral", drawn)
    vision = square_tower(drawn, "siglip_vision_model", drawn.randint(2, 6)) | {"vision_use_head": False, "num_hidden_layers": drawn.randint(3, 4)}
    return {"image_token_index": IMAGE, "projector_hidden_act": "gelu", "vision_feature_layer": drawn.choice([-1, -2, -3]), "vision_feature_select_strategy": "full",
            "multimodal_projector_bias": drawn.random() < 0.5, "image_seq_length": (vision["image_size"] // vision["patch_size"]) ** 2, "text_config": text,
            "vision_config": vision}, family, fixed(vision)


def draw_pixtral(drawn):
    family, text = text_of("mistral", drawn)
    found = tower_sizes(drawn)
    vision = {"model_type": "pixtral", "hidden_size": found["hidden_size"], "intermediate_size": found["intermediate_size"], "num_hidden_layers": found["layers"],
              "num_attention_heads": found["heads"], "head_dim": found["hidden_size"] // found["heads"], "patch_size": found["patch_size"],
              "image_size": 8 * found["patch_size"], "hidden_act": drawn.choice(["silu", "gelu"]), "rope_theta": drawn.choice([100.0, 10000.0])}
    return {"image_token_index": IMAGE, "projector_hidden_act": "gelu", "vision_feature_layer": -1, "vision_feature_select_strategy": "full",
            "text_config": text, "vision_config": vision}, family, any_size(drawn, vision, 1)


def draw_internvl(drawn):
    family, text = text_of("qwen2", drawn, use_sliding_window=False)
    join = drawn.choice([1, 2])
    side = join * drawn.randint(1, 4)
    vision = square_tower(drawn, "internvl_vision", side)
    vision |= {"image_size": [vision["image_size"]] * 2, "patch_size": [vision["patch_size"]] * 2, "attention_bias": True}
    return {"image_token_id": IMAGE, "downsample_ratio": 1 / join, "image_seq_length": (side // join) ** 2, "projector_hidden_act": "gelu",
            "vision_feature_layer": -1, "text_config": text, "vision_config": vision}, family, tuple(vision["image_size"])


def cohere_vision(drawn, further):
    family, text = text_of("cohere2", drawn)
    join = drawn.randint(1, 3)
    vision = square_tower(drawn, "siglip_vision_model", join * drawn.randint(1, 4)) | {"vision_use_head": False}
    return {"downsample_factor": join, "alignment_intermediate_size": 8 * drawn.randint(2, 9), "text_config": text, "vision_config": vision,
            **further}, family, fixed(vision)


def draw_aya_vision(drawn):
    return cohere_vision(drawn, {"image_token_index": IMAGE, "adapter_layer_norm_eps": 1e-5, "vision_feature_layer": -1,
                                 "vision_feature_select_strategy": "full"})


def draw_cohere2_vision(drawn):
    return cohere_vision(drawn, {"image_token_id": IMAGE})


def glm_of(drawn, kind, small):
    """glm_ocr (small): the whole of a head turns."""
    family, text = text_of("glm4", drawn)
    text["head_dim"] = 8 * drawn.randint(1, 3)
    part = 1.0 if small else drawn.choice([0.5, 1.0])
    pairs = int(text["head_dim"] * part) // 2
    rope = sections(drawn, {"rope_theta": 5000.0}, pairs, False) | {"partial_rotary_factor": part}
    text = {key: value for key, value in text.items() if key not in ("rope_theta",)}
    text |= {"model_type": f"{kind}_text", "rope_parameters": rope, "partial_rotary_factor": part, "attention_bias": not small}
    vision = qwen_tower(drawn, f"{kind}_vision", text)
    vision |= {"hidden_act": "silu", "attention_bias": drawn.random() < 0.5, "rms_norm_eps": drawn.choice([1e-5, 1e-3]),
               "spatial_merge_size": drawn.randint(2, 3), "image_size": drawn.randint(2, 6) * vision["patch_size"]}
    tokens = {"image_token_id": IMAGE, "video_token_id": 92, "image_start_token_id": BEGIN, "image_end_token_id": END, "video_start_token_id": 87,
              "video_end_token_id": 88}
    return {**tokens, "text_config": text, "vision_config": vision}, family, any_size(drawn, vision, vision["spatial_merge_size"])


def draw_glm4v(drawn):
    return glm_of(drawn, "glm4v", False)


def draw_glm_ocr(drawn):
    return glm_of(drawn, "glm_ocr", True)


def draw_kimi_vl(drawn):
    family, text = text_of("deepseek_v3", drawn)
    found, merge = tower_sizes(drawn, 8), drawn.randint(1, 3)
    side = drawn.randint(2, 6)
    vision = {"model_type": "moonvit", "hidden_size": found["hidden_size"], "intermediate_size": found["intermediate_size"],
              "num_hidden_layers": found["layers"], "num_attention_heads": found["heads"], "patch_size": found["patch_size"],
              "init_pos_emb_height": side, "init_pos_emb_width": side, "merge_kernel_size": [merge, merge]}
    return {"ignore_index": -100, "media_placeholder_token_id": IMAGE, "vocab_size": VOCAB, "text_config": text | {"vocab_size": VOCAB},
            "vision_config": vision}, family, any_size(drawn, vision, merge)


@dataclasses.dataclass
class Kind:
    draw: typing.Callable
    text: str             # family of scripts/golden/families
    architecture: str
    at: str = "language_model.model."  # what the text's tensors begin with
    head: str = "language_model.lm_head"
    model_type: str = ""
    merge: typing.Callable = None  # side of a square, if tokens turn by line and column
    whole: bool = False   # an image sees itself as a whole
    without: str = "-"    # no tensors of text whose names end so


def merged(config):
    return config["vision_config"]["spatial_merge_size"]


QWEN = {"at": "model.language_model.", "head": "lm_head", "merge": merged}
KINDS = {
    "qwen2_vl": Kind(draw_qwen2_vl, "qwen2", "Qwen2VLForConditionalGeneration", "model.", "lm_head", merge=merged),
    "qwen2_5_vl": Kind(draw_qwen2_5_vl, "qwen2", "Qwen2_5_VLForConditionalGeneration", "model.", "lm_head", merge=merged),
    "qwen3_vl": Kind(draw_qwen3_vl, "qwen3", "Qwen3VLForConditionalGeneration", **QWEN),
    "qwen3_5": Kind(draw_qwen3_5, "qwen3_5", "Qwen3_5ForConditionalGeneration", **QWEN),
    "gemma3": Kind(draw_gemma3, "gemma3", "Gemma3ForConditionalGeneration", whole=True),
    "smolvlm": Kind(draw_smolvlm, "llama", "SmolVLMForConditionalGeneration", "model.text_model.", "lm_head"),
    "llava": Kind(draw_llava, "llama", "LlavaForConditionalGeneration"),
    "llava_siglip": Kind(draw_llava_siglip, "mistral", "LlavaForConditionalGeneration", model_type="llava"),
    "pixtral": Kind(draw_pixtral, "mistral", "LlavaForConditionalGeneration", model_type="llava"),
    "glm4v": Kind(draw_glm4v, "glm4", "Glm4vForConditionalGeneration", **QWEN),
    "glm_ocr": Kind(draw_glm_ocr, "glm4", "GlmOcrForConditionalGeneration", **QWEN, without="_proj.bias"),
    "kimi_vl": Kind(draw_kimi_vl, "deepseek_v3", "KimiVLForConditionalGeneration"),
    "internvl": Kind(draw_internvl, "qwen2", "InternVLForConditionalGeneration"),
    "aya_vision": Kind(draw_aya_vision, "cohere2", "AyaVisionForConditionalGeneration"),
    "cohere2_vision": Kind(draw_cohere2_vision, "cohere2", "Cohere2VisionForConditionalGeneration", "model.language_model.", "lm_head"),
}


def draw(name, drawn):
    """(config, module of the text, (height, width))"""
    kind = KINDS[name]
    config, family, size = kind.draw(drawn)
    text = config["text_config"]
    tied = {"tie_word_embeddings": text["tie_word_embeddings"]} if "tie_word_embeddings" in text else {}
    return {"architectures": [kind.architecture], "model_type": kind.model_type or name, **tied, **config}, family, size


assert all(kind.text in GOLDEN for kind in KINDS.values())
