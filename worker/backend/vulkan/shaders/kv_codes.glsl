/*
 * Quantized keys and values, with the byte map of worker/plan/kv_codec.h. A region is
 * [physical block][kv head][a side of KV_BLOCK_TOKENS positions].
 *
 * Before including, the includer has HEAD_DIM and
 *     const uint KV_SCHEME    0 none, 1 uniform, 2 turboquant (enum kv_quant_scheme)
 *     const uint KEY_HALF_BITS, VALUE_HALF_BITS   bits of a code in halves: 7 is 3.5 bits
 *     const uint GROUP_DIMS   of uniform: elements that share a scale
 *
 * A *piece* is eight dimensions; its codes fill whole bytes. If a side has half a bit, the pieces of the
 * first half of a head have one bit more than the others; codes then have at most four bits.
 */
const bool PACKED = KV_SCHEME != 0, ROTATED = KV_SCHEME == 2;
/* The rotation is a product with a matrix, no Hadamard transform. (No &&: attention_rows.comp, GAPS.) */
const bool MULTIPLIED = (ROTATED ? HEAD_DIM & (HEAD_DIM - 1) : 0) != 0;
const uint KV_SCALES = ROTATED || !PACKED ? 1 : HEAD_DIM / GROUP_DIMS;
const uint KV_SCALE_BYTES = KV_SCALES * KV_BLOCK_TOKENS * 2;

/* struct vulkan_kv_tables */
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer KvTables
{
    float levels[4][16]; /* of codes of 1 to 4 bits */
    float bounds[4][16];
    float rotations[]; /* signs [2, HEAD_DIM]; MULTIPLIED: [enum vulkan_kv_turn, HEAD_DIM, HEAD_DIM] */
};
const uint KV_LEVELS = 64, KV_TURN_BACK = 2;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer KvWords { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer KvShorts { uint16_t at[]; };

uint kv_row_bytes(uint half_bits)
{
    return HEAD_DIM * half_bits / 16;
}

uint kv_side_bytes(uint half_bits)
{
    return kv_row_bytes(half_bits) * KV_BLOCK_TOKENS + KV_SCALE_BYTES * (ROTATED ? 1 : 2);
}

uint64_t kv_side_address(uint64_t region, uint half_bits, uint block, uint kv_heads, uint kv_head)
{
    return region + (uint64_t(block) * kv_heads + kv_head) * kv_side_bytes(half_bits);
}

/* Bits of a piece's codes. */
uint kv_piece_bits(uint half_bits, uint piece)
{
    return half_bits / 2 + (half_bits % 2 != 0 && piece < HEAD_DIM / 16 ? 1 : 0);
}

/* Bytes of a row's codes that lie before a piece's. */
uint kv_piece_offset(uint half_bits, uint piece)
{
    return piece * (half_bits / 2) + (half_bits % 2 != 0 ? min(piece, HEAD_DIM / 16) : 0);
}

/* Element `to` of a row that a matrix turns is the sum of its elements `from` times these. */
float kv_turn_factor(KvTables tables, uint turn, uint from, uint to)
{
    return tables.rotations[(turn * HEAD_DIM + from) * HEAD_DIM + to];
}

/* A slot's codes of a piece: their bit string in xy, scale and bias as halves in z. Reads up to 12 bytes
 * from the word of the first code on, which stays inside the side because scales follow. */
uvec4 kv_load_codes(uint64_t side, uint half_bits, uint slot, uint piece)
{
    uint first = slot * kv_row_bytes(half_bits) + kv_piece_offset(half_bits, piece);
    uint shift = first % 4 * 8;
    KvWords words = KvWords(side + first - first % 4);
    uvec4 codes = uvec4(words.at[0], 0, 0, 0);
    /* Then eight codes never leave their word. */
    bool single = half_bits == 2 || half_bits == 4 || half_bits == 8;
    if (!single)
        codes.y = words.at[1];
    uint third = half_bits == 14 ? words.at[2] : 0; /* others begin so that eight codes end in the second */
    if (shift > 0)
        codes.xy = uvec2(codes.x >> shift | codes.y << (32 - shift),
                         codes.y >> shift | third << (32 - shift));
    uint scale = ROTATED ? 0 : 8 * piece / GROUP_DIMS;
    KvShorts halves = KvShorts(side + kv_row_bytes(half_bits) * KV_BLOCK_TOKENS);
    uint at = scale * KV_BLOCK_TOKENS + slot;
    codes.z = uint(halves.at[at]);
    if (!ROTATED)
        codes.z |= uint(halves.at[KV_SCALE_BYTES / 2 + at]) << 16;
    return codes;
}

uint kv_code(uvec4 codes, uint half_bits, uint piece, uint i)
{
    uint bits = kv_piece_bits(half_bits, piece), bit = i * bits;
    if (half_bits % 2 != 0)
        return codes.x >> bit & ((1 << bits) - 1);
    uint string = bit < 32 ? codes.x >> bit : codes.y >> (bit - 32);
    if (bit < 32 && bit + bits > 32)
        string |= codes.y << (32 - bit);
    return string & ((1 << bits) - 1);
}

/* Index of a code's level among KV_LEVELS. */
uint kv_level(uint bits, uint code)
{
    return 16 * (bits - 1) + code;
}
