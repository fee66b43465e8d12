/*
 * How the sequences of a step advance recurrent state (vulkan_batch.h, struct vulkan_step_move). A
 * sequence's rows are late ones, then those of the step; its last `deferred_rows` do not advance the
 * slot, and what they would advance it with is kept at places.
 */

struct StepMove {
    uint deferred_rows;
    uint deferred_place;
    uint late_rows;
    uint late_place;
    uint copied_after; /* so many late and other rows the slot is copied */
    uint state_copy;   /* to this one, or SLOT_NONE */
    uint unused[2];
};
const uint SLOT_NONE = 0xFFFFFFFFu;

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer StepMoves
{
    StepMove at[];
};
