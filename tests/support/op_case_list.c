/*
 * Steps and defaults that the cases of many ops share.
 */
#include "tests/support/op_case_list.h"

#include <string.h>

void op_case_visit(const struct op_case_visitor *visitor, const struct op_case *c)
{
    visitor->visit(c, visitor->context);
}

struct op_case op_case_begin(enum op_stem stem, uint32_t input_columns, uint32_t output_columns)
{
    return (struct op_case){.stem = stem,
                            .input_columns = {input_columns},
                            .input_type = GGML_F32,
                            .input_scale = 1.0f,
                            .output_columns = output_columns,
                            .rope = {.dims = 2, .magnitude = 1.0f},
                            .steps = {{1, 0}, {2, 1}, {0, 8}, {9, 0}, {20, 13}}};
}

void op_case_add_long_step(struct op_case *c)
{
    c->steps[5][0] = 130;
}

void op_case_set_norm_weight(struct op_case *c, uint32_t columns)
{
    c->weights[0] = (struct op_trial_weight){GGML_F32, 1, columns};
}

void op_case_set_kv_steps(struct op_case *c)
{
    static const uint32_t steps[][OP_TRIAL_SEQUENCES] = {{33, 1}, {1, 17}, {70, 64}, {1, 1},
                                                         {5, 90}, {1, 0},  {0, 3},   {129, 2}};
    memcpy(c->steps, steps, sizeof steps);
}

void op_case_set_state_steps(struct op_case *c)
{
    static const uint32_t steps[][OP_TRIAL_SEQUENCES] = {{5, 1}, {1, 2}, {0, 1}, {1, 1},
                                                         {2, 7}, {1, 0}, {40, 3}};
    memcpy(c->steps, steps, sizeof steps);
}
