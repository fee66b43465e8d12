"""olmo3: olmo2 with a window of 8 in three of four layers; global layers have YaRN."""
import gguf

from families import olmo2

SLIDING, FULL = "sliding_attention", "full_attention"
CONFIG = olmo2.CONFIG | {
    "architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3", "num_hidden_layers": 5, "rope_theta": 500000.0,
    "sliding_window": 8, "layer_types": [SLIDING, FULL, SLIDING, SLIDING, FULL],
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 32, "beta_slow": 1,
                     "attention_factor": 1.2},
}
SEED = 38
GGUF_ARCHITECTURE = "olmo2"


shapes = olmo2.shapes
centre = olmo2.centre
gguf_tensors = olmo2.gguf_tensors


def gguf_metadata(config, writer):
    scaling = config["rope_scaling"]
    writer.add_sliding_window(config["sliding_window"])
    writer.add_array("olmo2.attention.sliding_window_pattern", [kind == SLIDING for kind in config["layer_types"]])
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(scaling["factor"])
    writer.add_rope_scaling_attn_factors(scaling["attention_factor"])
    writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
