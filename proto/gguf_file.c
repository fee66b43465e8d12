/*
 * Opens a GGUF checkpoint and checks all of it, because it may come from any source.
 *
 * The file is: magic, version, two counts, the metadata keys, the tensor table, padding, tensor
 * data. One pass reads it front to back with a bounded cursor and keeps, for every key and tensor,
 * pointers into the caller's bytes. The counts are compared with the bytes left before anything is
 * allocated for them. Duplicate names and tensors that share bytes are found by sorting and
 * comparing neighbours: O(n log n) for any input, where a hash table would be quadratic for names
 * chosen to collide. The sorted order then serves look-ups by name.
 *
 * Tensor sizes are computed with overflow checks from dimensions and block size; each tensor must
 * be aligned, whole rows of blocks, and inside the data section.
 *
 * Unsupported: big-endian files, version 1, element types without a reader, and names with control
 * characters (names appear in logs).
 */
#include "proto/gguf_file.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/gguf_cursor.h"
#include "proto/must.h"

#define GGUF_MAGIC             0x46554747u /* "GGUF" */
#define GGUF_DEFAULT_ALIGNMENT 32u
#define KEY_BYTES_LEAST        14u /* length, one character, type, one byte of value */
#define TENSOR_BYTES_LEAST     33u /* length, one character, count, one dimension, type, offset */

struct metadata_entry {
    struct gguf_string key;
    bool is_array;
    struct gguf_array value; /* a scalar or string is an array of one */
};

struct gguf_file {
    const uint8_t *bytes;
    size_t byte_count;
    uint32_t entry_count;
    uint32_t tensor_count;
    struct metadata_entry *entries;           /* sorted by key */
    struct gguf_tensor *tensors;              /* in file order */
    const struct gguf_tensor **tensors_named; /* sorted by name */
    const struct gguf_file *next;             /* another part of the checkpoint, or NULL */
};

/* --- names: order, checks, look-up
 * --------------------------------------------------------------------------------- */

static int string_compare(struct gguf_string a, struct gguf_string b)
{
    size_t shorter = a.length < b.length ? a.length : b.length;
    int order = memcmp(a.bytes, b.bytes, shorter);
    if (order != 0)
        return order;
    return (a.length > b.length) - (a.length < b.length);
}

static int entry_compare(const void *a, const void *b)
{
    return string_compare(((const struct metadata_entry *)a)->key,
                          ((const struct metadata_entry *)b)->key);
}

static int tensor_name_compare(const void *a, const void *b)
{
    return string_compare((*(const struct gguf_tensor *const *)a)->name,
                          (*(const struct gguf_tensor *const *)b)->name);
}

static int tensor_data_compare(const void *a, const void *b)
{
    const uint8_t *left = (*(const struct gguf_tensor *const *)a)->data;
    const uint8_t *right = (*(const struct gguf_tensor *const *)b)->data;
    return (left > right) - (left < right);
}

static enum result take_name(struct gguf_cursor *cursor, const char *what, uint32_t index,
                             struct gguf_string *out, struct error_text *error)
{
    if (!gguf_cursor_take_string(cursor, out))
        return error_set(error, RESULT_CORRUPT, "the file ends inside the name of %s %u", what,
                         index);
    if (out->length == 0)
        return error_set(error, RESULT_CORRUPT, "%s %u has an empty name", what, index);
    if (out->length > LIMIT_GGUF_NAME_BYTES)
        return error_set(error, RESULT_TOO_LARGE, "the name of %s %u has %zu bytes, over %u", what,
                         index, out->length, LIMIT_GGUF_NAME_BYTES);
    for (size_t i = 0; i < out->length; i++)
        if ((unsigned char)out->bytes[i] < 0x20 || out->bytes[i] == 0x7f)
            return error_set(error, RESULT_CORRUPT, "the name of %s %u holds a control character",
                             what, index);
    return RESULT_OK;
}

/* A name for error words: "%.*s" with a length that leaves room for the reason. */
#define NAME(string) (int)((string).length < 80 ? (string).length : 80), (string).bytes

