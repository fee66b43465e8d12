/*
 * Quantized keys and values (worker/cache/kv_codec.h, whose byte map this is). A region is
 * [physical block][kv head][a side of KV_BLOCK_TOKENS positions].
 *
 * Before including, the includer has HEAD_DIM and
 *     const uint KV_SCHEME    0 none, 1 uniform, 2 turboquant (enum kv_quant_scheme)
 *     const uint KEY_BITS, VALUE_BITS
 *     const uint GROUP_DIMS   of uniform: elements that share a scale
 * Rotations are Hadamard transforms: HEAD_DIM is a power of two then.
 */
const bool PACKED = KV_SCHEME != 0, ROTATED = KV_SCHEME == 2;
const uint KV_SCALES = ROTATED || !PACKED ? 1 : HEAD_DIM / GROUP_DIMS;
const uint KV_SCALE_BYTES = KV_SCALES * KV_BLOCK_TOKENS * 2;

/* struct vulkan_kv_tables: keys first, then values. */
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer KvTables
{
    float levels[2][16];
    float bounds[2][16];
    float signs[]; /* [2, HEAD_DIM] */
};
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer KvWords { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer KvShorts { uint16_t at[]; };

uint kv_row_bytes(uint bits)
{
    return HEAD_DIM * bits / 8;
}

uint kv_side_bytes(uint bits)
{
    return kv_row_bytes(bits) * KV_BLOCK_TOKENS + KV_SCALE_BYTES * (ROTATED ? 1 : 2);
}

uint64_t kv_side_address(uint64_t region, uint bits, uint block, uint kv_heads, uint kv_head)
{
    return region + (uint64_t(block) * kv_heads + kv_head) * kv_side_bytes(bits);
}

/* Eight codes of a slot, from dimension 8 * piece on: their bit string in xy, scale and bias as
 * halves in z. Reads up to 12 bytes from the word that the first code is in: scales lie behind. */
uvec4 kv_load_codes(uint64_t side, uint bits, uint slot, uint piece)
{
    uint first = slot * kv_row_bytes(bits) + piece * bits;
    uint shift = first % 4 * 8;
    KvWords words = KvWords(side + first - first % 4);
    uvec4 codes = uvec4(words.at[0], 0, 0, 0);
    bool single = bits <= 2 || bits == 4; /* then eight codes never leave their word */
    if (!single)
        codes.y = words.at[1];
    uint third = bits == 7 ? words.at[2] : 0; /* others begin so that eight codes end in the second */
    if (shift > 0)
        codes.xy = uvec2(codes.x >> shift | codes.y << (32 - shift),
                         codes.y >> shift | third << (32 - shift));
    uint scale = ROTATED ? 0 : 8 * piece / GROUP_DIMS;
    KvShorts halves = KvShorts(side + kv_row_bytes(bits) * KV_BLOCK_TOKENS);
    uint at = scale * KV_BLOCK_TOKENS + slot;
    codes.z = uint(halves.at[at]);
    if (!ROTATED)
        codes.z |= uint(halves.at[KV_SCALE_BYTES / 2 + at]) << 16;
    return codes;
}

uint kv_code(uvec4 codes, uint bits, uint i)
{
    uint bit = i * bits;
    uint string = bit < 32 ? codes.x >> bit : codes.y >> (bit - 32);
    if (bit < 32 && bit + bits > 32)
        string |= codes.y << (32 - bit);
    return string & ((1 << bits) - 1);
}
