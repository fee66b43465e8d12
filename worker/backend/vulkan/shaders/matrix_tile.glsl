/*
 * A tile of TILE_ROWS x TILE_COLUMNS sums by a workgroup, in the matrix units that a subgroup reaches
 * (KHR cooperative matrix), in steps of TILE_K columns of x. The weights of a step are read packed,
 * sixteen bytes at a time, and unpacked to f16 on their way into shared memory; the
 * weights of the next step are read from memory while the products of this one run. Each subgroup owns PART_ROWS x
 * PART_COLUMNS of the tile.
 *
 * Unpacking two columns of a word at once gives them in the order 0 2 1 3; the activations are
 * staged in the same order, which does not change the sums.
 *
 * Gated: pairs of neighbouring fragments of a tile's columns are the gate's and the up's of the
 * same results.
 *
 * The includer has defined the push constants x (f16, k columns) and k, those of
 * matrix_outputs.glsl, and defines the functions below, which give the tile's rows and columns.
 */
layout(constant_id = 0) const uint INVOCATIONS = 128;
layout(constant_id = 2) const uint EPILOGUE = 0;
layout(constant_id = 3) const uint FORMS = 1;
layout(constant_id = 4) const uint TILE_ROWS = 16;
layout(constant_id = 5) const uint TILE_COLUMNS = 128;
layout(constant_id = 6) const uint TILE_K = 64;
layout(constant_id = 7) const uint PART_ROWS = 16;
layout(constant_id = 8) const uint PART_COLUMNS = 32;
layout(constant_id = 9) const uint UNIT_ROWS = 16;     /* of the device's matrix units */
layout(constant_id = 10) const uint UNIT_COLUMNS = 16;
layout(constant_id = 11) const uint UNIT_K = 16;
layout(constant_id = 12) const uint STAGES = 2;        /* 1: two barriers a step, half the memory */

#include "matrix_outputs.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Chunks { uvec4 at[]; };

/* Row of x of the tile's row r; an existing row for any r. */
uint x_row(uint r);
/* The matrix of the tile's column c; its row exists for any c. */
WeightMatrix weight_matrix(uint c);
uint weight_row(uint c);
/* Writes row r, result c of the tile (gated: of half its columns), unless it does not exist. */
void write_result(uint r, uint c, float value);

/* Shared memory counts chunks of eight halves. A row has one more than it needs, so that the same
 * chunk of eight rows lies in eight different banks. */
const uint ROW_CHUNKS = TILE_K / 8 + 1;
const uint STAGE_CHUNKS = (TILE_ROWS + TILE_COLUMNS) * ROW_CHUNKS;
/* For the slices in which sums are written, four to a chunk. */
const uint SHARED_LEAST = TILE_ROWS / PART_ROWS * UNIT_ROWS * TILE_COLUMNS / 4;
shared uvec4 stage[STAGES * STAGE_CHUNKS > SHARED_LEAST ? STAGES * STAGE_CHUNKS : SHARED_LEAST];

const uint FRAGMENT_ROWS = PART_ROWS / UNIT_ROWS;
const uint FRAGMENT_COLUMNS = PART_COLUMNS / UNIT_COLUMNS;
coopmat<float, gl_ScopeSubgroup, UNIT_ROWS, UNIT_COLUMNS, gl_MatrixUseAccumulator>
    sums[FRAGMENT_ROWS * FRAGMENT_COLUMNS];

const uint X_CHUNKS = TILE_ROWS * TILE_K / 8;
const uint X_LOADS = (X_CHUNKS + INVOCATIONS - 1) / INVOCATIONS;
/* Quantized weights come by blocks, others by chunks of eight. */
const uint TILE_BLOCKS = TILE_K / WEIGHT_BLOCK;
const uint W_BLOCKS = TILE_COLUMNS * TILE_BLOCKS;
const uint W_CHUNKS = TILE_COLUMNS * TILE_K / 8;
const uint BLOCK_LOADS = WEIGHT_QUANTIZED ? (W_BLOCKS + INVOCATIONS - 1) / INVOCATIONS : 0;
const uint FLOAT_LOADS = WEIGHT_QUANTIZED ? 0 : (W_CHUNKS + INVOCATIONS - 1) / INVOCATIONS;
const uint FLOAT_WORDS = WEIGHT_KIND == WEIGHT_F32 ? 2 : 1;
uvec4 x_next[X_LOADS];
WeightBlock blocks_next[WEIGHT_QUANTIZED ? BLOCK_LOADS : 1];
uvec4 floats_next[WEIGHT_QUANTIZED ? 1 : FLOAT_LOADS * FLOAT_WORDS];

/* The tile's column and block of a load: eight neighbours read whole sectors of memory (two blocks
 * of four rows) and write to different banks. */