static const struct metadata_entry *find_entry(const struct gguf_file *file, const char *key)
{
    struct metadata_entry wanted = {.key = {key, strlen(key)}};
    if (file->entry_count == 0)
        return NULL;
    return bsearch(&wanted, file->entries, file->entry_count, sizeof *file->entries, entry_compare);
}

/* --- opening
 * -------------------------------------------------------------------------------------------------------
 */

static enum result read_head(struct gguf_file *file, struct gguf_cursor *cursor,
                             struct error_text *error)
{
    uint32_t magic, version;
    uint64_t tensor_count, entry_count;
    if (!gguf_cursor_take_u32(cursor, &magic) || magic != GGUF_MAGIC)
        return error_set(error, RESULT_INVALID, "not a GGUF file: it does not start with \"GGUF\"");
    if (!gguf_cursor_take_u32(cursor, &version))
        return error_set(error, RESULT_CORRUPT, "the file ends inside its header");
    if (version != 0 && (version & 0xffffu) == 0)
        return error_set(error, RESULT_UNSUPPORTED, "the file is big-endian");
    if (version != 2 && version != 3)
        return error_set(error, RESULT_UNSUPPORTED, "GGUF version %u, not 2 or 3", version);
    if (!gguf_cursor_take_u64(cursor, &tensor_count) || !gguf_cursor_take_u64(cursor, &entry_count))
        return error_set(error, RESULT_CORRUPT, "the file ends inside its header");
    uint64_t left = (uint64_t)(cursor->end - cursor->at);
    if (tensor_count > LIMIT_GGUF_TENSORS)
        return error_set(error, RESULT_TOO_LARGE, "%llu tensors, over %u",
                         (unsigned long long)tensor_count, LIMIT_GGUF_TENSORS);
    if (entry_count > LIMIT_GGUF_METADATA)
        return error_set(error, RESULT_TOO_LARGE, "%llu metadata keys, over %u",
                         (unsigned long long)entry_count, LIMIT_GGUF_METADATA);
    if (tensor_count * TENSOR_BYTES_LEAST + entry_count * KEY_BYTES_LEAST > left)
        return error_set(error, RESULT_CORRUPT,
                         "%llu keys and %llu tensors do not fit in %llu bytes",
                         (unsigned long long)entry_count, (unsigned long long)tensor_count,
                         (unsigned long long)left);
    file->tensor_count = (uint32_t)tensor_count;
    file->entry_count = (uint32_t)entry_count;
    file->entries = calloc(entry_count + 1, sizeof *file->entries);
    file->tensors = calloc(tensor_count + 1, sizeof *file->tensors);
    file->tensors_named = calloc(tensor_count + 1, sizeof *file->tensors_named);
    if (!file->entries || !file->tensors || !file->tensors_named)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for the tensor table");
    return RESULT_OK;
}

static enum result read_metadata(struct gguf_file *file, struct gguf_cursor *cursor,
                                 struct error_text *error)
{
    for (uint32_t i = 0; i < file->entry_count; i++) {
        struct metadata_entry *entry = &file->entries[i];
        struct error_text reason;
        uint32_t type;
        enum result result = take_name(cursor, "metadata key", i, &entry->key, error);
        if (result != RESULT_OK)
            return result;
        if (!gguf_cursor_take_u32(cursor, &type))
            return error_set(error, RESULT_CORRUPT, "the file ends after key %.*s",
                             NAME(entry->key));
        result = gguf_cursor_take_value(cursor, type, &entry->is_array, &entry->value, &reason);
        if (result != RESULT_OK)
            return error_set(error, result, "key %.*s: %.128s", NAME(entry->key), reason.text);
    }
    qsort(file->entries, file->entry_count, sizeof *file->entries, entry_compare);
    for (uint32_t i = 1; i < file->entry_count; i++)
        if (entry_compare(&file->entries[i - 1], &file->entries[i]) == 0)
            return error_set(error, RESULT_CORRUPT, "metadata key %.*s occurs twice",
                             NAME(file->entries[i].key));
    return RESULT_OK;
}

/* Dimensions and type to a size in bytes; every product is checked, so a huge shape cannot wrap
 * into a small one. */
