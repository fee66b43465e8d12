/*
 * Any bytes as a safetensors file: opening must end in an error with a text or in a file whose
 * every tensor can be found by its name and read inside the bytes, and whose tensors cover the data
 * exactly.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "proto/safetensors_file.h"

static uint64_t read_tensors(const struct safetensors_file *file, size_t size)
{
    uint64_t sum = 0, covered = 0;
    for (uint32_t i = 0; i < safetensors_file_tensor_count(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_file_tensor(file, i);
        must(strlen(tensor->name) <= LIMIT_GGUF_NAME_BYTES);
        must(safetensors_file_find_tensor(file, tensor->name) == tensor);
        must(tensor->dimension_count <= LIMIT_SAFETENSORS_DIMENSIONS);
        must(strcmp(safetensors_type_name(tensor->type), "?") != 0);
        for (uint64_t at = 0; at < tensor->data_bytes; at++)
            sum += tensor->data[at];
        covered += tensor->data_bytes;
    }
    must(covered + safetensors_file_header_bytes(file) == size);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors_file *file = NULL;
    struct error_text error = {""};
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    if (safetensors_file_open(bytes, size, &file, &error) == RESULT_OK) {
        volatile uint64_t kept = read_tensors(file, size);
        (void)kept;
        safetensors_file_close(file);
    } else {
        must(!file && error.text[0] != '\0');
    }
    free(bytes);
    return 0;
}
