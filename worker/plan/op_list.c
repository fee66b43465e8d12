/*
 * The op table's names and tolerances, expanded from the one list.
 */
#include "worker/plan/op_list.h"

#include "proto/must.h"

static const struct {
    const char *name;
    float tolerance;
} op_rows[OP_STEM_COUNT] = {
#define OP_ROW(stem, inputs, least, most, tol) [OP_##stem] = {#stem, (float)(tol)},
    EVERY_OP_LIST(OP_ROW)
#undef OP_ROW
};

const char *op_stem_name(enum op_stem stem)
{
    must((unsigned)stem < OP_STEM_COUNT);
    return op_rows[stem].name;
}

float op_stem_tolerance(enum op_stem stem)
{
    must((unsigned)stem < OP_STEM_COUNT);
    return op_rows[stem].tolerance;
}
