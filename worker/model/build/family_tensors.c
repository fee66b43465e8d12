/*
 * A short list with linear search. The config readers bound the number of distinct sizes, so the
 * list cannot overflow whatever a checkpoint says.
 */
#include "worker/model/build/family_tensors.h"

#include "proto/must.h"

plan_tensor_id family_tensors_get(struct family_tensors *tensors, struct plan_builder *builder,
                                  enum family_purpose purpose, enum plan_rows rows,
                                  uint32_t columns)
{
    for (uint32_t i = 0; i < tensors->count; i++) {
        const struct family_tensor *known = &tensors->tensors[i];
        if (known->purpose == purpose && known->rows == rows && known->columns == columns)
            return known->id;
    }
    must(tensors->count < FAMILY_TENSORS_MAX);
    plan_tensor_id id = plan_builder_tensor(builder, rows, columns);
    tensors->tensors[tensors->count++] =
        (struct family_tensor){.purpose = purpose, .rows = rows, .columns = columns, .id = id};
    return id;
}
