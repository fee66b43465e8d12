/*
 * Opens a safetensors file and checks all of it, because it may come from any source.
 *
 * The header is read front to back without building a tree: a checkpoint has up to a hundred
 * thousand tensors. Each entry is compared with the data's length as it comes: its type must be
 * known, and its shape must not overflow and must give exactly the bytes between its offsets. Rules
 * about the whole table are checked by sorting and comparing neighbours, O(n log n) for any input.
 * Sorted by offset: the tensors cover the data without overlap or gap (the format's own rule).
 * Sorted by name, the final order: no name occurs twice.
 *
 * Memory is bounded by the header, of which each tensor takes about fifty bytes; names are kept
 * unescaped, which is never longer.
 *
 * Unsupported: types of less than a byte, and entries with unknown members. The metadata entry may
 * occur once and is skipped.
 */
#include "proto/safetensors_file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_reader.h"
#include "proto/must.h"

#define LENGTH_BYTES  8u
#define WORD_BYTES    64u /* a member's name within an entry, or a type */
#define METADATA_NAME "__metadata__"

struct safetensors_file {
    const uint8_t *bytes;
    size_t header_bytes; /* with the length in front */
    const uint8_t *data;
    uint64_t data_bytes;
    uint32_t tensor_count;
    uint32_t tensor_capacity;
    struct safetensors_tensor *tensors; /* sorted by name */
    char *names;                        /* one after the other, NUL-terminated */
    size_t name_bytes;
};

static const struct {
    const char *name;
    uint32_t bytes;
} types[SAFETENSORS_TYPE_COUNT] = {
#define TYPE_ROW(name, bytes) {#name, bytes},
    SAFETENSORS_TYPE_LIST(TYPE_ROW)
#undef TYPE_ROW
};

const char *safetensors_type_name(enum safetensors_type type)
{
    return (unsigned)type < SAFETENSORS_TYPE_COUNT ? types[type].name : "?";
}

/* --- one entry -------------------------------------------------------------------------------- */

/* The members that an entry has, and its offsets. */
struct entry {
    struct safetensors_tensor *tensor;
    bool has_type;
    bool has_shape;
    bool has_offsets;
    uint64_t begin;
    uint64_t end;
};

static enum result malformed(const struct entry *entry, const char *what, struct error_text *error)
{
    return error_set(error, RESULT_CORRUPT, "tensor %.80s: malformed %s", entry->tensor->name,
                     what);
}

/* A text of the file for a log: bytes other than printable ASCII become '?'. */
static void make_printable(char *word)
{
    for (; *word; word++)
        if (*word < 0x20 || *word == 0x7f)
            *word = '?';
}

static enum result read_type(struct json_reader *reader, struct entry *entry,
                             struct error_text *error)
{
    char word[WORD_BYTES];
    size_t bytes = json_reader_string(reader, word, sizeof word - 1);
    word[bytes] = '\0';
    if (reader->failed || entry->has_type)
        return malformed(entry, "dtype", error);
    entry->has_type = true;
    for (unsigned type = 0; type < SAFETENSORS_TYPE_COUNT; type++)
        if (strlen(types[type].name) == bytes && memcmp(types[type].name, word, bytes) == 0) {
            entry->tensor->type = (enum safetensors_type)type;
            return RESULT_OK;
        }
    make_printable(word);
    return error_set(error, RESULT_UNSUPPORTED, "tensor %.80s: dtype \"%s\" is not known",
                     entry->tensor->name, word);
}

static enum result read_shape(struct json_reader *reader, struct entry *entry,
                              struct error_text *error)
{
    struct safetensors_tensor *tensor = entry->tensor;
    bool again = entry->has_shape;
    entry->has_shape = true;
    json_reader_enter(reader, '[');
    while (json_reader_next_element(reader)) {
        uint64_t dimension = json_reader_u64(reader);
        if (reader->failed)
            break;
        if (tensor->dimension_count == LIMIT_SAFETENSORS_DIMENSIONS)
            return error_set(error, RESULT_TOO_LARGE, "tensor %.80s: more than %u dimensions",
                             tensor->name, LIMIT_SAFETENSORS_DIMENSIONS);
        tensor->dimensions[tensor->dimension_count++] = dimension;
    }
    return reader->failed || again ? malformed(entry, "shape", error) : RESULT_OK;
}

