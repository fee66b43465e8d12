/*
 * The files of one commit of a repository: read from the hub's reply, or from the cache.
 */
#ifndef SHOAL_FRONTEND_HUB_HUB_LISTING_H
#define SHOAL_FRONTEND_HUB_HUB_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/hub/hub_name.h"
#include "proto/result.h"

#define HUB_HASH_BYTES 65u

struct hub_file {
    char *name; /* relative, '/' between folders; hub_file_name_is_safe() */
    uint64_t size;
    char hash[HUB_HASH_BYTES]; /* lower-case hexadecimal; the name of its blob in the cache */
    bool large;                /* hash is the SHA-256 of its bytes; otherwise git's SHA-1 of it */
};

struct hub_listing {
    char commit[HUB_COMMIT_BYTES];
    struct hub_file *files; /* count; malloc'd */
    uint32_t count;
    uint32_t capacity;
};

/* A relative path of at most LIMIT_HUB_FILE_NAME_BYTES and LIMIT_HUB_FOLDERS, in valid UTF-8,
 * without control characters, empty parts, "." and "..". */
bool hub_file_name_is_safe(const char *name);

/*
 * Reads the reply to GET /api/models/{repository}/revision/{revision}?blobs=true: "sha" is the
 * commit, "siblings" the files with "rfilename", "size", and "lfs": {"sha256"} or "blobId".
 * RESULT_INVALID: not such JSON. RESULT_CORRUPT: a name that leaves the repository, or a hash or
 * size that is none. RESULT_TOO_LARGE. On failure *listing is empty.
 */
enum result hub_listing_read(const char *json, size_t json_bytes, struct hub_listing *listing,
                             struct error_text *error) RESULT_CHECKED;
/* Copies the file's name. RESULT_TOO_LARGE over LIMIT_HUB_FILES, RESULT_OUT_OF_MEMORY. */
enum result hub_listing_add(struct hub_listing *listing, const struct hub_file *file,
                            struct error_text *error) RESULT_CHECKED;
void hub_listing_fini(struct hub_listing *listing);

#endif
