/*
 * A step as the host describes it to kernels: its rows, its sequences, their block tables and
 * the rows whose logits are computed (vulkan_batch.h writes it).
 *
 * Rows beyond the real ones pad the step to its bucket; their sequence's block table names a block
 * that no real row reads.
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

/* Positions of a block of the KV cache. */
const uint KV_BLOCK_TOKENS = 16;

/* In StepRow.drawn: the row's token is draw number (drawn & STEP_DRAW) of the previous step. */
const uint STEP_DRAWN = 0x80000000u, STEP_DRAW = 0x7FFFFFFFu;

struct StepRow {
    uint token;
    uint position;
    uint sequence;
    uint drawn; /* 0, or STEP_DRAWN | draw: then `token` is undefined */
};

struct StepSequence {
    uint first_row;
    uint row_count;
    uint first_position;
    uint state_slot;
    uint table[4]; /* of each group: where in `tables` its block table begins */
};

/* A row's relation to images; only in models with vision. */
struct StepSight {
    uint time; /* where it stands for its rotation */
    uint height;
    uint width;
    uint feature; /* row of the feature pool that replaces its token, or SIGHT_BLIND */
    uint begin;   /* it sees positions [begin, end) of its sequence */
    uint end;
    uint crossed_first; /* entry of the tables where its ranges of the feature pool begin */
    uint crossed_count; /* number of ranges, maybe with SIGHT_UNSEEING */
};
const uint SIGHT_BLIND = 0xFFFFFFFFu;
const uint SIGHT_UNSEEING = 0x80000000u; /* VULKAN_SIGHT_BLIND */

/* The axis that is the row's position in its sequence. */
const uint ROPE_ROW = 3;

/* By `axis`, another of enum rope_axis. */
uint sight_position(StepSight sight, uint axis)
{
    return axis == 0 ? sight.time : axis == 1 ? sight.height : sight.width;
}

/* Consecutive rows of one sequence that attention works on together. */
struct StepTile {
    uint sequence;
    uint first_row;
    uint row_count; /* 0: padding */
    uint first_position;
};

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer StepRows
{
    StepRow at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer StepSequences
{
    StepSequence at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer StepTiles
{
    StepTile at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer StepSights
{
    StepSight at[];
};
/* Block tables, logit rows, drawn tokens. */
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer StepWords
{
    uint at[];
};
