/*
 * Everything in a reply is a claim of another machine. Names become paths in the cache, so one name
 * that could leave the repository's folder makes the whole list invalid. Hashes become file names:
 * only hexadecimal digits pass. A file without size or hash is refused, because without them
 * neither the disk nor the content would be bounded.
 */
#include "frontend/hub/hub_listing.h"

#include <stdlib.h>
#include <string.h>

#include "proto/json_value.h"
#include "proto/limits.h"
#include "proto/utf8.h"

#define HEX         "0123456789abcdef"
#define PART_BYTES  255u /* of a file system */
#define SHA1_DIGITS 40u

bool hub_file_name_is_safe(const char *name)
{
    size_t length = strlen(name);
    uint32_t folders = 0;
    if (length == 0 || length > LIMIT_HUB_FILE_NAME_BYTES || !utf8_is_valid(name, length))
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f || name[i] == '\\')
            return false;
    for (const char *part = name;; folders++) {
        size_t bytes = strcspn(part, "/");
        if (bytes == 0 || bytes > PART_BYTES || (bytes == 1 && part[0] == '.') ||
            (bytes == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        if (part[bytes] == '\0')
            return folders <= LIMIT_HUB_FOLDERS;
        part += bytes + 1;
    }
}

enum result hub_listing_add(struct hub_listing *listing, const struct hub_file *file,
                            struct error_text *error)
{
    if (listing->count == LIMIT_HUB_FILES)
        return error_set(error, RESULT_TOO_LARGE, "the repository has more than %u files",
                         LIMIT_HUB_FILES);
    if (listing->count == listing->capacity) {
        uint32_t capacity = listing->capacity ? 2 * listing->capacity : 16;
        struct hub_file *grown = realloc(listing->files, capacity * sizeof *grown);
        if (!grown)
            return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
        listing->files = grown;
        listing->capacity = capacity;
    }
    struct hub_file *added = &listing->files[listing->count];
    *added = *file;
    added->name = strdup(file->name);
    if (!added->name)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    listing->count++;
    return RESULT_OK;
}

/* A text for messages, without what could steer a terminal. */
static const char *shown(char *text)
{
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7f)
            *at = '?';
    return text;
}

static bool hash_read(struct json_value value, size_t digits, char hash[HUB_HASH_BYTES])
{
    return json_value_string(value, hash, HUB_HASH_BYTES) == RESULT_OK && strlen(hash) == digits &&
           strspn(hash, HEX) == digits;
}

static bool size_read(struct json_value value, uint64_t *size)
{
    if (json_value_type(value) != JSON_NUMBER)
        return false;
    struct json_reader reader = json_reader_open(value.bytes, value.byte_count);
    *size = json_reader_u64(&reader);
    return !reader.failed && *size <= LIMIT_HUB_FILE_BYTES;
}

static enum result file_read(struct json_value sibling, struct hub_listing *listing,
                             struct error_text *error)
{
    char name[LIMIT_HUB_FILE_NAME_BYTES + 1];
    struct hub_file file = {.name = name};
    enum result result =
        json_value_string(json_value_member(sibling, "rfilename"), name, sizeof name);
    if (result != RESULT_OK)
        return error_set(error, RESULT_CORRUPT,
                         "the list of files has an entry without a name of at most %u bytes",
                         LIMIT_HUB_FILE_NAME_BYTES);
    if (!hub_file_name_is_safe(name))
        return error_set(error, RESULT_CORRUPT,
                         "the list of files names '%.60s', which is no path inside a repository",
                         shown(name));
    struct json_value lfs = json_value_member(sibling, "lfs");
    file.large = json_value_type(lfs) == JSON_OBJECT;
    if (!size_read(json_value_member(sibling, "size"), &file.size))
        return error_set(error, RESULT_CORRUPT, "the list of files has no valid size of '%.120s'",
                         shown(name));
    if (file.large ? !hash_read(json_value_member(lfs, "sha256"), HUB_HASH_BYTES - 1, file.hash)
                   : !hash_read(json_value_member(sibling, "blobId"), SHA1_DIGITS, file.hash))
        return error_set(error, RESULT_CORRUPT, "the list of files has no valid hash of '%.120s'",
                         shown(name));
    return hub_listing_add(listing, &file, error);
}

enum result hub_listing_read(const char *json, size_t json_bytes, struct hub_listing *listing,
                             struct error_text *error)
{
    struct json_value root, sibling;
    struct error_text why;
    char commit[HUB_HASH_BYTES];
    *listing = (struct hub_listing){0};
    enum result result = json_value_open(json, json_bytes, LIMIT_HUB_LISTING_BYTES, &root, &why);
    if (result != RESULT_OK)
        return error_set(error, RESULT_INVALID, "the list of files is not JSON: %.120s", why.text);
    if (!hash_read(json_value_member(root, "sha"), HUB_COMMIT_BYTES - 1, commit))
        return error_set(error, RESULT_INVALID, "the list of files names no commit (sha)");
    struct json_value siblings = json_value_member(root, "siblings");
    if (json_value_type(siblings) != JSON_ARRAY)
        return error_set(error, RESULT_INVALID, "the list of files has no array 'siblings'");
    memcpy(listing->commit, commit, HUB_COMMIT_BYTES);
    for (struct json_reader at = json_value_elements(siblings);
         result == RESULT_OK && json_value_next(&at, &sibling);)
        result = file_read(sibling, listing, error);
    if (result != RESULT_OK)
        hub_listing_fini(listing);
    return result;
}

void hub_listing_fini(struct hub_listing *listing)
{
    for (uint32_t i = 0; i < listing->count; i++)
        free(listing->files[i].name);
    free(listing->files);
    *listing = (struct hub_listing){0};
}