static enum result size_tensor(struct gguf_tensor *tensor, struct error_text *error)
{
    struct ggml_block block = ggml_type_stored_block(tensor->type);
    if (block.elements == 0 && ggml_type_name(tensor->type)[0] != '?')
        return error_set(error, RESULT_UNSUPPORTED, "tensor %.*s: type %s has no reader",
                         NAME(tensor->name), ggml_type_name(tensor->type));
    if (block.elements == 0)
        return error_set(error, RESULT_UNSUPPORTED, "tensor %.*s: type %d has no reader",
                         NAME(tensor->name), (int)tensor->type);
    if (tensor->dimensions[0] % block.elements != 0)
        return error_set(error, RESULT_CORRUPT,
                         "tensor %.*s: rows of %llu are not whole blocks of %u (%s)",
                         NAME(tensor->name), (unsigned long long)tensor->dimensions[0],
                         block.elements, ggml_type_name(tensor->type));
    uint64_t data_bytes = tensor->dimensions[0] / block.elements;
    bool overflow = __builtin_mul_overflow(data_bytes, (uint64_t)block.bytes, &data_bytes);
    /* Elements are counted too: users may multiply dimensions without checking again. */
    uint64_t elements = tensor->dimensions[0];
    for (uint32_t i = 1; i < LIMIT_GGUF_DIMENSIONS; i++) {
        overflow |= __builtin_mul_overflow(data_bytes, tensor->dimensions[i], &data_bytes);
        overflow |= __builtin_mul_overflow(elements, tensor->dimensions[i], &elements);
    }
    if (overflow || elements > INT64_MAX)
        return error_set(error, RESULT_TOO_LARGE, "tensor %.*s: its dimensions overflow 64 bits",
                         NAME(tensor->name));
    tensor->data_bytes = data_bytes;
    return RESULT_OK;
}

/* Reads one row of the table. The data's place is kept as an offset until the table's end, and so
 * the data section's start, is known. */
static enum result read_tensor(struct gguf_cursor *cursor, uint32_t index,
                               struct gguf_tensor *tensor, uint64_t *offset,
                               struct error_text *error)
{
    enum result result = take_name(cursor, "tensor", index, &tensor->name, error);
    if (result != RESULT_OK)
        return result;
    uint32_t type = 0;
    bool whole = gguf_cursor_take_u32(cursor, &tensor->dimension_count);
    if (whole && (tensor->dimension_count == 0 || tensor->dimension_count > LIMIT_GGUF_DIMENSIONS))
        return error_set(error, RESULT_CORRUPT, "tensor %.*s: %u dimensions, not 1 to %u",
                         NAME(tensor->name), tensor->dimension_count, LIMIT_GGUF_DIMENSIONS);
    for (uint32_t i = 0; i < LIMIT_GGUF_DIMENSIONS; i++) {
        tensor->dimensions[i] = 1;
        if (whole && i < tensor->dimension_count)
            whole = gguf_cursor_take_u64(cursor, &tensor->dimensions[i]);
    }
    whole = whole && gguf_cursor_take_u32(cursor, &type) && gguf_cursor_take_u64(cursor, offset);
    if (!whole)
        return error_set(error, RESULT_CORRUPT, "the file ends inside the table, at tensor %.*s",
                         NAME(tensor->name));
    for (uint32_t i = 0; i < tensor->dimension_count; i++)
        if (tensor->dimensions[i] == 0)
            return error_set(error, RESULT_CORRUPT, "tensor %.*s: dimension %u is 0",
                             NAME(tensor->name), i);
    tensor->type = (enum ggml_type)type;
    return size_tensor(tensor, error);
}

static enum result read_alignment(const struct gguf_file *file, uint32_t *alignment,
                                  struct error_text *error)
{
    *alignment = GGUF_DEFAULT_ALIGNMENT;
    enum result result = gguf_file_u32(file, "general.alignment", alignment);
    if (result == RESULT_NOT_FOUND)
        return RESULT_OK;
    if (result != RESULT_OK)
        return error_set(error, RESULT_CORRUPT, "general.alignment is not a 32-bit number");
    if (*alignment < 8 || *alignment > LIMIT_GGUF_ALIGNMENT || (*alignment & (*alignment - 1)) != 0)
        return error_set(error, RESULT_CORRUPT,
                         "general.alignment is %u, not a power of two from 8 to %u", *alignment,
                         LIMIT_GGUF_ALIGNMENT);
    return RESULT_OK;
}

