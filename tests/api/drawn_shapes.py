"""Configurations, tensors' shapes and image processors of small vision models, drawn from a random source, for drawn_towers_test.py."""

import numpy as np

VOCAB, IMAGE = 96, 91


def draw_text(drawn):
    heads = drawn.choice([1, 2, 3, 4])
    return {"hidden_size": 8 * drawn.randint(3, 8), "intermediate_size": 8 * drawn.randint(3, 9), "num_hidden_layers": drawn.randint(1, 3),
            "num_attention_heads": heads, "num_key_value_heads": drawn.choice([n for n in range(1, heads + 1) if heads % n == 0]),
            "head_dim": 8 * drawn.randint(1, 3), "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
            "rope_theta": 5000.0, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}


def draw_tower(drawn):
    heads = drawn.randint(1, 4)
    return {"hidden_size": 4 * drawn.randint(2, 5) * heads, "intermediate_size": 8 * drawn.randint(3, 9),
            "num_hidden_layers": drawn.randint(1, 3), "num_attention_heads": heads, "patch_size": drawn.randint(2, 6)}


def text_shapes(text, at, head):
    hidden, wide = text["hidden_size"], text["intermediate_size"]
    queries, keys = (text[name] * text["head_dim"] for name in ("num_attention_heads", "num_key_value_heads"))
    shapes = {at + "embed_tokens.weight": (VOCAB, hidden), at + "norm.weight": (hidden,), head: (VOCAB, hidden)}
    for layer in range(text["num_hidden_layers"]):
        shapes |= {f"{at}layers.{layer}.{name}.weight": shape for name, shape in {
            "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,), "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden), "self_attn.v_proj": (keys, hidden), "self_attn.o_proj": (hidden, queries),
            "mlp.gate_proj": (wide, hidden), "mlp.up_proj": (wide, hidden), "mlp.down_proj": (hidden, wide)}.items()}
    return shapes


def with_biases(shapes):
    return {f"{name}.{kind}": shape if kind == "weight" else shape[:1] for name, shape in shapes.items() for kind in ("weight", "bias")}


def siglip_shapes(vision, at, positions):
    hidden, wide = vision["hidden_size"], vision["intermediate_size"]
    shapes = {at + "embeddings.patch_embedding": (hidden, 3 * vision["patch_size"] ** 2), at + "post_layernorm": (hidden,)}
    for layer in range(vision["num_hidden_layers"]):
        shapes |= {f"{at}encoder.layers.{layer}.{name}": shape for name, shape in {
            "layer_norm1": (hidden,), "layer_norm2": (hidden,), "mlp.fc1": (wide, hidden), "mlp.fc2": (hidden, wide),
            **{f"self_attn.{part}_proj": (hidden, hidden) for part in ("q", "k", "v", "out")}}.items()}
    return with_biases(shapes) | {at + "embeddings.position_embedding.weight": (positions, hidden)}


def draw_weights(numbers, shapes):
    """Norms and biases are small; the head's rows make log-probabilities differ."""
    found = {}
    for name, shape in shapes.items():
        array = numbers.standard_normal(shape)
        if len(shape) == 1:
            array = 0.2 * array + (0 if name.endswith(".bias") else 1)
        elif "embed_tokens" not in name and "position_embedding" not in name:
            array *= (3 if "lm_head" in name else 1) / np.sqrt(np.prod(shape[1:]))
        found[name] = array.astype(np.float32)
    return found


# --- families: (config, shapes, pixels of a placeholder's side, processor) ------------------------

