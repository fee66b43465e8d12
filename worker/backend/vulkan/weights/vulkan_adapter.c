/*
 * One pair after the other is laid out in host memory and uploaded.
 */
#include "worker/backend/vulkan/weights/vulkan_adapter.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/backend/vulkan/device/vulkan_upload.h"

#define STAGING_BYTES (8ull << 20)
#define COLUMNS_STEP  4u /* that a kernel reads at once */

enum adapter_kind { KIND_F32, KIND_F16, KIND_BF16 };

static enum adapter_kind kind_of(const struct lora_matrix *matrix)
{
    return matrix->type == GGML_F16 ? KIND_F16 : matrix->type == GGML_BF16 ? KIND_BF16 : KIND_F32;
}

static uint32_t number_bytes(const struct lora_matrix *matrix)
{
    return kind_of(matrix) == KIND_F32 ? sizeof(float) : sizeof(uint16_t);
}

static uint64_t a_bytes(const struct lora_pair *pair)
{
    return (uint64_t)pair->a.rows * pair->a.columns * number_bytes(&pair->a);
}

static uint64_t b_row_bytes(const struct lora_pair *pair)
{
    return (uint64_t)(pair->b.rows + pair->b.rows % 2) * number_bytes(&pair->b);
}

static uint64_t b_bytes(const struct lora_pair *pair)
{
    return pair->b.columns * b_row_bytes(pair);
}

static uint64_t align_piece(uint64_t bytes)
{
    return (bytes + VULKAN_ALIGNMENT - 1) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
}

/* A row of the matrix in its kind. `row`: [columns of that kind]. */
static void read_row(const struct lora_matrix *matrix, uint32_t index, void *row)
{
    uint64_t bytes = ggml_row_bytes(matrix->type, matrix->columns);
    const uint8_t *from = matrix->data + index * bytes;
    if (kind_of(matrix) != KIND_F32 || matrix->type == GGML_F32)
        memcpy(row, from, bytes);
    else
        ggml_dequantize_row(matrix->type, from, matrix->columns, row);
}

static void fill_a(const struct lora_matrix *a, uint8_t *to)
{
    uint64_t bytes = (uint64_t)a->columns * number_bytes(a);
    for (uint32_t r = 0; r < a->rows; r++)
        read_row(a, r, to + r * bytes);
}

static void fill_b(const struct lora_pair *pair, uint8_t *to)
{
    const struct lora_matrix *b = &pair->b;
    uint32_t bytes = number_bytes(b);
    uint8_t *row = must_alloc(b->columns, sizeof(float));
    memset(to, 0, b_bytes(pair));
    for (uint32_t r = 0; r < b->rows; r++) {
        read_row(b, r, row);
        for (uint32_t j = 0; j < b->columns; j++)
            memcpy(to + j * b_row_bytes(pair) + (uint64_t)r * bytes, row + (size_t)j * bytes,
                   bytes);
    }
    free(row);
}

static enum result place(struct vulkan_adapter *adapter, struct vulkan_upload *upload,
                         const struct lora_pair *source, struct vulkan_adapter_pair *pair,
                         struct error_text *error)
{
    struct vulkan_piece a, b;
    enum result result =
        vulkan_arena_take(adapter->memory, a_bytes(source), "an adapter", &a, error);
    if (result == RESULT_OK)
        result = vulkan_arena_take(adapter->memory, b_bytes(source), "an adapter", &b, error);
    if (result != RESULT_OK)
        return result;
    uint8_t *bytes = must_alloc(align_piece(a_bytes(source)) + b_bytes(source), 1);
    fill_a(&source->a, bytes);
    result = vulkan_upload_bytes(upload, bytes, a_bytes(source), a.buffer, a.offset, error);
    if (result == RESULT_OK) {
        fill_b(source, bytes);
        result = vulkan_upload_bytes(upload, bytes, b_bytes(source), b.buffer, b.offset, error);
    }
    free(bytes);
    *pair = (struct vulkan_adapter_pair){.a = a.address,
                                         .b = b.address,
                                         .scale = source->scale,
                                         .rank = source->a.rows,
                                         .kinds = (uint32_t)kind_of(&source->a) |
                                                  (uint32_t)kind_of(&source->b) << 8,
                                         .rows = source->b.rows};
    return result;
}

static enum result upload_pairs(struct vulkan_adapter *adapter, const struct vulkan_device *device,
                                const struct lora_adapter *source, struct error_text *error)
{
    struct vulkan_upload *upload;
    enum result result = vulkan_upload_create(device, STAGING_BYTES, &upload, error);
    if (result != RESULT_OK)
        return result;
    for (uint32_t i = 0; i < source->pair_count && result == RESULT_OK; i++) {
        adapter->weights[i] = source->pairs[i].weight;
        result = place(adapter, upload, &source->pairs[i], &adapter->pairs[i], error);
    }
    if (result == RESULT_OK)
        result = vulkan_upload_finish(upload, error);
    vulkan_upload_destroy(upload);
    return result;
}

enum result vulkan_adapter_create(const struct vulkan_device *device,
                                  const struct lora_adapter *source,
                                  struct vulkan_adapter **created, struct error_text *error)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < source->pair_count; i++) {
        const struct lora_pair *pair = &source->pairs[i];
        if (pair->a.columns % COLUMNS_STEP != 0)
            return error_set(error, RESULT_UNSUPPORTED,
                             "a weight has %u columns; on Vulkan adapters need a multiple of %u",
                             pair->a.columns, COLUMNS_STEP);
        total += align_piece(a_bytes(pair)) + align_piece(b_bytes(pair));
    }
    struct vulkan_adapter *adapter = must_alloc(1, sizeof *adapter);
    *adapter = (struct vulkan_adapter){
        .rank = source->rank,
        .pair_count = source->pair_count,
        .pairs = must_alloc(source->pair_count + 1, sizeof *adapter->pairs),
        .weights = must_alloc(source->pair_count + 1, sizeof *adapter->weights),
        .memory = vulkan_arena_create(device, total, false)};
    enum result result = upload_pairs(adapter, device, source, error);
    if (result != RESULT_OK) {
        vulkan_adapter_destroy(adapter);
        return result;
    }
    *created = adapter;
    return RESULT_OK;
}

void vulkan_adapter_destroy(struct vulkan_adapter *adapter)
{
    if (!adapter)
        return;
    vulkan_arena_destroy(adapter->memory);
    free(adapter->pairs);
    free(adapter->weights);
    free(adapter);
}