static enum result read_offsets(struct json_reader *reader, struct entry *entry,
                                struct error_text *error)
{
    uint64_t *const ends[] = {&entry->begin, &entry->end};
    uint32_t count = 0;
    bool again = entry->has_offsets;
    entry->has_offsets = true;
    json_reader_enter(reader, '[');
    while (json_reader_next_element(reader)) {
        uint64_t offset = json_reader_u64(reader);
        if (count < 2)
            *ends[count] = offset;
        if (count++ == 2)
            break;
    }
    return reader->failed || again || count != 2 ? malformed(entry, "data_offsets", error)
                                                 : RESULT_OK;
}

static enum result read_member(struct json_reader *reader, char *name, struct entry *entry,
                               struct error_text *error)
{
    if (strcmp(name, "dtype") == 0)
        return read_type(reader, entry, error);
    if (strcmp(name, "shape") == 0)
        return read_shape(reader, entry, error);
    if (strcmp(name, "data_offsets") == 0)
        return read_offsets(reader, entry, error);
    make_printable(name);
    return error_set(error, RESULT_UNSUPPORTED, "tensor %.80s: unknown member \"%.32s\"",
                     entry->tensor->name, name);
}

/* The data must have the bytes that type and shape say, and lie inside the file's. */
static enum result place_tensor(const struct safetensors_file *file, const struct entry *entry,
                                struct error_text *error)
{
    struct safetensors_tensor *tensor = entry->tensor;
    uint64_t bytes = types[tensor->type].bytes;
    bool overflow = false;
    for (uint32_t i = 0; i < tensor->dimension_count; i++)
        overflow |= __builtin_mul_overflow(bytes, tensor->dimensions[i], &bytes);
    if (overflow || bytes > INT64_MAX)
        return error_set(error, RESULT_TOO_LARGE, "tensor %.80s: its dimensions overflow 63 bits",
                         tensor->name);
    if (entry->begin > entry->end)
        return error_set(error, RESULT_CORRUPT, "tensor %.80s: its data ends before it begins",
                         tensor->name);
    if (entry->end > file->data_bytes)
        return error_set(error, RESULT_CORRUPT,
                         "tensor %.80s: its data ends at %llu, past the %llu bytes of the file",
                         tensor->name, (unsigned long long)entry->end,
                         (unsigned long long)file->data_bytes);
    if (entry->end - entry->begin != bytes)
        return error_set(error, RESULT_CORRUPT,
                         "tensor %.80s: %llu bytes of data, but its shape says %llu", tensor->name,
                         (unsigned long long)(entry->end - entry->begin),
                         (unsigned long long)bytes);
    tensor->data_bytes = bytes;
    tensor->data = file->data + entry->begin;
    return RESULT_OK;
}

static enum result read_entry(const struct safetensors_file *file, struct json_reader *reader,
                              struct safetensors_tensor *tensor, struct error_text *error)
{
    struct entry entry = {.tensor = tensor};
    char name[WORD_BYTES];
    size_t name_bytes;
    json_reader_enter(reader, '{');
    while (json_reader_next_member(reader, name, sizeof name - 1, &name_bytes)) {
        name[name_bytes] = '\0';
        enum result result = read_member(reader, name, &entry, error);
        if (result != RESULT_OK)
            return result;
    }
    if (reader->failed)
        return malformed(&entry, "entry", error);
    const char *missing = !entry.has_type      ? "dtype"
                          : !entry.has_shape   ? "shape"
                          : !entry.has_offsets ? "data_offsets"
                                               : NULL;
    if (missing)
        return error_set(error, RESULT_CORRUPT, "tensor %.80s: no %s", tensor->name, missing);
    return place_tensor(file, &entry, error);
}

/* --- the header ------------------------------------------------------------------------------- */

