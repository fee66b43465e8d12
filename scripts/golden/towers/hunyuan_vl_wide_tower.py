"""hunyuan_vl_wide: three axes of positions, no alpha, biases of q, k and v, squares of three by three patches, a larger table,
untied, the names of transformers' modules."""
from towers import hunyuan_vl_tower
from towers.hunyuan_vl_tower import CLASS, IMAGE_TOKEN, MEAN, STD, count, extra, features, inputs, positions  # noqa: F401

SEED = 162
IMAGES = [(1, 27, 18), (1, 9, 9), (1, 36, 9)]
CONFIG = {name: value for name, value in hunyuan_vl_tower.CONFIG.items() if name != "text_config"} | {
    "tie_word_embeddings": False,
    "text_config": hunyuan_vl_tower.TEXT | {
        "model_type": "hunyuan_vl_text", "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
        "rms_norm_eps": 1e-4, "tie_word_embeddings": False, "attention_bias": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 9000.0, "mrope_section": [1, 2, 3]},
    },
    "vision_config": hunyuan_vl_tower.VISION | {
        "hidden_size": 48, "intermediate_size": 56, "num_attention_heads": 3, "max_image_size": 24,
        "patch_size": 3, "spatial_merge_size": 3, "rms_norm_eps": 1e-3, "out_hidden_size": 48, "text_hidden_size": 48,
    },
}
NAMES = (("model.", "model.language_model."), ("vit.", "model.vision_tower."))
PARTS = ((".mlp.dense_h_to_4h.", ".mlp.fc1."), (".mlp.dense_4h_to_h.", ".mlp.fc2."), (".input_layernorm.", ".layer_norm1."),
         (".post_attention_layernorm.", ".layer_norm2."), ("perceive.proj.0.", "patch_merger.proj_conv."), ("perceive.proj.2.", "patch_merger.proj_out."),
         ("perceive.", "patch_merger."))


def stored(weights):
    """The names of transformers' modules, instead of the published ones that it saves."""
    renamed = {}
    for name, array in weights.items():
        start, new = next((pair for pair in NAMES if name.startswith(pair[0])), ("", ""))
        whole = new + name.removeprefix(start)
        for old, part in PARTS if start == "vit." else ():
            whole = whole.replace(old, part)
        renamed[whole] = array
    return renamed