uvec2 block_place(uint item)
{
    if (TILE_BLOCKS == 1)
        return uvec2(item, 0);
    uint low = item % 8, high = item / 8;
    return uvec2(low / 2 + 4 * (high / (TILE_BLOCKS / 2)), low % 2 + 2 * (high % (TILE_BLOCKS / 2)));
}

/* Loads the operands of the step that begins at column k. */
void load_step(uint k)
{
    [[unroll]] for (uint i = 0; i < BLOCK_LOADS; i++) {
        uint item = gl_LocalInvocationIndex + i * INVOCATIONS;
        if (W_BLOCKS % INVOCATIONS == 0 || item < W_BLOCKS) {
            uvec2 place = block_place(item);
            uint width = push.k / WEIGHT_BLOCK;
            uint block = min(k / WEIGHT_BLOCK + place.y, width - 1);
            blocks_next[i] = weight_load(weight_matrix(place.x), weight_row(place.x) * width + block);
        }
    }
    [[unroll]] for (uint i = 0; i < FLOAT_LOADS; i++) {
        uint item = gl_LocalInvocationIndex + i * INVOCATIONS;
        if (W_CHUNKS % INVOCATIONS == 0 || item < W_CHUNKS) {
            uint column = min(k + 8 * (item % (TILE_K / 8)), push.k - 8);
            uint c = item / (TILE_K / 8);
            uint index = weight_row(c) * (push.k / WEIGHT_FLOATS) + column / WEIGHT_FLOATS;
            [[unroll]] for (uint j = 0; j < FLOAT_WORDS; j++)
                floats_next[i * FLOAT_WORDS + j] = weight_load_floats(weight_matrix(c), index + j);
        }
    }
    [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
        uint item = gl_LocalInvocationIndex + i * INVOCATIONS;
        uint row = x_row(item / (TILE_K / 8));
        uint column = k + 8 * (item % (TILE_K / 8));
        x_next[i] = column < push.k ? Chunks(push.x).at[row * (push.k / 8) + column / 8] : uvec4(0);
    }
}

/* Columns 4 * j .. 4 * j + 3 of a block in the order 0 2, 1 3. */
uvec2 block_halves(WeightBlock w, uint j)
{
    f16vec4 pairs = weight_pairs(w, j);
    return uvec2(packFloat2x16(pairs.xy), packFloat2x16(pairs.zw));
}

uint float_halves(vec2 values)
{
    return packFloat2x16(f16vec2(clamp(values, -HALF_LARGEST, HALF_LARGEST)));
}

uvec4 float_chunk(uint load)
{
    uvec4 first = floats_next[load * FLOAT_WORDS];
    if (WEIGHT_KIND == WEIGHT_F16)
        return first;
    uvec4 second = floats_next[load * FLOAT_WORDS + FLOAT_WORDS - 1];
    vec4 low = weight_floats(first, 0);
    vec4 high = WEIGHT_KIND == WEIGHT_F32 ? weight_floats(second, 0) : weight_floats(first, 1);
    return uvec4(float_halves(low.xy), float_halves(low.zw), float_halves(high.xy),
                 float_halves(high.zw));
}

/* Writes the operands of load_step() to the stage. */
void store_step(uint base)
{
    [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
        uint item = gl_LocalInvocationIndex + i * INVOCATIONS;
        uvec4 x = x_next[i];
        if (WEIGHT_QUANTIZED)
            x = uvec4(x.x & 0xFFFFu | x.y << 16, x.x >> 16 | x.y & 0xFFFF0000u,
                      x.z & 0xFFFFu | x.w << 16, x.z >> 16 | x.w & 0xFFFF0000u);
        if (X_CHUNKS % INVOCATIONS == 0 || item < X_CHUNKS)
            stage[base + item / (TILE_K / 8) * ROW_CHUNKS + item % (TILE_K / 8)] = x;
    }
    uint weights = base + TILE_ROWS * ROW_CHUNKS;
    [[unroll]] for (uint i = 0; i < BLOCK_LOADS; i++) {
        uint item = gl_LocalInvocationIndex + i * INVOCATIONS;
        if (W_BLOCKS % INVOCATIONS == 0 || item < W_BLOCKS) {
            uvec2 place = block_place(item);
            uint at = weights + place.x * ROW_CHUNKS + 4 * place.y;
            [[unroll]] for (uint j = 0; j < 4; j++)
                stage[at + j] = uvec4(block_halves(blocks_next[i], 2 * j),
                                      block_halves(blocks_next[i], 2 * j + 1));
        }
    }
    [[unroll]] for (uint i = 0; i < FLOAT_LOADS; i++) {
        uint item = gl_LocalInvocationIndex + i * INVOCATIONS;
        if (W_CHUNKS % INVOCATIONS == 0 || item < W_CHUNKS)
            stage[weights + item / (TILE_K / 8) * ROW_CHUNKS + item % (TILE_K / 8)] = float_chunk(i);
    }
}

