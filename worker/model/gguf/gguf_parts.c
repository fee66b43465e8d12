/*
 * Opens every part of a split GGUF.
 *
 * A splitting tool numbers the files in their names and repeats the numbers in each file: split.no
 * from 0, split.count, and split.tensors.count, the tensors of all parts. Names and keys must
 * agree, all parts must be there, and the tensors must add up. So a part of another model, an
 * interrupted download or a renamed file is found before any weight is read. Opening starts from
 * the first part, which has the metadata; any other part is refused.
 *
 * The fingerprint is defined as for folders: sizes are added up, times are the latest, and the hash
 * covers what precedes the data in every part.
 */
#include "worker/model/gguf/gguf_parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/mapped_file.h"
#include "proto/must.h"
#include "worker/plan/content_hash.h"

#define PART_NAME_BYTES 512u
#define ENDING_BYTES    20u /* "-00001-of-00003.gguf" */

struct part {
    char name[PART_NAME_BYTES]; /* base name, if there are several parts; else empty */
    struct mapped_file mapped;  /* closed if the bytes are the caller's */
    const void *bytes;
    size_t byte_count;
    struct gguf_file *file;
};

struct gguf_parts {
    uint32_t count;
    struct part *parts;
    struct tensor_table *table;
};

static enum result open_part(struct part *part, struct error_text *error)
{
    return gguf_file_open(part->bytes, part->byte_count, &part->file, error);
}

static enum result map_part(const char *path, const struct opened_files *opened, struct part *part,
                            struct error_text *error)
{
    enum result result = mapped_file_open_of(opened, AT_FDCWD, path, &part->mapped, error);
    if (result != RESULT_OK)
        return result;
    part->bytes = part->mapped.bytes;
    part->byte_count = part->mapped.byte_count;
    return open_part(part, error);
}

/* Returns 1 if the file does not say that it is one of several. */
static enum result split_count(const struct gguf_file *file, uint32_t *count,
                               struct error_text *error)
{
    *count = 1;
    enum result result = gguf_file_u32(file, "split.count", count);
    if (result == RESULT_INVALID)
        return error_set(error, RESULT_INVALID, "key split.count is not a 32-bit count");
    if (result == RESULT_OK && *count > LIMIT_GGUF_PARTS)
        return error_set(error, RESULT_TOO_LARGE, "key split.count is %u, more than %u", *count,
                         LIMIT_GGUF_PARTS);
    if (*count == 0)
        *count = 1;
    return RESULT_OK;
}

/* --- split files ------------------------------------------------------------------------------ */

/* Copies the path up to the part number, which must be the first of `count`. */
static enum result find_stem(const char *path, uint32_t count, char *stem, struct error_text *error)
{
    char ending[64];
    size_t length = strlen(path);
    snprintf(ending, sizeof ending, "-%05u-of-%05u.gguf", 1u, count);
    if (length < ENDING_BYTES || length - ENDING_BYTES >= PART_NAME_BYTES ||
        strcmp(path + length - ENDING_BYTES, ending) != 0)
        return error_set(error, RESULT_INVALID,
                         "the file is one of %u parts, and its name does not end in %s, the "
                         "first's",
                         count, ending);
    snprintf(stem, PART_NAME_BYTES, "%.*s", (int)(length - ENDING_BYTES), path);
    return RESULT_OK;
}

static enum result check_part(const struct part *part, uint32_t number, uint32_t count,
                              uint32_t tensors, struct error_text *error)
{
    uint32_t stated_number = UINT32_MAX, stated_count = UINT32_MAX, stated_tensors = tensors;
    if (gguf_file_u32(part->file, "split.no", &stated_number) != RESULT_OK ||
        gguf_file_u32(part->file, "split.count", &stated_count) != RESULT_OK)
        return error_set(error, RESULT_INVALID, "keys split.no and split.count are not both there");
    if (stated_number != number || stated_count != count)
        return error_set(error, RESULT_CORRUPT,
                         "keys split.no and split.count say part %u of %u, not %u of %u",
                         stated_number, stated_count, number, count);
    (void)gguf_file_u32(part->file, "split.tensors.count", &stated_tensors);
    if (stated_tensors != tensors)
        return error_set(error, RESULT_CORRUPT,
                         "key split.tensors.count is %u, but %u in the first part", stated_tensors,
                         tensors);
    return RESULT_OK;
}

static enum result open_others(struct gguf_parts *parts, const char *path,
                               const struct opened_files *opened, struct error_text *error)
{
    char stem[PART_NAME_BYTES], name[PART_NAME_BYTES + 32];
    struct error_text reason = {""};
    uint32_t tensors = 0;
    enum result result = find_stem(path, parts->count, stem, error);
    if (result != RESULT_OK)
        return result;
    if (gguf_file_u32(parts->parts[0].file, "split.tensors.count", &tensors) != RESULT_OK)
        return error_set(error, RESULT_INVALID, "key split.tensors.count is missing or no count");
    for (uint32_t i = 0; i < parts->count; i++) {
        struct part *part = &parts->parts[i];
        snprintf(name, sizeof name, "%s-%05u-of-%05u.gguf", stem, i + 1, parts->count);
        const char *slash = strrchr(name, '/');
        snprintf(part->name, sizeof part->name, "%.*s", (int)sizeof part->name - 1,
                 slash ? slash + 1 : name);
        if (i > 0)
            result = map_part(name, opened, part, &reason);
        if (result == RESULT_NOT_FOUND)
            return error_set(error, RESULT_INVALID, "part %u of %u is missing: %.80s", i + 1,
                             parts->count, part->name);
        if (result == RESULT_OK)
            result = check_part(part, i, parts->count, tensors, &reason);
        if (result != RESULT_OK)
            return error_set(error, result, "%.80s: %s", part->name, reason.text);
    }
    uint64_t found = 0;
    for (uint32_t i = 0; i < parts->count; i++)
        found += gguf_file_tensor_count(parts->parts[i].file);
    for (uint32_t i = 1; i < parts->count; i++)
        gguf_file_set_next(parts->parts[i - 1].file, parts->parts[i].file);
    if (found != tensors)
        return error_set(error, RESULT_CORRUPT,
                         "the %u parts have %llu tensors, but split.tensors.count is %u",
                         parts->count, (unsigned long long)found, tensors);
    return RESULT_OK;
}

