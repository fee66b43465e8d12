/*
 * Any bytes as a GGUF file: opening must end in an error or in a file whose every tensor, key and
 * array element can be read inside the bytes. All of it is read here, byte for byte.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/gguf_file.h"
#include "proto/must.h"

static uint64_t read_tensors(const struct gguf_file *file)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < gguf_file_tensor_count(file); i++) {
        const struct gguf_tensor *tensor = gguf_file_tensor(file, i);
        char name[LIMIT_GGUF_NAME_BYTES + 1];
        must(tensor->name.length < sizeof name);
        memcpy(name, tensor->name.bytes, tensor->name.length);
        name[tensor->name.length] = '\0';
        must(gguf_file_find_tensor(file, name) == tensor);
        must((uintptr_t)tensor->data % 8 == 0);
        for (uint64_t at = 0; at < tensor->data_bytes; at++)
            sum += tensor->data[at];
    }
    return sum;
}

static uint64_t read_array(const struct gguf_file *file, const char *key)
{
    struct gguf_array array;
    uint64_t sum = 0;
    if (gguf_file_array(file, key, &array) != RESULT_OK)
        return 0;
    if (array.type != GGUF_STRING) {
        for (uint64_t i = 0; i < array.count; i++)
            sum += (uint64_t)gguf_array_i64(&array, i) + (gguf_array_f64(&array, i) > 0);
        return sum;
    }
    struct gguf_string string;
    const uint8_t *cursor = array.first;
    uint64_t count = 0;
    while (gguf_array_next_string(&array, &cursor, &string)) {
        count++;
        for (size_t i = 0; i < string.length; i++)
            sum += (unsigned char)string.bytes[i];
    }
    must(count == array.count);
    return sum;
}

static uint64_t read_key(const struct gguf_file *file, const char *key)
{
    uint32_t number = 0;
    float real = 0.0f;
    bool flag = false;
    struct gguf_string string = {"", 0};
    int found = (gguf_file_u32(file, key, &number) == RESULT_OK) +
                (gguf_file_f32(file, key, &real) == RESULT_OK) +
                (gguf_file_bool(file, key, &flag) == RESULT_OK) +
                (gguf_file_string(file, key, &string) == RESULT_OK);
    must(found <= 1);
    return number + (real > 0.0f) + flag + string.length;
}

/* Where the sums go, so that no compiler drops the reads. */
static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {
        "general.architecture", "general.alignment", "words", "numbers", "scale", "flag"};
    struct gguf_file *file;
    struct error_text error = {""};
    uint8_t *bytes = malloc(size ? size : 1); /* aligned as an mmap would be; data need not be */
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    if (gguf_file_open(bytes, size, &file, &error) == RESULT_OK) {
        uint64_t sum = read_tensors(file);
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            sum += read_key(file, keys[i]) + read_array(file, keys[i]);
        sink = sum;
        gguf_file_close(file);
    } else {
        must(error.text[0] != '\0');
    }
    free(bytes);
    return 0;
}
