#!/usr/bin/env python3
"""Golden proposals of Gemma 4's assistants, for tests/model/assistant_drafter_test.c.

usage: assistants.py tests/golden/checkpoints tests/golden/drafters

tests/golden/drafters/<case> gets a tiny random assistant in BF16 for one of the tiny checkpoints:
  config.json, model.safetensors
  target.txt       the checkpoint
  ids.txt          sequences, one a line
  proposals.txt    the greedy chains of every context, one a line: n tokens of a sequence are known, the model has computed all but the last of
                   them; n from 2 on, sequence by sequence
  logits.f32       [contexts, chain, vocabulary] of the last contexts of the first sequence
  made.txt         programs, versions, date

Model and assistant are transformers', in F32 on the CPU; the loop is that of its SinglePositionMultiTokenCandidateGenerator. The model's last
token before the assistant runs is a step of its own, as in decoding, so its cache of sliding layers has a window of positions. Needs torch and
transformers.
"""
import datetime
import json
import pathlib
import struct
import sys

import numpy as np
import torch
import transformers

from checkpoint_variants import stored, write_typed

TOKENS, CHAIN, SEQUENCES, SHOWN = 21, 3, 3, 3
ASSISTANT = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_kv_shared_layers": 2,
             "layer_types": ["sliding_attention", "full_attention"], "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0,
             "enable_moe_block": False, "use_double_wide_mlp": False, "final_logit_softcapping": None}
TAKEN = ("num_key_value_heads", "head_dim", "global_head_dim", "num_global_key_value_heads", "attention_k_eq_v", "vocab_size",
         "max_position_embeddings", "sliding_window", "rms_norm_eps", "rope_parameters", "hidden_activation", "attention_bias", "bos_token_id",
         "eos_token_id", "pad_token_id")


def draw(rng, shape, is_norm):
    """Exact in BF16; products keep the size of their input."""
    array = 1 + 0.3 * rng.standard_normal(shape) if is_norm else rng.standard_normal(shape) * (2.0 / np.sqrt(shape[-1]))
    return (array.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def new_assistant(config, rng):
    """(the model, its tensors as they are stored)"""
    assistant = transformers.Gemma4AssistantForCausalLM(transformers.Gemma4AssistantConfig(**config)).float().eval()
    tensors = {}
    with torch.no_grad():
        for name, value in assistant.state_dict().items():
            if name == "lm_head.weight":
                continue
            array = draw(rng, tuple(value.shape), value.ndim == 1)
            value.copy_(torch.from_numpy(array))
            tensors[name] = ("BF16", stored(array, "BF16"))
    assistant.tie_weights()
    return assistant, tensors


@torch.no_grad()
def propose(model, assistant, ids):
    """(the chain's tokens, its logits [CHAIN, vocabulary]) after the last of `ids`, of which the model computes all others"""
    cache = transformers.DynamicCache(config=model.config)
    if len(ids) > 2:
        model(torch.tensor([ids[:-2]]), past_key_values=cache)
    out = model(torch.tensor([ids[-2:-1]]), past_key_values=cache, output_hidden_states=True, return_shared_kv_states=True)
    state, token, chain, rows = out.hidden_states[-1][:, -1:], torch.tensor([ids[-1:]]), [], []
    for _ in range(CHAIN):
        embedded = torch.cat([model.get_input_embeddings()(token), state], -1)
        drafted = assistant(inputs_embeds=embedded, position_ids=torch.tensor([[len(ids) - 1]]), shared_kv_states=out.shared_kv_states,
                            use_cache=False)
        token, state = drafted.logits.argmax(-1), drafted.last_hidden_state
        chain.append(token.item())
        rows.append(drafted.logits[0, 0].numpy())
    return chain, np.stack(rows)


def write_case(source, folder, seed):
    rng = np.random.default_rng(seed)
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()
    text = ASSISTANT | {key: value for key, value in json.loads((source / "config.json").read_text()).items() if key in TAKEN}
    config = {"backbone_hidden_size": model.config.hidden_size, "use_ordered_embeddings": False, "tie_word_embeddings": True,
              "text_config": text | {"model_type": "gemma4_text", "tie_word_embeddings": True}}
    assistant, tensors = new_assistant(config, rng)
    assistant.model.config._attn_implementation = "eager"
    sequences = [[int(token) for token in rng.integers(0, 256, TOKENS)] for _ in range(SEQUENCES)]
    lines, shown = [], []
    for number, ids in enumerate(sequences):
        for known in range(2, TOKENS + 1):
            chain, logits = propose(model, assistant, ids[:known])
            lines.append(chain)
            if number == 0 and known > TOKENS - SHOWN:
                shown.append(logits)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant"} | config,
                                                   indent=1) + "\n", encoding="utf-8")
    write_typed(folder / "model.safetensors", tensors)
    (folder / "ids.txt").write_text("".join(" ".join(map(str, line)) + "\n" for line in sequences), encoding="utf-8")
    (folder / "proposals.txt").write_text("".join(" ".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    values = np.stack(shown).ravel().tolist()
    (folder / "logits.f32").write_bytes(struct.pack(f"<{len(values)}f", *values))
    (folder / "target.txt").write_text(source.name + "\n", encoding="utf-8")
    (folder / "made.txt").write_text(f"scripts/golden/assistants.py, transformers {transformers.__version__}, torch {torch.__version__}, F32, "
                                     f"{datetime.date.today()}\n", encoding="utf-8")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:])
    for seed, name in enumerate(("gemma4", "gemma4_moe")):
        write_case(source / name, target / name.replace("gemma4", "gemma4_assistant"), 300 + seed)


if __name__ == "__main__":
    main()