/* Turns a tensor's offset into a pointer once it is proved to lie, aligned and whole, inside the
 * data section. */
static enum result place_tensor(const struct gguf_file *file, uint64_t data_start,
                                uint32_t alignment, uint64_t offset, struct gguf_tensor *tensor,
                                struct error_text *error)
{
    uint64_t room = data_start < file->byte_count ? file->byte_count - data_start : 0;
    if (offset % alignment != 0)
        return error_set(error, RESULT_CORRUPT, "tensor %.*s: offset %llu is not aligned to %u",
                         NAME(tensor->name), (unsigned long long)offset, alignment);
    if (offset > room || tensor->data_bytes > room - offset)
        return error_set(error, RESULT_CORRUPT,
                         "tensor %.*s: %llu bytes at %llu pass the %llu bytes of data",
                         NAME(tensor->name), (unsigned long long)tensor->data_bytes,
                         (unsigned long long)offset, (unsigned long long)room);
    tensor->data = file->bytes + data_start + offset;
    return RESULT_OK;
}

static enum result read_tensors(struct gguf_file *file, struct gguf_cursor *cursor,
                                uint64_t *offsets, struct error_text *error)
{
    enum result result;
    uint32_t alignment;
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        result = read_tensor(cursor, i, &file->tensors[i], &offsets[i], error);
        if (result != RESULT_OK)
            return result;
    }
    if ((result = read_alignment(file, &alignment, error)) != RESULT_OK)
        return result;
    uint64_t head_bytes = (uint64_t)(cursor->at - file->bytes);
    uint64_t data_start = (head_bytes + alignment - 1) & ~(uint64_t)(alignment - 1);
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        struct gguf_tensor *tensor = &file->tensors[i];
        result = place_tensor(file, data_start, alignment, offsets[i], tensor, error);
        if (result != RESULT_OK)
            return result;
        file->tensors_named[i] = tensor;
    }
    return RESULT_OK;
}

/* Sorted by place, neighbours show an overlap; sorted by name (the order that stays), a name used
 * twice. */
static enum result check_neighbours(struct gguf_file *file, struct error_text *error)
{
    const struct gguf_tensor **sorted = file->tensors_named;
    uint32_t count = file->tensor_count;
    qsort(sorted, count, sizeof *sorted, tensor_data_compare);
    for (uint32_t i = 1; i < count; i++)
        if ((uint64_t)(sorted[i]->data - sorted[i - 1]->data) < sorted[i - 1]->data_bytes)
            return error_set(error, RESULT_CORRUPT, "tensors %.*s and %.*s overlap",
                             NAME(sorted[i - 1]->name), NAME(sorted[i]->name));
    qsort(sorted, count, sizeof *sorted, tensor_name_compare);
    for (uint32_t i = 1; i < count; i++)
        if (string_compare(sorted[i - 1]->name, sorted[i]->name) == 0)
            return error_set(error, RESULT_CORRUPT, "tensor %.*s occurs twice",
                             NAME(sorted[i]->name));
    return RESULT_OK;
}

enum result gguf_file_open(const void *bytes, size_t byte_count, struct gguf_file **file,
                           struct error_text *error)
{
    must((uintptr_t)bytes % 8 == 0); /* tensor data is read in place */
    enum result result;
    uint64_t *offsets = NULL;
    struct gguf_cursor cursor = {.at = bytes, .end = (const uint8_t *)bytes + byte_count};
    struct gguf_file *opened = must_alloc(1, sizeof *opened);
    opened->bytes = bytes;
    opened->byte_count = byte_count;

    *file = NULL;
    if ((result = read_head(opened, &cursor, error)) != RESULT_OK)
        goto out;
    if ((result = read_metadata(opened, &cursor, error)) != RESULT_OK)
        goto out;
    offsets = calloc((size_t)opened->tensor_count + 1, sizeof *offsets);
    if (!offsets) {
        result = error_set(error, RESULT_OUT_OF_MEMORY, "no memory for the tensor table");
        goto out;
    }
    if ((result = read_tensors(opened, &cursor, offsets, error)) != RESULT_OK)
        goto out;
    if ((result = check_neighbours(opened, error)) != RESULT_OK)
        goto out;
    *file = opened;
    opened = NULL;
out:
    free(offsets);
    gguf_file_close(opened);
    return result;
}

