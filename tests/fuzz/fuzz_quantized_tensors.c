/*
 * Any config.json, a NUL and any safetensors file: joining the quantized tensors must end in an
 * error with a text, or in tensors of which every row can be read to its last column.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/model/hf/checkpoint_quantization.h"

enum { COLUMNS_MOST = 4096 };

static void read_last_row(const struct checkpoint_tensor *tensor)
{
    uint64_t columns = tensor->dimensions[0], rows = 1;
    for (uint32_t d = 1; d < TENSOR_DIMENSIONS_MAX; d++)
        rows *= tensor->dimensions[d];
    must(tensor->readable && rows > 0 && columns > 0);
    must(rows * tensor->source.row_bytes == tensor->data_bytes);
    if (columns > COLUMNS_MOST)
        return;
    uint8_t *out = must_alloc(columns, sizeof(float));
    struct weight_span span = {.row = rows - 1, .count = (uint32_t)columns};
    weight_source_read(&tensor->source, (uint32_t)columns, span, out);
    free(out);
}

static void check_table(struct json_value config, struct tensor_table *table)
{
    struct error_text error = {""};
    if (tensor_table_finish(table, &error) != RESULT_OK)
        return;
    if (checkpoint_quantization_apply(config, table, &error) != RESULT_OK) {
        must(error.text[0] != '\0');
        return;
    }
    for (uint32_t i = 0; i < tensor_table_count(table); i++)
        if (tensor_table_at(table, i)->source.layout != WEIGHT_IN_PLACE)
            read_last_row(tensor_table_at(table, i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error_text error = {""};
    struct json_value config;
    struct safetensors_file *file = NULL;
    const uint8_t *end = memchr(data, 0, size);
    size_t text_bytes = end ? (size_t)(end - data) : size;
    if (!end || json_value_open((const char *)data, text_bytes, LIMIT_CONFIG_BYTES, &config,
                                &error) != RESULT_OK)
        return 0;
    if (safetensors_file_open(end + 1, size - text_bytes - 1, &file, &error) != RESULT_OK)
        return 0;
    struct tensor_table *table = tensor_table_create(safetensors_file_tensor_count(file));
    must(table);
    tensor_table_add_safetensors(table, file, "model.safetensors");
    check_table(config, table);
    tensor_table_destroy(table);
    safetensors_file_close(file);
    return 0;
}
