/*
 * The rows of the op table as an array.
 */
#include "worker/plan/op_list.h"

#include "proto/must.h"

static const struct op_facts rows[OP_STEM_COUNT] = {
#define OP_ROW(stem, count, min, max, limit, kind, sharing, target, blocks, forms, reach, padding) \
    [OP_##stem] = {.name = #stem,                                                                  \
                   .inputs = (count),                                                              \
                   .weights_min = (min),                                                           \
                   .weights_max = (max),                                                           \
                   .tolerance = (float)(limit),                                                    \
                   .weights = OP_WEIGHTS_##kind,                                                   \
                   .work = OP_WORK_##sharing,                                                      \
                   .output = OP_OUTPUT_##target,                                                   \
                   .q8 = OP_Q8_##blocks,                                                           \
                   .span = OP_SPAN_##reach,                                                        \
                   .pad = OP_PAD_##padding},
    EVERY_OP_LIST(OP_ROW)
#undef OP_ROW
};

const struct op_facts *op_facts(enum op_stem stem)
{
    must((unsigned)stem < OP_STEM_COUNT);
    return &rows[stem];
}

const char *op_stem_name(enum op_stem stem)
{
    return op_facts(stem)->name;
}
