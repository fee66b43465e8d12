/*
 * The element types of weights: the one table that file readers, packers, kernels and shaders
 * derive block sizes and layouts from. It holds macros only, so that C and GLSL
 * (worker/backend/vulkan/shaders/weight_blocks.glsl) include the same file.
 *
 * Source of the block layouts: ggml's published formats.
 */
#ifndef SHOAL_PROTO_GGML_TYPE_LIST_H
#define SHOAL_PROTO_GGML_TYPE_LIST_H

// clang-format off

/*
 * Quantized types that kernels multiply with. A row is a run of blocks; a span is the columns that
 * share one scale:
 *
 *   weight = scale * (code - center)       without a minimum
 *   weight = scale * code + minimum        with a minimum
 *   weight = scale * (code - zero)         with a zero point
 *
 *   kind     position in this list and GGML_FLOAT_LIST: the shaders' WEIGHT_KIND (static-asserted)
 *   number   in a GGUF file; A…, Z…, N4_…, T2_128 and NVFP4 are in no file: weight_source makes A… of MLX groups, Z… of
 *            integers with zero points (both are named by bits and columns, those of 32 columns by bits alone), N4_… (f16 scale, 16 signed scales, nibbles as IQ4_XS) of IQ1 to IQ3, T2_128 of
 *            ternary types, NVFP4 (an f32 factor,
 *            the same in all blocks of a row and kept once, two E4M3 scales, nibbles) of folders in NVFP4
 *   columns  of a block: 32, 64 or 128, or 256 with a scale of 4 to 8 bits per span below the block's f16 one
 *   bytes    of a block in the file
 *   bits     of a code; codes are unsigned, except Q8_0's
 *   span     columns per scale
 *   minimum  1: has one per span; 2: has a zero point, an integer as f16
 *   center   0 with a minimum
 *   offset   byte of the block's f16 scale; with a minimum or a zero point, that follows as f16; 0 where
 *            GGML_SCALES() says that scales are bytes
 *   table    0, or the numbers that codes stand for: weight = scale * table[code]
 *
 *     kind  name  number  columns  bytes  bits  span  minimum  center  offset  table
 */
#define GGML_QUANT_LIST(X) \
    X(0,   Q4_0,   2,      32,      18,    4,    32,   0,       8,      0,      0) \
    X(1,   Q4_1,   3,      32,      20,    4,    32,   1,       0,      0,      0) \
    X(2,   Q5_0,   6,      32,      22,    5,    32,   0,       16,     0,      0) \
    X(3,   Q5_1,   7,      32,      24,    5,    32,   1,       0,      0,      0) \
    X(4,   Q8_0,   8,      32,      34,    8,    32,   0,       0,      0,      0) \
    X(5,   A8,     63,     32,      36,    8,    32,   1,       0,      0,      0) \
    X(6,   Q2_K,   10,     256,     84,    2,    16,   1,       0,      80,     0) \
    X(7,   Q3_K,   11,     256,     110,   3,    16,   0,       4,      108,    0) \
    X(8,   Q4_K,   12,     256,     144,   4,    32,   1,       0,      0,      0) \
    X(9,   Q5_K,   13,     256,     176,   5,    32,   1,       0,      0,      0) \
    X(10,  Q6_K,   14,     256,     210,   6,    16,   0,       32,     208,    0) \
    X(11,  N4_IQ1, 62,     256,     146,   4,    16,   0,       0,      0,      GGML_TABLE_IQ1) \
    X(12,  IQ4_NL, 20,     32,      18,    4,    32,   0,       0,      0,      GGML_TABLE_IQ4) \
    X(13,  IQ4_XS, 23,     256,     136,   4,    32,   0,       0,      0,      GGML_TABLE_IQ4) \
    X(14,  MXFP4,  39,     32,      17,    4,    32,   0,       0,      0,      GGML_TABLE_E2M1) \
    X(15,  NVFP4,  59,     32,      22,    4,    16,   0,       0,      0,      GGML_TABLE_E2M1) \
    X(16,  A2_64,  58,     64,      20,    2,    64,   1,       0,      0,      0) \
    X(17,  A3_64,  57,     64,      28,    3,    64,   1,       0,      0,      0) \
    X(18,  A4_64,  56,     64,      36,    4,    64,   1,       0,      0,      0) \
    X(19,  A4_128, 55,     128,     68,    4,    128,  1,       0,      0,      0) \
    X(20,  A6_64,  54,     64,      52,    6,    64,   1,       0,      0,      0) \
    X(21,  A8_64,  53,     64,      68,    8,    64,   1,       0,      0,      0) \
    X(22,  Z4_64,  52,     64,      36,    4,    64,   2,       0,      0,      0) \
    X(23,  Z4_128, 51,     128,     68,    4,    128,  2,       0,      0,      0) \
    X(24,  T2_128, 50,     128,     34,    2,    128,  0,       1,      0,      0) \
    X(25,  N4_IQ2, 49,     256,     146,   4,    16,   0,       0,      0,      GGML_TABLE_IQ2) \
    X(26,  N4_IQ3_XXS, 48, 256,     146,   4,    16,   0,       0,      0,      GGML_TABLE_IQ3_XXS) \
    X(27,  N4_IQ3_S,   47, 256,     146,   4,    16,   0,       0,      0,      GGML_TABLE_IQ3_S) \
    X(28,  A5_64,  46,     64,      44,    5,    64,   1,       0,      0,      0) \
    X(29,  A6,     45,     32,      28,    6,    32,   1,       0,      0,      0) \
    X(30,  A3,     44,     32,      16,    3,    32,   1,       0,      0,      0) \
    X(31,  A2,     43,     32,      12,    2,    32,   1,       0,      0,      0) \
    X(32,  Z4,     42,     32,      20,    4,    32,   2,       0,      0,      0) \
    X(33,  Z8,     41,     32,      36,    8,    32,   2,       0,      0,      0)