/* --- entry points ----------------------------------------------------------------------------- */

static enum result make_table(struct gguf_parts *parts, struct error_text *error)
{
    size_t count = 0;
    for (uint32_t i = 0; i < parts->count; i++)
        count += gguf_file_tensor_count(parts->parts[i].file);
    if (count > LIMIT_GGUF_TENSORS)
        return error_set(error, RESULT_TOO_LARGE, "%zu tensors, over %u", count,
                         LIMIT_GGUF_TENSORS);
    parts->table = tensor_table_create(count);
    if (!parts->table)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for the tensor table");
    for (uint32_t i = 0; i < parts->count; i++)
        tensor_table_add_gguf(parts->table, parts->parts[i].file, parts->parts[i].name);
    return tensor_table_finish(parts->table, error);
}

/* If `path` is NULL, the bytes are the caller's. */
static enum result open_all(struct gguf_parts *parts, const char *path,
                            const struct opened_files *opened, const void *bytes, size_t byte_count,
                            struct error_text *error)
{
    struct part first = {.bytes = bytes, .byte_count = byte_count};
    uint32_t count = 1;
    enum result result = path ? map_part(path, opened, &first, error) : open_part(&first, error);
    parts->count = 1;
    parts->parts[0] = first;
    if (result == RESULT_OK)
        result = split_count(first.file, &count, error);
    if (result == RESULT_OK && count > 1 && !path)
        return error_set(error, RESULT_UNSUPPORTED, "the file is one of %u parts", count);
    if (result == RESULT_OK && count > 1) {
        struct part *grown = realloc(parts->parts, count * sizeof *grown);
        if (!grown)
            return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for the checkpoint's files");
        memset(grown + 1, 0, (count - 1) * sizeof *grown);
        parts->parts = grown;
        parts->count = count;
        result = open_others(parts, path, opened, error);
    }
    return result == RESULT_OK ? make_table(parts, error) : result;
}

static enum result open_parts(const char *path, const struct opened_files *opened,
                              const void *bytes, size_t byte_count, struct gguf_parts **parts,
                              struct error_text *error)
{
    *parts = NULL;
    struct gguf_parts *made = must_alloc(1, sizeof *made);
    made->parts = must_alloc(1, sizeof *made->parts);
    enum result result = open_all(made, path, opened, bytes, byte_count, error);
    if (result == RESULT_OK)
        *parts = made;
    else
        gguf_parts_close(made);
    return result;
}

enum result gguf_parts_open(const char *path, const struct opened_files *opened,
                            struct gguf_parts **parts, struct error_text *error)
{
    return open_parts(path, opened, NULL, 0, parts, error);
}

enum result gguf_parts_open_bytes(const void *bytes, size_t byte_count, struct gguf_parts **parts,
                                  struct error_text *error)
{
    return open_parts(NULL, NULL, bytes, byte_count, parts, error);
}

void gguf_parts_close(struct gguf_parts *parts)
{
    if (!parts)
        return;
    tensor_table_destroy(parts->table);
    for (uint32_t i = 0; i < parts->count; i++) {
        gguf_file_close(parts->parts[i].file);
        mapped_file_close(&parts->parts[i].mapped);
    }
    free(parts->parts);
    free(parts);
}

const struct gguf_file *gguf_parts_first(const struct gguf_parts *parts)
{
    return parts->parts[0].file;
}

const struct tensor_table *gguf_parts_tensors(const struct gguf_parts *parts)
{
    return parts->table;
}

/* Everything before the first tensor's data is the header. */
static uint64_t hash_header(const struct part *part, uint64_t seed)
{
    const uint8_t *end = (const uint8_t *)part->bytes + part->byte_count;
    uint32_t count = gguf_file_tensor_count(part->file);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *data = gguf_file_tensor(part->file, i)->data;
        end = data < end ? data : end;
    }
    return content_hash(part->bytes, (size_t)(end - (const uint8_t *)part->bytes), seed);
}

struct model_fingerprint gguf_parts_fingerprint(const struct gguf_parts *parts)
{
    struct model_fingerprint sum = {0};
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct part *part = &parts->parts[i];
        const struct mapped_file *file = &part->mapped;
        if (parts->count > 1) {
            uint64_t facts[] = {file->byte_count, (uint64_t)file->modified_ns,
                                (uint64_t)file->changed_ns, file->device, file->inode};
            sum.header_hash = content_hash(facts, sizeof facts, sum.header_hash);
        }
        sum.file_bytes += part->byte_count;
        sum.modified_ns = file->modified_ns > sum.modified_ns ? file->modified_ns : sum.modified_ns;
        sum.changed_ns = file->changed_ns > sum.changed_ns ? file->changed_ns : sum.changed_ns;
        sum.device = file->device;
        sum.inode = file->inode;
        sum.header_hash = hash_header(part, sum.header_hash);
    }
    return sum;
}
