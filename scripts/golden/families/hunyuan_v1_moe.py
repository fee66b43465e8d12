"""hunyuan_v1_moe: hunyuan_v1_dense with 3 of 6 experts beside one that every row uses, counts as lists, untied."""
from families import hunyuan_v1_dense, shared

CONFIG = hunyuan_v1_dense.CONFIG | {
    "architectures": ["HunYuanMoEV1ForCausalLM"], "model_type": "hunyuan_v1_moe", "intermediate_size": 40, "num_experts": 6,
    "moe_topk": [3, 3, 3], "moe_intermediate_size": [40, 40, 40], "num_shared_expert": [1, 1, 1], "tie_word_embeddings": False,
    "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0},
}
SEED = 87
GGUF_ARCHITECTURE = "hunyuan-moe"
GGUF_SHARED_SETTINGS = False
centre = hunyuan_v1_dense.centre
GGUF_LAYER = hunyuan_v1_dense.GGUF_LAYER | shared.SHARED_EXPERT | {"mlp.gate.wg": "ffn_gate_inp"}


def shapes(config):
    found, hidden, wide = shared.whole_shapes(config), config["hidden_size"], config["intermediate_size"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= {name: shape for name, shape in shared.layer_shapes(config, at).items() if ".mlp." not in name}
        found |= hunyuan_v1_dense.norm_shapes(config, at)
        found[at + "mlp.gate.wg.weight"] = (config["num_experts"], hidden)
        found |= shared.expert_shapes(at + "mlp.", hidden, wide, config["num_experts"])
        found |= shared.gated_shapes(at + "mlp.shared_mlp.", hidden, wide)
    return found


def gguf_metadata(config, writer):
    hunyuan_v1_dense.gguf_metadata(config, writer)
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["moe_topk"][0])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"][0])
    writer.add_expert_shared_count(1)
    writer.add_expert_shared_feed_forward_length(config["intermediate_size"])


def gguf_tensors(config, tensors):
    return shared.gguf_moe_tensors(tensors, GGUF_LAYER)
