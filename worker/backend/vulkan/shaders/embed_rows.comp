#version 450
/*
 * out[r, :] = scale * W[token(r), :], from the packed matrix. The token comes from the host, or is the
 * one that the previous step drew, which the host may not have read yet.
 *
 * A row of an image gets its feature, unscaled; without a feature pool it gets the row of one token
 * that stands for all images.
 *
 * This is the only kernel that knows every row's token and position, so it keeps them for the sampler's
 * penalties: history[block][position % KV_BLOCK_TOKENS] = token(r), in the block that holds the row's
 * keys in group 0.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#define WEIGHT_KIND_CONSTANT 2
#include "row_forms.glsl"
#include "step.glsl"
#include "weight_blocks.glsl"

layout(push_constant) uniform Push
{
    WeightMatrix weights; /* [vocab, columns] */
    uint64_t rows;        /* StepRow [rows] */
    uint64_t drawn;       /* u32: tokens drawn by the previous step */
    uint64_t sequences;   /* StepSequence */
    uint64_t tables;      /* u32 */
    uint64_t history;     /* u32 [blocks of group 0, KV_BLOCK_TOKENS], or 0: not kept */
    RowOutputs outputs;   /* [rows, columns] */
    uint columns;
    uint vocab_tokens; /* rows of the table; a token beyond them reads row 0 */
    float scale;
    uint columns_or_token; /* of a row of the pool; without a pool, the token of all images */
    uint64_t sights;      /* StepSight [rows], or 0: no row has a feature */
    uint64_t features;    /* f32 [pool rows, columns_or_token], or 0 */
} push;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer History
{
    uint at[];
};

uint token_of(StepRow row)
{
    bool is_drawn = (row.drawn & STEP_DRAWN) != 0;
    uint drawn = StepWords(push.drawn).at[is_drawn ? row.drawn & STEP_DRAW : 0];
    uint token = is_drawn ? drawn : row.token;
    return token < push.vocab_tokens ? token : 0;
}

void remember(StepRow row, uint token)
{
    uint table = StepSequences(push.sequences).at[row.sequence].table[0];
    uint block = StepWords(push.tables).at[table + row.position / KV_BLOCK_TOKENS];
    uint64_t history = push.history + uint64_t(block) * KV_BLOCK_TOKENS * 4;
    History(history).at[row.position % KV_BLOCK_TOKENS] = token;
}

vec4 values(uint token, uint column)
{
    if (column >= push.columns)
        return vec4(0.0);
    if (WEIGHT_QUANTIZED) {
        uint block = token * (push.columns / WEIGHT_BLOCK) + column / WEIGHT_BLOCK;
        return weight_values(weight_load(push.weights, block), column % WEIGHT_BLOCK / 4);
    }
    uint index = token * weight_float_stride(push.columns) + column / WEIGHT_FLOATS;
    return weight_floats(weight_load_floats(push.weights, index), column % WEIGHT_FLOATS / 4);
}

/* The row of the pool that replaces the token, or SIGHT_BLIND. Some drivers load from an address that
 * is the same for all invocations even if the load is conditional, so the address is always valid. */
uint feature_of(uint row)
{
    bool sees = push.sights != 0;
    uint feature = StepSights(sees ? push.sights : push.rows).at[sees ? row : 0].feature;
    return sees ? feature : SIGHT_BLIND;
}

vec4 feature_values(uint feature, uint column)
{
    uint64_t row = push.features + 4 * row_index(feature, 0, push.columns_or_token);
    return row_load(row, 0, column, push.columns);
}

void main()
{
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    StepRow row = StepRows(push.rows).at[gl_WorkGroupID.x];
    uint token = token_of(row);
    if (push.history != 0 && column == 0)
        remember(row, token);
    uint feature = feature_of(gl_WorkGroupID.x);
    if (feature != SIGHT_BLIND && push.features == 0)
        token = push.columns_or_token < push.vocab_tokens ? push.columns_or_token : 0;
    vec4 v = push.scale * values(token, column);
    if (feature != SIGHT_BLIND && push.features != 0)
        v = feature_values(feature, column);
    row_store(push.outputs, gl_WorkGroupID.x, column, push.columns, v);
}
