/*
 * One mapping, sized at load and touched as far as images reach. Rows are not cleared when their
 * owner changes: the encoder writes a row before a step reads it.
 */
#include "worker/backend/cpu/program/cpu_feature_pool.h"

#include "proto/must.h"

enum result cpu_feature_pool_init(struct cpu_feature_pool *features, uint32_t rows,
                                  uint32_t columns, struct error_text *error)
{
    *features = (struct cpu_feature_pool){.rows = rows, .columns = columns};
    uint64_t bytes = (uint64_t)rows * columns * sizeof(float);
    return lazy_memory_reserve(&features->memory, bytes, false, "features of images", error);
}

void cpu_feature_pool_place(struct cpu_feature_pool *features, struct lazy_memory *memory)
{
    must(memory->byte_count == features->memory.byte_count);
    lazy_memory_release(&features->memory);
    features->memory = *memory;
    *memory = (struct lazy_memory){0};
}

void cpu_feature_pool_fini(struct cpu_feature_pool *features)
{
    lazy_memory_release(&features->memory);
}

float *cpu_feature_pool_row(const struct cpu_feature_pool *features, uint32_t row)
{
    must(row < features->rows);
    return (float *)features->memory.bytes + (size_t)row * features->columns;
}