static enum result check_name(const char *name, size_t name_bytes, uint32_t index,
                              struct error_text *error)
{
    if (name_bytes == 0)
        return error_set(error, RESULT_CORRUPT, "tensor %u has an empty name", index);
    for (size_t i = 0; i < name_bytes; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return error_set(error, RESULT_CORRUPT,
                             "the name of tensor %u holds a control character", index);
    return RESULT_OK;
}

static enum result add_tensor(struct safetensors_file *file, const char *name, size_t name_bytes,
                              struct error_text *error)
{
    enum result result = check_name(name, name_bytes, file->tensor_count, error);
    if (result != RESULT_OK)
        return result;
    if (file->tensor_count == LIMIT_SAFETENSORS_TENSORS)
        return error_set(error, RESULT_TOO_LARGE, "more than %u tensors",
                         LIMIT_SAFETENSORS_TENSORS);
    if (file->tensor_count == file->tensor_capacity) {
        uint32_t capacity = file->tensor_capacity ? 2 * file->tensor_capacity : 64;
        void *grown = realloc(file->tensors, capacity * sizeof *file->tensors);
        if (!grown)
            return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for the tensor table");
        file->tensors = grown;
        file->tensor_capacity = capacity;
    }
    char *kept = file->names + file->name_bytes;
    memcpy(kept, name, name_bytes);
    kept[name_bytes] = '\0';
    file->name_bytes += name_bytes + 1;
    file->tensors[file->tensor_count++] = (struct safetensors_tensor){.name = kept};
    return RESULT_OK;
}

static enum result skip_metadata(struct json_reader *reader, bool *seen, struct error_text *error)
{
    size_t bytes;
    bool object = json_reader_peek(reader) == '{';
    json_reader_skip(reader, &bytes);
    if (reader->failed || !object || *seen)
        return error_set(error, RESULT_CORRUPT, "malformed " METADATA_NAME);
    *seen = true;
    return RESULT_OK;
}

/* Where in the file the reader gave up is not kept, so the last tensor read is named. */
static enum result bad_header(const struct safetensors_file *file, struct error_text *error)
{
    if (file->tensor_count == 0)
        return error_set(error, RESULT_CORRUPT, "the header is no JSON object of tensors");
    return error_set(error, RESULT_CORRUPT, "the header is malformed behind tensor %.80s",
                     file->tensors[file->tensor_count - 1].name);
}

static enum result read_header(struct safetensors_file *file, struct error_text *error)
{
    const char *header = (const char *)file->bytes + LENGTH_BYTES;
    struct json_reader reader = json_reader_open(header, file->header_bytes - LENGTH_BYTES);
    char name[LIMIT_GGUF_NAME_BYTES];
    size_t name_bytes;
    bool has_metadata = false;
    json_reader_enter(&reader, '{');
    while (json_reader_next_member(&reader, name, sizeof name, &name_bytes)) {
        enum result result;
        if (name_bytes == strlen(METADATA_NAME) && memcmp(name, METADATA_NAME, name_bytes) == 0) {
            result = skip_metadata(&reader, &has_metadata, error);
        } else {
            result = add_tensor(file, name, name_bytes, error);
            if (result == RESULT_OK)
                result = read_entry(file, &reader, &file->tensors[file->tensor_count - 1], error);
        }
        if (result != RESULT_OK)
            return result;
    }
    if (reader.failed)
        return bad_header(file, error);
    if (json_reader_peek(&reader) != 0 || reader.at != reader.end)
        return error_set(error, RESULT_CORRUPT, "something follows the header's JSON");
    return file->tensor_count > 0 ? RESULT_OK
                                  : error_set(error, RESULT_INVALID, "the file holds no tensors");
}

static enum result read_length(struct safetensors_file *file, size_t byte_count,
                               struct error_text *error)
{
    uint64_t length = 0;
    if (byte_count < LENGTH_BYTES)
        return error_set(error, RESULT_CORRUPT, "%zu bytes are no safetensors file", byte_count);
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)file->bytes[i] << (8 * i);
    if (length > LIMIT_SAFETENSORS_HEADER_BYTES)
        return error_set(error, RESULT_TOO_LARGE,
                         "not a safetensors file: a header of %llu bytes, over %u",
                         (unsigned long long)length, LIMIT_SAFETENSORS_HEADER_BYTES);
    if (length > byte_count - LENGTH_BYTES)
        return error_set(error, RESULT_CORRUPT, "a header of %llu bytes in a file of %zu",
                         (unsigned long long)length, byte_count);
    file->header_bytes = LENGTH_BYTES + (size_t)length;
    file->data = file->bytes + file->header_bytes;
    file->data_bytes = byte_count - file->header_bytes;
    return RESULT_OK;
}

