"""A tiny checkpoint's matrices in every quantized form that Shoal reads and rows of 32 columns allow, and their dequantized values.

The quantizers are simple ones of this file, since tests need only codes and the values that belong to them. The values are
computed from the codes: by the formats' formulas for folders, by the gguf package for GGUF. Needs gguf and numpy.
"""
import gguf
import numpy as np
from gguf.quants import dequantize, quantize

MLX_BITS = (2, 3, 4, 5, 6, 8)
GGUF_TYPES = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4")
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
IQ4_NL = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)


def to_bf16(array):
    """The bits, rounded to nearest even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def mlx_affine(array, bits, group, least=1e-4):
    """({suffix: (type, array)}, values) of codes in one stream of bits, scales and biases in BF16."""
    groups = array.reshape(len(array), -1, group)
    biases = to_bf16(groups.min(-1))
    spread = (groups.max(-1) - from_bf16(biases)) / (2**bits - 1)
    scales = to_bf16(np.maximum(spread, least))
    scale, bias = from_bf16(scales)[..., None], from_bf16(biases)[..., None]
    codes = np.clip(np.rint((groups - bias) / scale), 0, 2**bits - 1)
    stream = (codes.astype(np.uint8)[..., None] >> np.arange(bits) & 1).astype(np.uint8)
    words = np.packbits(stream.reshape(len(array), -1), axis=1, bitorder="little").view(np.uint32)
    meaning = (scale * codes.astype(np.float32) + bias).astype(np.float32).reshape(array.shape)
    return {"weight": ("U32", words), "scales": ("BF16", scales), "biases": ("BF16", biases)}, meaning


def mlx_fp4(array):
    groups = array.reshape(len(array), -1, 32)
    exponents = np.ceil(np.log2(np.abs(groups).max(-1) / 6 + 1e-12)).astype(np.int32) + 127
    power = np.exp2(exponents - 127).astype(np.float32)[..., None]
    codes = np.abs(groups[..., None] / power[..., None] - FP4).argmin(-1).astype(np.uint8).reshape(array.shape)
    words = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8).view(np.uint32)
    meaning = (FP4[codes].reshape(groups.shape) * power).reshape(array.shape)
    return {"weight": ("U32", words), "scales": ("U8", exponents.astype(np.uint8))}, meaning


def e4m3_values():
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    values = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * np.exp2(exponent - 10.0))
    values[[127, 255]] = np.inf  # the codes of NaN: never the nearest
    return np.where(codes < 128, values, -values).astype(np.float32)


def fp8(array, rows, columns, name, kind):
    """Blocks of rows by columns, a multiple of 32 or all, share a scale; the values are the products in F32."""
    down, across = -(-array.shape[0] // rows), -(-array.shape[1] // columns)
    padded = np.zeros((down * rows, across * columns), np.float32)
    padded[:array.shape[0], :array.shape[1]] = array
    scales = np.abs(padded.reshape(down, rows, across, columns)).max((1, 3)) / 448
    scales = from_bf16(to_bf16(scales)) if kind == "BF16" else scales.astype(np.float32)
    spread = np.repeat(np.repeat(scales, rows, 0), columns, 1)[:array.shape[0], :array.shape[1]]
    values = e4m3_values()
    codes = np.abs((array / spread)[..., None] - values).argmin(-1).astype(np.uint8)
    meaning = values[codes] * spread
    return {"weight": ("F8_E4M3", codes), name: (kind, to_bf16(scales) if kind == "BF16" else scales)}, meaning


def nvfp4(array):
    """As compressed-tensors stores it: an E4M3 scale per 16 columns over one number of the matrix; the values are the products in F32."""
    groups = array.reshape(len(array), -1, 16)
    divisor = np.float32(448 * 6 / np.abs(array).max())
    values = e4m3_values()
    scales = np.abs((np.abs(groups).max(-1) / 6 * divisor)[..., None] - values).argmin(-1).astype(np.uint8)
    spread = (values[scales] / divisor)[..., None]
    codes = np.abs((groups / np.maximum(spread, 1e-30))[..., None] - FP4).argmin(-1).astype(np.uint8).reshape(array.shape)
    meaning = (FP4[codes].reshape(groups.shape) * spread).reshape(array.shape)
    return {"weight_packed": ("U8", codes[:, ::2] | codes[:, 1::2] << 4), "weight_scale": ("F8_E4M3", scales),
            "weight_global_scale": ("F32", divisor.reshape(1))}, meaning


FAMILIES = ("llama", "qwen3_moe")


def folder_forms(family):
    """{form: (config's members, function of a tensor's name and array)}"""
    if family == "qwen3_moe":
        return {"mlx-experts": ({"quantization": {"group_size": 32, "bits": 4}}, uneven_experts)}
    forms = {}
    for bits in MLX_BITS:
        forms[f"mlx{bits}"] = ({"quantization": {"group_size": 32, "bits": bits}},
                               lambda name, array, bits=bits: mlx_affine(array, bits, 32))
    forms["mlx-fp4"] = ({"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}}, lambda name, array: mlx_fp4(array))
    own = {"model.embed_tokens": {"group_size": 64, "bits": 8}, "lm_head": False, "model.layers.1.self_attn.q_proj": True}
    forms["mlx-mixed"] = ({"quantization": {"group_size": 32, "bits": 4, **own}}, mixed)
    config = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [24, 32]}
    forms["fp8-block"] = ({"quantization_config": config},
                          lambda name, array: keep_embeddings(name, array, 24, 32, "weight_scale_inv", "F32"))
    channel = {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}
    forms["fp8-channel"] = (
        {"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": channel}},
        lambda name, array: keep_embeddings(name, array, 1, array.shape[1], "weight_scale", "BF16"))
    forms["fp8-tensor"] = ({"quantization_config": {"quant_method": "fp8"}},
                           lambda name, array: keep_embeddings(name, array, *array.shape, "weight_scale", "F32"))
    groups = {"group_0": {"weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}}}
    forms["nvfp4"] = (
        {"quantization_config": {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": groups}},
        lambda name, array: None if "embed_tokens" in name or "lm_head" in name else nvfp4(array))
    return forms


def uneven_experts(name, array):
    """One expert of a layer has a row so small that f16 cannot hold its scale."""
    if array.shape[1] % 32 != 0:
        return None
    if "layers.0.mlp.experts.2.down_proj" in name:
        array = np.concatenate([array[:1] * np.float32(1e-9), array[1:]])
    return mlx_affine(array, 4, 32, 1e-30)


def mixed(name, array):
    if name == "lm_head.weight":
        return None
    return mlx_affine(array, 8, 64) if "embed_tokens" in name else mlx_affine(array, 4, 32)


def keep_embeddings(name, array, *how):
    return None if "embed_tokens" in name or "lm_head" in name else fp8(array, *how)


def quantize_folder(family, form, tensors):
    """(config's members, {name: (type, array)}, {name: values}); vectors and unquantized matrices stay BF16."""
    members, function = folder_forms(family)[form]
    stored, meaning = {}, {}
    for name, array in tensors.items():
        made = function(name, array) if array.ndim == 2 else None
        if made is None:
            stored[name], meaning[name] = ("BF16", to_bf16(array)), array
        else:
            for suffix, part in made[0].items():
                stored[name.removesuffix("weight") + suffix] = part
            meaning[name] = made[1]
    return members, stored, meaning


def quantize_gguf(kind, array):
    """The rows' bytes in a GGUF type."""
    if kind != "IQ4_NL":
        return quantize(np.ascontiguousarray(array), gguf.GGMLQuantizationType[kind])
    blocks = array.reshape(-1, 32)
    scales = (np.abs(blocks).max(-1, keepdims=True) / 113).astype(np.float16)
    codes = np.abs(blocks[..., None] / scales.astype(np.float32)[..., None] - IQ4_NL).argmin(-1).astype(np.uint8)
    rows = np.concatenate([scales.view(np.uint8), codes[:, :16] | codes[:, 16:] << 4], axis=1)
    return rows.reshape(len(array), -1)


def gguf_meaning(kind, tensors):
    """The matrices' values after quantization to the type; vectors are unchanged."""
    kind_number = gguf.GGMLQuantizationType[kind]
    return {name: dequantize(quantize_gguf(kind, array), kind_number).reshape(array.shape) if array.ndim == 2 else array
            for name, array in tensors.items()}