/* Types whose blocks are a scale, perhaps a minimum or zero point, then codes as a stream of bits, the lowest first: all
 * with blocks of 64 or 128 columns, and those of 32 columns that are in no file, but for A8. */
#define GGML_IS_GROUP(columns, bits, minimum) \
    ((columns) == 64 || (columns) == 128 || \
     ((columns) == 32 && ((minimum) == 2 || (bits) == 2 || (bits) == 3 || (bits) == 6)))

/* What scales are, by table and span: halves; E8M0 bytes, which stand for 2^(byte - 128), because the table's
 * numbers are in units of half; or E4M3 bytes, times the row's factor. */
#define GGML_SCALES_HALF 0
#define GGML_SCALES_E8M0 1
#define GGML_SCALES_E4M3 2
#define GGML_SCALES(table, span) \
    ((table) != GGML_TABLE_E2M1 ? GGML_SCALES_HALF : (span) == 32 ? GGML_SCALES_E8M0 : GGML_SCALES_E4M3)

/* Whether the bytes of a type of 256 columns stay apart from its f16 scale on a device, where other types' products
 * are rounded to f16. */
#define GGML_BYTE_SCALES(columns, table) ((columns) == 256 && (table) != 0)

/* E8M0 bytes whose power f16 holds; a matrix with others, but for blocks of zeros, has another type. */
#define GGML_E8M0_MIN 104
#define GGML_E8M0_MAX 143
/* The half of such a power, 2^-24 to 2^15. */
#define GGML_E8M0_HALF(byte) ((byte) >= 114 ? ((byte) - 113) << 10 : 1 << ((byte) - GGML_E8M0_MIN))

/* Tables of types with 4 bits: sixteen signed bytes, in order. E2M1: in units of half. Unused entries are 0. */
#define GGML_TABLE_IQ4  1
#define GGML_TABLE_E2M1 2
#define GGML_TABLE_IQ1  3
#define GGML_TABLE_IQ2  4
#define GGML_TABLE_IQ3_XXS 5
#define GGML_TABLE_IQ3_S   6
#define GGML_IQ4_NUMBERS \
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
#define GGML_IQ1_NUMBERS -9, -7, -1, 1, 7, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
#define GGML_IQ2_NUMBERS -43, -25, -8, 8, 25, 43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
#define GGML_IQ3_XXS_NUMBERS -31, -26, -22, -18, -14, -10, -6, -2, 2, 6, 10, 14, 18, 22, 26, 31
#define GGML_IQ3_S_NUMBERS -15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15
#define GGML_E2M1_NUMBERS 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12

