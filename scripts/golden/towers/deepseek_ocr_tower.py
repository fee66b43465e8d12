"""deepseek_ocr: SAM's tower over twelve by twelve patches or tiles of eight by eight, both tables of positions resized, windows of five of which some reach
beyond a tile; CLIP's over its features; deepseek_v2's text that attends as llama does. The config and the names of the published folder, whose tower is
that of unlimited_ocr in transformers, and whose text is that one's with full attention."""
IMAGE_TOKEN = 91
SEED = 201
IMAGES = [(1, 24, 24), (2, 16, 16), (6, 16, 16)]  # a whole view, and tiles of two others
GRIDS = {2: (1, 2), 6: (3, 2)}  # lines and columns of so many tiles
MEAN = STD = (0.5, 0.5, 0.5)
TEXT = {
    "architectures": ["DeepseekV2ForCausalLM"], "bos_token_id": 0, "eos_token_id": 1, "first_k_dense_replace": 1, "hidden_size": 32, "intermediate_size": 48,
    "kv_lora_rank": None, "lm_head": True, "max_position_embeddings": 512, "moe_intermediate_size": 24, "n_group": 1, "n_routed_experts": 6,
    "n_shared_experts": 2, "num_attention_heads": 2, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "q_lora_rank": None,
    "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "rm_head": False, "topk_group": 1, "topk_method": "greedy", "torch_dtype": "bfloat16", "use_mla": False,
    "v_head_dim": 0, "vocab_size": 96,
}
SAM = {"width": 24, "layers": 3, "heads": 3, "patch_size": 2, "window_size": 5, "global_attn_indexes": [1], "output_channels": 12,
       "downsample_channels": [20, 32]}
CLIP = {"width": 32, "layers": 2, "heads": 4, "image_size": 8, "patch_size": 2}
IMAGE_SIZE = 24


def published(text, sam, clip, image_size):
    projector = {"input_dim": sam["downsample_channels"][1] + clip["width"], "model_type": "mlp_projector", "n_embed": text["hidden_size"],
                 "projector_type": "linear"}
    return text | {
        "architectures": ["DeepseekOCRForCausalLM"], "candidate_resolutions": [[image_size, image_size]], "global_view_pos": "head", "language_config": text,
        "model_type": "deepseek_vl_v2", "projector_config": projector, "tile_tag": "2D",
        "vision_config": {"image_size": image_size, "mlp_ratio": 3.7362, "model_name": "deeplip_b_l", "model_type": "vision",
                          "width": {"clip-l-14-224": clip, "sam_vit_b": sam}},
    }


def read_by_transformers(text, sam, clip, image_size):
    kept = {name: value for name, value in text.items() if "lora" not in name and "head_dim" not in name and name not in (
        "architectures", "lm_head", "rm_head", "use_mla", "torch_dtype")}
    layers = kept.pop("first_k_dense_replace"), text["num_hidden_layers"]
    wide = clip["width"]
    return {
        "model_type": "unlimited_ocr", "image_token_id": IMAGE_TOKEN,
        "text_config": kept | {
            "model_type": "unlimited_ocr_text", "layer_types": ["full_attention"] * layers[1],
            "mlp_layer_types": ["dense"] * layers[0] + ["sparse"] * (layers[1] - layers[0])},
        "vision_config": {
            "model_type": "unlimited_ocr_vision",
            "encoder_config": {"hidden_size": wide, "intermediate_size": 4 * wide, "num_hidden_layers": clip["layers"],
                               "num_attention_heads": clip["heads"], "image_size": clip["image_size"], "patch_size": clip["patch_size"]},
            "sam_config": {"hidden_size": sam["width"], "mlp_dim": 4 * sam["width"], "num_hidden_layers": sam["layers"],
                           "num_attention_heads": sam["heads"], "image_size": image_size, "patch_size": sam["patch_size"],
                           "window_size": sam["window_size"], "global_attn_indexes": sam["global_attn_indexes"],
                           "output_channels": sam["output_channels"], "downsample_channels": sam["downsample_channels"]}},
    }


PUBLISHED = published(TEXT, SAM, CLIP, IMAGE_SIZE)
CONFIG = read_by_transformers(TEXT, SAM, CLIP, IMAGE_SIZE)


def model_class(family):
    import torch
    import transformers
    from transformers.modeling_outputs import BaseModelOutputWithPooling

    class Views(transformers.UnlimitedOcrForConditionalGeneration):
        """Takes views of images one by one: of several tiles the local view, of one the global view."""

        def view_features(self, views):
            found = []
            for view in views:
                if len(view) == 1:
                    found += self.model.get_image_features(view).pooler_output
                    continue
                lines, columns = family.GRIDS[len(view)]
                whole = torch.zeros(1, 3, *family.IMAGES[0][:0:-1])
                alone = self.model.get_image_features(whole).pooler_output[0]
                both = self.model.get_image_features(whole, view, [len(view)], [[columns, lines]]).pooler_output[0]
                found.append(both[:len(both) - len(alone)])
            return found

        def forward(self, ids, views):
            made = BaseModelOutputWithPooling(pooler_output=self.view_features(views))
            return super().forward(input_ids=ids, mm_encoder_outputs={"image": made})

    return Views


def inputs(family, images):
    import torch
    mean, std = torch.tensor(family.MEAN), torch.tensor(family.STD)
    return {"views": [((torch.tensor(image) / 255 - mean) / std).permute(0, 3, 1, 2) for image in images]}


def features(family, model, given):
    import torch
    return torch.cat(model.view_features(given["views"]))


def side(family, image):
    return image[1] // (4 * family.SAM["patch_size"])


def mosaic(family, image, _):
    lines, columns = family.GRIDS[image[0]]
    across = side(family, image)
    return lines, columns, lines * across, columns * across, lines * across, columns * across


def count(family, image):
    across = side(family, image)
    if image[0] == 1:
        return across * (across + 1) + 1
    lines, columns = family.GRIDS[image[0]]
    return lines * across * (columns * across + 1)


def centre(name):
    return 0 if name.endswith("bias") or "newline" in name or "view_sep" in name or "class_embedding" in name else 1


def stored(weights):
    """With a tensor that nothing uses."""
    return weights | {"model.vision_model.embeddings.patch_embedding.weight": weights["model.vision_model.embeddings.class_embedding"].reshape(-1, 1, 1, 1)}
