/*
 * The cache has the tool's published layout: models--<org>--<name>/refs/main holds the name of a
 * commit, and snapshots/<commit> its files, as links into a store. Only the commit is read here;
 * the directory is then a checkpoint like any other.
 *
 * A name becomes part of a path, so it consists of letters, digits, '-', '_' and '.', with one
 * slash and no dot at the start of either part; a commit is hexadecimal. The tool's environment
 * variables are not read: --hf-cache replaces them.
 *
 * Not supported: downloading, and revisions other than main.
 */
#include "frontend/serve/settings/hub_cache.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/serve/settings/cache_folder.h"
#include "proto/mapped_file.h"

#define PART_BYTES_MOST 96u /* of one part of a name; the hub limits both together */
#define COMMIT_BYTES    40u

/* Bytes of the part of a name at the start of `text`; 0: none. */
static size_t part_bytes(const char *text)
{
    size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                 "-_.");
    return text[0] == '.' || text[0] == '-' || length > PART_BYTES_MOST ? 0 : length;
}

/* "org/name": the position of the slash, or NULL. */
static const char *slash_of_name(const char *model)
{
    size_t org = part_bytes(model);
    if (org == 0 || model[org] != '/')
        return NULL;
    size_t name = part_bytes(model + org + 1);
    return name > 0 && model[org + 1 + name] == '\0' ? model + org : NULL;
}

/* Reads the commit that refs/main names. */
static bool read_commit(const char *repository, char commit[COMMIT_BYTES + 1])
{
    char path[HUB_CACHE_PATH_BYTES];
    struct mapped_file file;
    struct error_text reason;
    if (snprintf(path, sizeof path, "%s/refs/main", repository) >= (int)sizeof path ||
        mapped_file_open(AT_FDCWD, path, &file, &reason) != RESULT_OK)
        return false;
    bool right = file.byte_count >= COMMIT_BYTES;
    if (right) {
        memcpy(commit, file.bytes, COMMIT_BYTES);
        commit[COMMIT_BYTES] = '\0';
        right = strspn(commit, "0123456789abcdef") == COMMIT_BYTES;
    }
    mapped_file_close(&file);
    return right;
}

enum result hub_cache_find(const char *cache, const char *model, char path[HUB_CACHE_PATH_BYTES],
                           struct error_text *error)
{
    char home[CACHE_FOLDER_BYTES] = "";
    char repository[HUB_CACHE_PATH_BYTES - COMMIT_BYTES - 16];
    char commit[COMMIT_BYTES + 1];
    struct stat status;
    const char *slash = slash_of_name(model);
    path[0] = '\0';
    if (!slash || stat(model, &status) == 0)
        return RESULT_OK;
    if (!cache && cache_folder_in_home(".cache/huggingface/hub", home))
        cache = home;
    bool fits = cache && snprintf(repository, sizeof repository, "%s/models--%.*s--%s", cache,
                                  (int)(slash - model), model, slash + 1) < (int)sizeof repository;
    if (fits && read_commit(repository, commit)) {
        snprintf(path, HUB_CACHE_PATH_BYTES, "%s/snapshots/%s", repository, commit);
        if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
            return RESULT_OK;
    }
    path[0] = '\0';
    return error_set(error, RESULT_INVALID,
                     "there is no file or folder %.64s, nor is it in %.64s; to fetch it: "
                     "hf download %.64s",
                     model, cache ? cache : "a cache of Hugging Face's", model);
}