/* Packed layouts store 8-bit codes as signed bytes: this number is subtracted from each code. */
#define GGML_SIGN_OFFSET(bits, minimum) ((bits) == 8 && (minimum) != 0 ? 128 : 0)

/* Packed layouts on a Vulkan device split a code: low bits (2, 4 or 8) in one array, the other upper bits in
 * a second one. */
#define GGML_LOW_BITS(bits) ((bits) == 8 ? 8 : (bits) >= 4 ? 4 : 2)

/* Float types that kernels read. Those with scales are in no file: weight_source makes F8_128 and F8_32 of FP8 folders,
 * NF4_64 and FP4_64 of bitsandbytes'. A block of them is an f32 scale and as many numbers as their names say, E4M3 bytes or nibbles, the
 * low ones first, that stand for numbers of a table; weight = scale * number.
 *
 *   bits    of an element
 *   scaled  columns that share a scale; 0: no scales, a block is one element
 *   table   0, or the numbers that nibbles stand for
 *
 *     kind  name     number  bits  scaled  table */
#define GGML_FLOAT_LIST(X) \
    X(34,  F32,     0,      32,    0,      0)   \
    X(35,  F16,     1,      16,    0,      0)   \
    X(36,  BF16,    30,     16,    0,      0)   \
    X(37,  F8_128,  61,     8,     128,    0)   \
    X(38,  F8_32,   60,     8,     32,     0)   \
    X(39,  NF4_64,  64,     4,     64,     GGML_FLOATS_NF4) \
    X(40,  FP4_64,  65,     4,     64,     GGML_FLOATS_FP4)

/* Tables of float types, in F32. Source: bitsandbytes, functional.get_4bit_type(). */
#define GGML_FLOATS_NF4 1
#define GGML_FLOATS_FP4 2
#define GGML_NF4_NUMBERS \
    -1.0f, -0.696192801f, -0.525073051f, -0.394917488f, -0.284441382f, -0.18477343f, -0.0910500363f, 0.0f, \
    0.0795802996f, 0.160930201f, 0.246112302f, 0.337915242f, 0.44070983f, 0.562617004f, 0.722956836f, 1.0f
#define GGML_FP4_NUMBERS \
    0.0f, 0.00520833349f, 0.666666687f, 1.0f, 0.333333343f, 0.5f, 0.166666672f, 0.25f, \
    0.0f, -0.00520833349f, -0.666666687f, -1.0f, -0.333333343f, -0.5f, -0.166666672f, -0.25f

/* Numbers from here on are in no file. */
#define GGML_MADE_AT_LOAD 41

/* Types that become rows of another type at load (worker/plan/weight_iquant.c, weight_nibbles.c). NVFP4_64
 * is GGUF's NVFP4.
 *     name    number  columns  bytes of a block */
#define GGML_CONVERTED_LIST(X) \
    X(NVFP4_64, 40,    64,      36)  \
    X(IQ1_S,   19,     256,     50)  \
    X(IQ1_M,   29,     256,     56)  \
    X(IQ2_XXS, 16,     256,     66)  \
    X(IQ2_XS,  17,     256,     74)  \
    X(IQ2_S,   22,     256,     82)  \
    X(IQ3_XXS, 18,     256,     98)  \
    X(IQ3_S,   21,     256,     110) \
    X(TQ1_0,   34,     256,     54)  \
    X(TQ2_0,   35,     256,     66)

/* Types that are not supported, listed for their names in error texts.
 *     name     number */
#define GGML_UNSUPPORTED_LIST(X) \
    X(Q8_1,     9)  \
    X(Q8_K,     15) \
    X(I8,       24) \
    X(I16,      25) \
    X(I32,      26) \
    X(I64,      27) \
    X(F64,      28)

// clang-format on

#endif