def mistral3(drawn):
    text, vision, merge = draw_text(drawn), draw_tower(drawn), drawn.randint(1, 3)
    patch, hidden, wide, rows = vision["patch_size"], vision["hidden_size"], vision["intermediate_size"], text["hidden_size"]
    vision |= {"model_type": "pixtral", "image_size": 192, "hidden_act": drawn.choice(["gelu", "silu"]), "rope_theta": 10000.0}
    config = {"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": IMAGE,
              "spatial_merge_size": merge, "multimodal_projector_bias": drawn.random() < 0.5, "projector_hidden_act": "gelu",
              "vision_feature_layer": -1, "tie_word_embeddings": False, "vision_config": vision,
              "text_config": text | {"model_type": "mistral", "sliding_window": None}}
    shapes = text_shapes(text, "language_model.model.", "language_model.lm_head.weight")
    shapes |= {"vision_tower.patch_conv.weight": (hidden, 3, patch, patch), "vision_tower.ln_pre.weight": (hidden,)}
    for layer in range(vision["num_hidden_layers"]):
        shapes |= {f"vision_tower.transformer.layers.{layer}.{name}.weight": shape for name, shape in {
            "attention_norm": (hidden,), "ffn_norm": (hidden,), "feed_forward.gate_proj": (wide, hidden),
            "feed_forward.up_proj": (wide, hidden), "feed_forward.down_proj": (hidden, wide),
            **{f"attention.{part}_proj": (hidden, hidden) for part in "qkvo"}}.items()}
    projector = with_biases({"multi_modal_projector.linear_1": (rows, hidden), "multi_modal_projector.linear_2": (rows, rows)})
    shapes |= {name: shape for name, shape in projector.items() if config["multimodal_projector_bias"] or name.endswith("weight")}
    shapes |= {"multi_modal_projector.norm.weight": (hidden,),
               "multi_modal_projector.patch_merger.merging_layer.weight": (hidden, hidden * merge * merge)}
    processor = {"size": {"longest_edge": 192}, "patch_size": patch}
    return config, shapes, patch * merge, processor