void gguf_file_close(struct gguf_file *file)
{
    if (!file)
        return;
    free(file->entries);
    free(file->tensors);
    free(file->tensors_named);
    free(file);
}

/* --- tensors
 * -------------------------------------------------------------------------------------------------------
 */

uint32_t gguf_file_tensor_count(const struct gguf_file *file)
{
    return file->tensor_count;
}

const struct gguf_tensor *gguf_file_tensor(const struct gguf_file *file, uint32_t index)
{
    must(index < file->tensor_count);
    return &file->tensors[index];
}

static const struct gguf_tensor *find_own_tensor(const struct gguf_file *file, const char *name)
{
    struct gguf_tensor wanted = {.name = {name, strlen(name)}};
    const struct gguf_tensor *key = &wanted;
    if (file->tensor_count == 0)
        return NULL;
    const struct gguf_tensor **found = bsearch(&key, file->tensors_named, file->tensor_count,
                                               sizeof *file->tensors_named, tensor_name_compare);
    return found ? *found : NULL;
}

const struct gguf_tensor *gguf_file_find_tensor(const struct gguf_file *file, const char *name)
{
    const struct gguf_tensor *found = NULL;
    for (; file && !found; file = file->next)
        found = find_own_tensor(file, name);
    return found;
}

void gguf_file_set_next(struct gguf_file *file, const struct gguf_file *next)
{
    file->next = next;
}

/* --- metadata
 * ------------------------------------------------------------------------------------------------------
 */

enum result gguf_file_u32(const struct gguf_file *file, const char *key, uint32_t *out)
{
    const struct metadata_entry *entry = find_entry(file, key);
    if (!entry)
        return RESULT_NOT_FOUND;
    switch (entry->value.type) {
    case GGUF_STRING:
    case GGUF_BOOL:
    case GGUF_FLOAT32:
    case GGUF_FLOAT64: return RESULT_INVALID;
    default: break;
    }
    if (entry->is_array)
        return RESULT_INVALID;
    int64_t value = gguf_array_i64(&entry->value, 0); /* a u64 over 2^63 reads as negative */
    if (value < 0 || value > UINT32_MAX)
        return RESULT_INVALID;
    *out = (uint32_t)value;
    return RESULT_OK;
}

enum result gguf_file_f32(const struct gguf_file *file, const char *key, float *out)
{
    const struct metadata_entry *entry = find_entry(file, key);
    if (!entry)
        return RESULT_NOT_FOUND;
    if (entry->is_array || (entry->value.type != GGUF_FLOAT32 && entry->value.type != GGUF_FLOAT64))
        return RESULT_INVALID;
    double value = gguf_array_f64(&entry->value, 0);
    if (!isfinite(value) || fabs(value) > FLT_MAX)
        return RESULT_INVALID;
    *out = (float)value;
    return RESULT_OK;
}

enum result gguf_file_bool(const struct gguf_file *file, const char *key, bool *out)
{
    const struct metadata_entry *entry = find_entry(file, key);
    if (!entry)
        return RESULT_NOT_FOUND;
    if (entry->is_array || entry->value.type != GGUF_BOOL)
        return RESULT_INVALID;
    *out = gguf_array_i64(&entry->value, 0) != 0;
    return RESULT_OK;
}

enum result gguf_file_string(const struct gguf_file *file, const char *key, struct gguf_string *out)
{
    const struct metadata_entry *entry = find_entry(file, key);
    if (!entry)
        return RESULT_NOT_FOUND;
    if (entry->is_array || entry->value.type != GGUF_STRING)
        return RESULT_INVALID;
    const uint8_t *cursor = entry->value.first;
    must(gguf_array_next_string(&entry->value, &cursor, out));
    return RESULT_OK;
}

enum result gguf_file_array(const struct gguf_file *file, const char *key, struct gguf_array *out)
{
    const struct metadata_entry *entry = find_entry(file, key);
    if (!entry)
        return RESULT_NOT_FOUND;
    if (!entry->is_array)
        return RESULT_INVALID;
    *out = entry->value;
    return RESULT_OK;
}