/* --- the whole table -------------------------------------------------------------------------- */

static int place_compare(const void *a, const void *b)
{
    const struct safetensors_tensor *left = a, *right = b;
    if (left->data != right->data)
        return left->data < right->data ? -1 : 1;
    return (left->data_bytes > right->data_bytes) - (left->data_bytes < right->data_bytes);
}

static int name_compare(const void *a, const void *b)
{
    const struct safetensors_tensor *left = a, *right = b;
    return strcmp(left->name, right->name);
}

static enum result check_neighbours(struct safetensors_file *file, struct error_text *error)
{
    struct safetensors_tensor *sorted = file->tensors;
    uint32_t count = file->tensor_count;
    const uint8_t *at = file->data;
    qsort(sorted, count, sizeof *sorted, place_compare);
    for (uint32_t i = 0; i < count; i++) {
        if (sorted[i].data < at)
            return error_set(error, RESULT_CORRUPT, "tensors %.80s and %.80s overlap",
                             sorted[i - 1].name, sorted[i].name);
        if (sorted[i].data > at)
            return error_set(error, RESULT_CORRUPT,
                             "%llu bytes before tensor %.80s belong to no tensor",
                             (unsigned long long)(sorted[i].data - at), sorted[i].name);
        at += sorted[i].data_bytes;
    }
    if (at != file->data + file->data_bytes)
        return error_set(error, RESULT_CORRUPT, "the last %llu bytes are no tensor's",
                         (unsigned long long)(file->data + file->data_bytes - at));
    qsort(sorted, count, sizeof *sorted, name_compare);
    for (uint32_t i = 1; i < count; i++)
        if (strcmp(sorted[i - 1].name, sorted[i].name) == 0)
            return error_set(error, RESULT_CORRUPT, "tensor %.80s occurs twice", sorted[i].name);
    return RESULT_OK;
}

enum result safetensors_file_open(const void *bytes, size_t byte_count,
                                  struct safetensors_file **file, struct error_text *error)
{
    *file = NULL;
    struct safetensors_file *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for the tensor table");
    opened->bytes = bytes;
    enum result result = read_length(opened, byte_count, error);
    if (result == RESULT_OK) {
        opened->names = malloc(opened->header_bytes);
        if (!opened->names)
            result = error_set(error, RESULT_OUT_OF_MEMORY, "no memory for the tensors' names");
    }
    if (result == RESULT_OK)
        result = read_header(opened, error);
    if (result == RESULT_OK)
        result = check_neighbours(opened, error);
    if (result == RESULT_OK)
        *file = opened;
    else
        safetensors_file_close(opened);
    return result;
}

void safetensors_file_close(struct safetensors_file *file)
{
    if (!file)
        return;
    free(file->tensors);
    free(file->names);
    free(file);
}

size_t safetensors_file_header_bytes(const struct safetensors_file *file)
{
    return file->header_bytes;
}

uint32_t safetensors_file_tensor_count(const struct safetensors_file *file)
{
    return file->tensor_count;
}

const struct safetensors_tensor *safetensors_file_tensor(const struct safetensors_file *file,
                                                         uint32_t index)
{
    must(index < file->tensor_count);
    return &file->tensors[index];
}

const struct safetensors_tensor *safetensors_file_find_tensor(const struct safetensors_file *file,
                                                              const char *name)
{
    struct safetensors_tensor wanted = {.name = name};
    return bsearch(&wanted, file->tensors, file->tensor_count, sizeof wanted, name_compare);
}