def paddleocr_vl(drawn):
    text, vision, merge, side = draw_text(drawn), draw_tower(drawn), 2, drawn.randint(2, 7)
    patch, hidden = vision["patch_size"], vision["hidden_size"]
    first = drawn.randint(0, text["head_dim"] // 2)
    second = drawn.randint(0, text["head_dim"] // 2 - first)
    sections = [first, second, text["head_dim"] // 2 - first - second]
    config = text | {"model_type": "paddleocr_vl", "architectures": ["PaddleOCRVLForConditionalGeneration"], "image_token_id": IMAGE,
                     "use_bias": False, "rope_scaling": {"mrope_section": sections, "rope_type": "default", "type": "default"},
                     "vision_config": vision | {"model_type": "paddleocr_vl", "image_size": side * patch, "spatial_merge_size": merge,
                                                "layer_norm_eps": 1e-6}}
    shapes = text_shapes(text, "model.", "lm_head.weight") | siglip_shapes(vision, "visual.vision_model.", side * side)
    shapes["visual.vision_model.embeddings.patch_embedding.weight"] = (hidden, 3, patch, patch)
    inner = hidden * merge * merge
    shapes |= with_biases({"mlp_AR.pre_norm": (hidden,), "mlp_AR.linear_1": (inner, inner), "mlp_AR.linear_2": (text["hidden_size"], inner)})
    processor = {"patch_size": patch, "merge_size": merge, "size": {"shortest_edge": 64, "longest_edge": 4096}}
    return config, shapes, patch * merge, processor


def lfm2_vl(drawn):
    text, vision, factor, side = draw_text(drawn), draw_tower(drawn), drawn.randint(1, 3), drawn.randint(2, 7)
    config = {"model_type": "lfm2_vl", "architectures": ["Lfm2VlForConditionalGeneration"], "image_token_id": IMAGE,
              "downsample_factor": factor, "projector_hidden_size": 8 * drawn.randint(2, 9), "tie_word_embeddings": False,
              "projector_use_layernorm": drawn.random() < 0.5, "text_config": text | {"model_type": "llama"},
              "vision_config": vision | {"model_type": "siglip2_vision_model", "num_patches": side * side, "vision_use_head": False}}
    inner, wide, at = vision["hidden_size"] * factor ** 2, config["projector_hidden_size"], "model.multi_modal_projector."
    shapes = text_shapes(text, "model.language_model.", "lm_head.weight") | siglip_shapes(vision, "model.vision_tower.", side * side)
    shapes |= with_biases({at + "linear_1": (wide, inner), at + "linear_2": (text["hidden_size"], wide)})
    if config["projector_use_layernorm"]:
        shapes |= with_biases({at + "layer_norm": (inner,)})
    processor = {"encoder_patch_size": vision["patch_size"], "downsample_factor": factor, "tile_size": 4 * vision["patch_size"] * factor,
                 "min_image_tokens": 1, "max_image_tokens": 64}
    return config, shapes, vision["patch_size"] * factor, processor


def clip_layers(at, count, hidden, wide, norms, attention, fed=("mlp.fc1", "mlp.fc2")):
    """Shapes of layers with biases everywhere."""
    return with_biases({f"{at}{layer}.{name}": shape for layer in range(count) for name, shape in {
        **{norm: (hidden,) for norm in norms}, **{part: (hidden, hidden) for part in attention}, fed[0]: (wide, hidden),
        fed[1]: (hidden, wide)}.items()})


def janus(drawn):
    text, vision, side = draw_text(drawn), draw_tower(drawn), drawn.randint(3, 7)
    patch, hidden = vision["patch_size"], vision["hidden_size"]
    vision.pop("intermediate_size")
    vision |= {"model_type": "janus_vision_model", "mlp_ratio": drawn.choice([1.25, 1.5, 2.0]), "image_size": side * patch,
               "projection_dim": text["hidden_size"], "layer_norm_eps": 1e-6, "hidden_act": "gelu", "attention_bias": True, "depth": 2,
               "num_image_tokens": side * side}
    config = {"model_type": "janus", "architectures": ["JanusForConditionalGeneration"], "image_token_id": IMAGE, "tie_word_embeddings": False,
              "text_config": text | {"model_type": "llama"}, "vision_config": vision}
    at = "model.vision_model."
    shapes = text_shapes(text, "model.language_model.", "lm_head.weight") | clip_layers(
        at + "encoder.layers.", vision["num_hidden_layers"], hidden, int(hidden * vision["mlp_ratio"]), ("layer_norm1", "layer_norm2"),
        [f"self_attn.{part}" for part in ("q_proj", "k_proj", "v_proj", "projection_layer")])
    shapes |= with_biases({at + "embeddings.patch_embedding": (hidden, 3, patch, patch), at + "post_layernorm": (hidden,),
                           "model.aligner.fc1": (text["hidden_size"], hidden), "model.aligner.hidden_layers.0": (text["hidden_size"],) * 2})
    shapes[at + "embeddings.position_embedding.weight"] = (side * side, hidden)
    return config, shapes, patch, {"size": {"height": side * patch, "width": side * patch}, "min_size": 1}


def hunyuan_vl(drawn):
    text, vision, merge, side = draw_text(drawn), draw_tower(drawn), drawn.randint(2, 3), drawn.randint(2, 7)
    patch, hidden, rows, pairs = vision["patch_size"], vision["hidden_size"], text["hidden_size"], text["head_dim"] // 2
    cuts = sorted(drawn.sample(range(1, pairs), 2))
    rope = {"rope_type": "default", "rope_theta": text.pop("rope_theta"), "mrope_section": [cuts[0], cuts[1] - cuts[0], pairs - cuts[1]]}
    if drawn.random() < 0.5:
        rope |= {"rope_type": "dynamic", "alpha": 50.0, "factor": 1.0}
    config = {"model_type": "hunyuan_vl", "architectures": ["HunYuanVLForConditionalGeneration"], "image_token_id": IMAGE, "im_start_id": 89,
              "im_end_id": 90, "im_newline_id": 88, "tie_word_embeddings": False,
              "text_config": text | {"model_type": "hunyuan_vl_text", "rope_parameters": rope},
              "vision_config": vision | {"model_type": "hunyuan_vl_vision", "hidden_act": "gelu", "interpolate_mode": "bilinear", "spatial_merge_size": merge,
                                         "max_image_size": side * patch, "temporal_patch_size": 1, "rms_norm_eps": 1e-5, "out_hidden_size": rows,
                                         "text_hidden_size": rows}}
    at = "model.vision_tower."
    shapes = text_shapes(text, "model.language_model.", "lm_head.weight")
    shapes |= {f"model.language_model.layers.{layer}.self_attn.{part}_layernorm.weight": (text["head_dim"],)
               for layer in range(text["num_hidden_layers"]) for part in ("query", "key")}
    shapes |= clip_layers(at + "layers.", vision["num_hidden_layers"], hidden, vision["intermediate_size"], ("layer_norm1", "layer_norm2"),
                          [f"self_attn.{part}_proj" for part in "qkvo"])
    shapes |= with_biases({at + "embeddings.patch_embedding": (hidden, 3, patch, patch), at + "patch_merger.proj_conv": (2 * hidden, hidden, merge, merge),
                           at + "patch_merger.proj_out": (4 * hidden, 2 * hidden, 1, 1), at + "patch_merger.mlp": (rows, 4 * hidden)})
    shapes |= {at + "embeddings.position_embedding.weight": (side * side + 1, hidden), at + "patch_merger.before_rms.weight": (hidden,),
               at + "patch_merger.after_rms.weight": (rows,), at + "patch_merger.image_newline": (4 * hidden,)}
    shapes |= {f"{at}patch_merger.image_{part}": (rows,) for part in ("begin", "end", "sep")}
    return config, shapes, patch * merge, {"patch_size": patch, "merge_size": merge}


def expert_shapes(at, hidden, widths):
    return {f"{at}experts.{i}.{part}_proj.weight": (hidden, wide) if part == "down" else (wide, hidden)
            for i, wide in enumerate(widths) for part in ("gate", "up", "down")}


def gated_shapes(at, hidden, wide):
    return {f"{at}{part}_proj.weight": (hidden, wide) if part == "down" else (wide, hidden) for part in ("gate", "up", "down")}


def glm4v_moe(drawn):
    """The projector file's default bounds take images of at least 6,272 pixels."""
    text, vision, merge, side = draw_text(drawn), draw_tower(drawn), 2, drawn.randint(3, 8)
    vision["patch_size"] = patch = drawn.randint(6, 9)
    hidden, rows, wide, heads = vision["hidden_size"], text["hidden_size"], vision["intermediate_size"], vision.pop("num_attention_heads")
    turned = text["head_dim"] // 2 if drawn.random() < 0.5 else text["head_dim"]
    cuts = sorted(drawn.sample(range(1, turned // 2 + 1), 2))
    biases, dense, experts = drawn.random() < 0.5, drawn.randint(0, 1), drawn.randint(4, 7)
    text |= {"model_type": "glm4v_moe_text", "attention_bias": drawn.random() < 0.5, "n_routed_experts": experts, "num_experts_per_tok": drawn.randint(1, 3),
             "n_shared_experts": drawn.randint(1, 2), "moe_intermediate_size": 8 * drawn.randint(1, 4), "first_k_dense_replace": dense, "n_group": 1,
             "topk_group": 1, "norm_topk_prob": drawn.random() < 0.5, "routed_scaling_factor": drawn.choice([1.0, 1.5]), "num_hidden_layers": dense + 2,
             "rope_parameters": {"rope_type": "default", "rope_theta": text.pop("rope_theta"), "partial_rotary_factor": turned / text["head_dim"],
                                 "mrope_section": [cuts[0], cuts[1] - cuts[0], turned // 2 - cuts[1]]}}
    depth = vision.pop("num_hidden_layers")
    config = {"model_type": "glm4v_moe", "architectures": ["Glm4vMoeForConditionalGeneration"], "image_token_id": IMAGE, "video_token_id": 92,
              "image_start_token_id": 89, "image_end_token_id": 90, "video_start_token_id": 87, "video_end_token_id": 88, "tie_word_embeddings": False,
              "text_config": text,
              "vision_config": vision | {"model_type": "glm4v_moe_vision", "depth": depth, "num_heads": heads, "out_hidden_size": rows,
                                         "image_size": side * patch, "spatial_merge_size": merge, "temporal_patch_size": 2, "rms_norm_eps": 1e-5,
                                         "hidden_act": "silu", "attention_bias": biases}}
    shapes, at = text_shapes(text, "model.language_model.", "lm_head.weight"), "model.language_model.layers."
    if text["attention_bias"]:
        shapes |= {name[:-6] + "bias": shape[:1] for name, shape in shapes.items() if name.split(".")[-2] in ("q_proj", "k_proj", "v_proj")}
    for layer in range(dense, text["num_hidden_layers"]):
        mlp, inner = f"{at}{layer}.mlp.", text["moe_intermediate_size"]
        shapes = {name: shape for name, shape in shapes.items() if not name.startswith(mlp)}
        shapes |= {mlp + "gate.weight": (experts, rows), mlp + "gate.e_score_correction_bias": (experts,)}
        shapes |= expert_shapes(mlp, rows, experts * [inner]) | gated_shapes(mlp + "shared_experts.", rows, inner * text["n_shared_experts"])
    at = "model.visual."
    for layer in range(depth):
        block = f"{at}blocks.{layer}."
        shapes |= {block + "norm1.weight": (hidden,), block + "norm2.weight": (hidden,), block + "attn.qkv.weight": (3 * hidden, hidden),
                   block + "attn.proj.weight": (hidden, hidden)} | gated_shapes(block + "mlp.", hidden, rows)
        shapes |= {block + "attn.qkv.bias": (3 * hidden,)} if biases else {}
    shapes |= {at + "post_conv_layernorm.weight": (hidden,), at + "post_layernorm.weight": (hidden,), at + "merger.proj.weight": (rows, rows),
               at + "embeddings.position_embedding.weight": (side * side, hidden)} | gated_shapes(at + "merger.", rows, wide)
    shapes |= with_biases({at + "patch_embed.proj": (hidden, 3, 2, patch, patch), at + "downsample": (rows, hidden, merge, merge),
                           at + "merger.post_projection_norm": (rows,)})
    processor = {"patch_size": patch, "merge_size": merge, "temporal_patch_size": 2, "size": {"shortest_edge": 112 * 112, "longest_edge": 28 * 28 * 12288}}
    return config, shapes, patch * merge, processor


def ernie4_5_vl_moe(drawn):
    text, vision, merge = draw_text(drawn), draw_tower(drawn), drawn.randint(2, 3)
    patch, hidden, rows, pairs = vision["patch_size"], vision["hidden_size"], text["hidden_size"], text["head_dim"] // 2
    heads, depth, across = vision.pop("num_attention_heads"), vision.pop("num_hidden_layers"), drawn.randint(1, (pairs - 1) // 2)
    experts, widths, kinds = drawn.randint(4, 6), [8 * drawn.randint(2, 4), 8 * drawn.randint(1, 3)], ["dense"] * drawn.randint(0, 1) + ["sparse"] * 2
    text |= {"model_type": "ernie4_5_vl_moe_text", "use_bias": False, "hidden_act": "silu", "moe_k": drawn.randint(1, 3), "moe_num_experts": experts,
             "moe_num_shared_experts": drawn.randint(1, 2), "moe_norm_min": 1e-12, "moe_intermediate_size": widths, "mlp_layer_types": kinds,
             "num_hidden_layers": len(kinds),
             "rope_parameters": {"rope_type": "default", "rope_theta": text.pop("rope_theta"), "mrope_section": [across, across, pairs - 2 * across]}}
    vision |= {"model_type": "ernie4_5_vl_moe_vision", "depth": depth, "num_heads": heads, "hidden_act": drawn.choice(["quick_gelu", "gelu"]), "in_channels": 3,
               "spatial_merge_size": merge, "temporal_merge_size": 2, "rms_norm_eps": 1e-6}
    config = {"model_type": "ernie4_5_vl_moe", "architectures": ["Ernie4_5_VLMoeForConditionalGeneration"], "image_token_id": IMAGE,
              "image_start_token_id": 89, "image_end_token_id": 90, "video_start_token_id": 86, "video_end_token_id": 87, "video_token_id": 88,
              "tie_word_embeddings": False, "text_config": text, "vision_config": vision}
    shapes = text_shapes(text, "model.language_model.", "lm_head.weight")
    for layer in range(len(kinds) - 2, len(kinds)):
        mlp = f"model.language_model.layers.{layer}.mlp."
        shapes = {name: shape for name, shape in shapes.items() if not name.startswith(mlp)}
        shapes |= {mlp + "gate.weight": (rows, experts), mlp + "gate.weight_1": (rows, experts), mlp + "moe_statics.e_score_correction_bias": (2, experts)}
        shapes |= expert_shapes(mlp, rows, experts * widths[:1] + experts * widths[1:])
        shapes |= gated_shapes(mlp + "shared_experts.", rows, widths[0] * text["moe_num_shared_experts"])
    at, inner = "model.vision_tower.", hidden * merge * merge
    shapes |= clip_layers(at + "blocks.", depth, hidden, vision["intermediate_size"], ("norm1", "norm2"), ("attn.proj",))
    shapes |= with_biases({f"{at}blocks.{layer}.attn.qkv": (3 * hidden, hidden) for layer in range(depth)} | {at + "ln": (hidden,)})
    shapes[at + "patch_embed.proj.weight"] = (hidden, 3 * patch * patch)
    at = "model.resampler_model."
    shapes |= with_biases({at + "mlp": (rows, inner), **{
        f"{at}{part}_linear.{name}": shape for part, wide in (("spatial", inner), ("temporal", 2 * inner))
        for name, shape in (("fc1", (inner, wide)), ("fc2", (inner, inner)), ("ln", (inner,)))}})
    shapes[at + "after_norm.weight"] = (rows,)
    return config, shapes, patch * merge, {"patch_size": patch, "merge_size": merge}


def draw_deepseek_text(drawn, at, head):
    """A text that attends as llama does, as in the smallest DeepSeek-VL2 and in DeepSeek-OCR: what the config states of it, its hidden size, shapes."""
    text = draw_text(drawn)
    text |= {"head_dim": 8 * drawn.randint(1, 3), "num_key_value_heads": text["num_attention_heads"]}
    rows = text["hidden_size"] = text["head_dim"] * text["num_attention_heads"]
    experts, dense, inner = drawn.randint(4, 7), drawn.randint(0, 1), 8 * drawn.randint(1, 4)
    text |= {"num_hidden_layers": dense + 2, "n_routed_experts": experts, "num_experts_per_tok": drawn.randint(1, 3),
             "n_shared_experts": drawn.randint(1, 2), "moe_intermediate_size": inner, "first_k_dense_replace": dense, "topk_method": "greedy", "n_group": 1,
             "topk_group": 1, "norm_topk_prob": False, "routed_scaling_factor": drawn.choice([1.0, 2.0]), "use_mla": False, "qk_nope_head_dim": 0,
             "qk_rope_head_dim": 0, "v_head_dim": 0, "kv_lora_rank": None, "q_lora_rank": None}
    shapes = text_shapes(text, at, head)
    for layer in range(dense, dense + 2):
        mlp = f"{at}layers.{layer}.mlp."
        shapes = {name: shape for name, shape in shapes.items() if not name.startswith(mlp)} | {mlp + "gate.weight": (experts, rows)}
        shapes |= expert_shapes(mlp, rows, experts * [inner]) | gated_shapes(mlp + "shared_experts.", rows, inner * text["n_shared_experts"])
    return {name: value for name, value in text.items() if name != "head_dim"}, rows, shapes  # which published configs leave out


def deepseek_vl_v2(drawn):
    stated, rows, shapes = draw_deepseek_text(drawn, "language.model.", "language.lm_head.weight")
    vision, join, side = draw_tower(drawn), drawn.randint(1, 3), drawn.randint(3, 7)
    patch, heads, hidden, ratio = vision["patch_size"], vision["num_attention_heads"], vision["hidden_size"], drawn.randint(1, 2)
    wide, depth, sizes = drawn.choice([1.25, 1.5, 2.0]), vision["num_hidden_layers"], [[side * patch] * 2, [2 * side * patch, side * patch]]
    config = {"model_type": "deepseek_vl_v2", "architectures": ["DeepseekVLV2ForCausalLM"], "tile_tag": "2D", "global_view_pos": "head",
              "language_config": stated | {"model_type": "deepseek_v2"},
              "candidate_resolutions": sizes, "vision_config": {"model_type": "vision", "width": hidden, "layers": depth, "num_attention_heads": heads,
                                                                "mlp_ratio": wide, "patch_size": patch, "image_size": side * patch},
              "projector_config": {"projector_type": "downsample_mlp_gelu", "input_dim": hidden, "n_embed": rows, "depth": 2, "mlp_ratio": ratio,
                                   "downsample_ratio": join}}
    shapes |= clip_layers("vision.blocks.", depth, hidden, int(hidden * wide), ("norm1", "norm2"), ("attn.proj",))
    shapes |= with_biases({f"vision.blocks.{layer}.attn.qkv": (3 * hidden, hidden) for layer in range(depth)} | {
        "vision.patch_embed.proj": (hidden, 3, patch, patch), "vision.norm": (hidden,), "projector.layers.0": (ratio * rows, hidden * join * join),
        "projector.layers.2": (rows, ratio * rows)})
    shapes |= {"vision.pos_embed": (1, side * side, hidden), "image_newline": (rows,), "view_seperator": (rows,)}
    return config, shapes, patch, {"candidate_resolutions": sizes, "downsample_ratio": join, "patch_size": patch}


def deepseek_ocr(drawn):
    """An image is twice as wide and high as a tile, so that neither view is resized."""
    stated, rows, shapes = draw_deepseek_text(drawn, "model.", "lm_head.weight")
    first, second, tile, table = draw_tower(drawn), draw_tower(drawn), 4 * drawn.randint(1, 2), drawn.randint(2, 5)
    patch, hidden, wide, heads = first["patch_size"], first["hidden_size"], second["hidden_size"], first["num_attention_heads"]
    depth, neck, window = first["num_hidden_layers"] + 1, (4 * drawn.randint(1, 4), 4 * drawn.randint(1, 4), wide), drawn.randint(2, 9)
    seeing = sorted(drawn.sample(range(depth), drawn.randint(0, depth)))
    sam = {"width": hidden, "layers": depth, "heads": heads, "patch_size": patch, "window_size": window, "global_attn_indexes": seeing,
           "output_channels": neck[0], "downsample_channels": list(neck[1:])}
    clip = {"width": wide, "layers": second["num_hidden_layers"], "heads": second["num_attention_heads"], "image_size": 3 * table, "patch_size": 3}
    config = {"model_type": "deepseek_vl_v2", "architectures": ["DeepseekOCRForCausalLM"], "tile_tag": "2D", "global_view_pos": "head", "language_config": stated,
              "projector_config": {"input_dim": 2 * wide, "model_type": "mlp_projector", "n_embed": rows, "projector_type": "linear"},
              "vision_config": {"image_size": 2 * tile * patch, "mlp_ratio": 3.7362, "model_name": "deeplip_b_l", "model_type": "vision",
                                "width": {"clip-l-14-224": clip, "sam_vit_b": sam}}}
    at = "model.sam_model."
    shapes |= clip_layers(at + "blocks.", depth, hidden, 4 * hidden, ("norm1", "norm2"), ("attn.proj",), ("mlp.lin1", "mlp.lin2"))
    shapes |= with_biases({at + "patch_embed.proj": (hidden, 3, patch, patch), at + "neck.1": neck[:1], at + "neck.3": neck[:1],
                           **{f"{at}blocks.{layer}.attn.qkv": (3 * hidden, hidden) for layer in range(depth)}})
    shapes |= {f"{at}blocks.{layer}.attn.rel_pos_{axis}": (2 * (2 * tile if layer in seeing else window) - 1, hidden // heads)
               for layer in range(depth) for axis in "hw"}
    shapes |= {at + "pos_embed": (1, 2 * tile, 2 * tile, hidden), at + "neck.0.weight": (neck[0], hidden, 1, 1), at + "neck.2.weight": (neck[0], neck[0], 3, 3),
               at + "net_2.weight": (neck[1], neck[0], 3, 3), at + "net_3.weight": (wide, neck[1], 3, 3)}
    at = "model.vision_model."
    shapes |= clip_layers(at + "transformer.layers.", clip["layers"], wide, 4 * wide, ("layer_norm1", "layer_norm2"), ("self_attn.out_proj",))
    shapes |= with_biases({at + "pre_layrnorm": (wide,), "model.projector.layers": (rows, 2 * wide),
                           **{f"{at}transformer.layers.{layer}.self_attn.qkv_proj": (3 * wide, wide) for layer in range(clip["layers"])}})
    shapes |= {at + "embeddings.class_embedding": (wide,), at + "embeddings.position_embedding.weight": (table * table + 1, wide),
               "model.image_newline": (rows,), "model.view_seperator": (rows,)}
    side = 2 * tile * patch
    return config, shapes, patch, {"candidate_resolutions": [[side, side]], "downsample_ratio": 4, "patch_size": patch, "tile_size": tile * patch}