/* Adds the stage's products to the sums of this subgroup's part. */
void multiply_step(uint base, uint part_row, uint part_column)
{
    /* Small units are a CPU's, whose driver compiles for minutes when this is unrolled: there the
     * bound is one that it cannot know. */
    uint k_end = UNIT_K < 16 ? min(TILE_K, push.k) : TILE_K;
    [[unroll]] for (uint k = 0; k < k_end; k += UNIT_K) {
        coopmat<float16_t, gl_ScopeSubgroup, UNIT_ROWS, UNIT_K, gl_MatrixUseA> a[FRAGMENT_ROWS];
        coopmat<float16_t, gl_ScopeSubgroup, UNIT_K, UNIT_COLUMNS, gl_MatrixUseB> b;
        [[unroll]] for (uint i = 0; i < FRAGMENT_ROWS; i++)
            coopMatLoad(a[i], stage, base + (part_row + i * UNIT_ROWS) * ROW_CHUNKS + k / 8,
                        ROW_CHUNKS, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0; j < FRAGMENT_COLUMNS; j++) {
            uint row = TILE_ROWS + part_column + j * UNIT_COLUMNS;
            coopMatLoad(b, stage, base + row * ROW_CHUNKS + k / 8, ROW_CHUNKS,
                        gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0; i < FRAGMENT_ROWS; i++)
                sums[i * FRAGMENT_COLUMNS + j] =
                    coopMatMulAdd(a[i], b, sums[i * FRAGMENT_COLUMNS + j]);
        }
    }
}

/* Sums over the columns of x from `begin` to `end`. `needed`: the subgroup's part has rows that
 * exist; otherwise it only helps to fill the stage. */
void multiply_columns(uint begin, uint end, uint part_row, uint part_column, bool needed)
{
    [[unroll]] for (uint i = 0; i < FRAGMENT_ROWS * FRAGMENT_COLUMNS; i++)
        sums[i] =
            coopmat<float, gl_ScopeSubgroup, UNIT_ROWS, UNIT_COLUMNS, gl_MatrixUseAccumulator>(0.0);
    uint base = 0;
    if (begin < end)
        load_step(begin);
    for (uint k = begin; k < end; k += TILE_K) {
        store_step(base);
        barrier();
        if (k + TILE_K < end)
            load_step(k + TILE_K);
        if (needed)
            multiply_step(base, part_row, part_column);
        if (STAGES == 1)
            barrier();
        else
            base = STAGE_CHUNKS - base;
    }
}

/* A slice is one row of fragments of every part: rows of the tile that go through shared memory
 * together, so that writing is guarded. */
const uint SLICE_ROWS = TILE_ROWS / PART_ROWS * UNIT_ROWS;

float staged_sum(uint element)
{
    return uintBitsToFloat(stage[element / 4][element % 4]);
}

void write_slice(uint slice)
{
    const uint together = GATED ? 2 : 1;
    for (uint e = gl_LocalInvocationIndex; e < SLICE_ROWS * (TILE_COLUMNS / together);
         e += INVOCATIONS) {
        uint r = e / (TILE_COLUMNS / together), c = e % (TILE_COLUMNS / together);
        uint row = r / UNIT_ROWS * PART_ROWS + slice * UNIT_ROWS + r % UNIT_ROWS;
        float value;
        if (GATED) {
            uint at = r * TILE_COLUMNS + c / UNIT_COLUMNS * (2 * UNIT_COLUMNS) + c % UNIT_COLUMNS;
            value = gated_value(staged_sum(at), staged_sum(at + UNIT_COLUMNS));
        } else {
            value = staged_sum(r * TILE_COLUMNS + c);
        }
        write_result(row, c, value);
    }
}

/* The sums must be named by constants, or they go to memory; compilers do not unroll loops with
 * barriers in them. */
#define STORE_SLICE(slice)                                                                         \
    if (slice < FRAGMENT_ROWS) {                                                                   \
        barrier();                                                                                 \
        [[unroll]] for (uint j = 0; j < FRAGMENT_COLUMNS; j++)                                     \
            coopMatStore(sums[min(slice, FRAGMENT_ROWS - 1) * FRAGMENT_COLUMNS + j], stage,        \
                         (part_row / PART_ROWS * UNIT_ROWS * TILE_COLUMNS + part_column +          \
                          j * UNIT_COLUMNS) / 4,                                                   \
                         TILE_COLUMNS / 4, gl_CooperativeMatrixLayoutRowMajor);                    \
        barrier();                                                                                 \
        write_slice(slice);                                                                        \
    }

void write_part(uint part_row, uint part_column)
{
    STORE_SLICE(0)
    STORE_SLICE(1)
    STORE_SLICE(2)
    STORE_SLICE(3)
    STORE_SLICE(4)
    STORE_SLICE(5)
    STORE_SLICE(6)
    STORE_SLICE(7)
}
