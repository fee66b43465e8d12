/*
 * Hugging Face's cache on disk, as huggingface_hub lays it out:
 *
 *   models--ORG--NAME/blobs/HASH               a file's bytes, named by its hash
 *                     blobs/HASH.incomplete    the beginning of one
 *                     refs/REVISION            the commit of a branch or tag
 *                     snapshots/COMMIT/FILE    a relative link into blobs/
 *   .locks/models--ORG--NAME/HASH.lock         locked (flock) while the blob is downloaded
 *
 * A blob has its final name only once its hash was checked, a snapshot gets a link only once the
 * blob is there, and a ref is written last. All writes of names are atomic.
 */
#ifndef SHOAL_FRONTEND_HUB_HUB_STORE_H
#define SHOAL_FRONTEND_HUB_HUB_STORE_H

#include <stdbool.h>

#include "frontend/hub/hub_listing.h"
#include "frontend/hub/hub_name.h"

#define HUB_PATH_BYTES 1536u

struct hub_repository {
    int fd;                    /* of its folder */
    int cache_fd;              /* of the cache */
    char path[HUB_PATH_BYTES]; /* of its folder */
    char folder[HUB_FOLDER_BYTES];
};

/* `create`: makes missing folders (the cache too, for this user only). RESULT_NOT_FOUND: it is not
 * there. RESULT_IO, RESULT_TOO_LARGE (the path). On failure nothing is open. */
enum result hub_repository_open(const char *cache, const struct hub_name *name, bool create,
                                struct hub_repository *repository,
                                struct error_text *error) RESULT_CHECKED;
void hub_repository_close(struct hub_repository *repository);

/* The commit of name->revision: that of its ref, or the revision itself if it is a commit with a
 * snapshot. False: unknown. */
bool hub_repository_commit(const struct hub_repository *repository, const char *revision,
                           char commit[HUB_COMMIT_BYTES]);
/* Lists the files of a snapshot whose blobs are there, links followed; a file's hash is the name of
 * its blob, or "" if it is a file of its own. RESULT_NOT_FOUND: no such snapshot. */
enum result hub_snapshot_read(const struct hub_repository *repository, const char *commit,
                              struct hub_listing *listing, struct error_text *error) RESULT_CHECKED;

/* The same of refs/: the files' names are revisions, for hub_repository_commit(); none if there is no
 * such folder. */
enum result hub_refs_read(const struct hub_repository *repository, struct hub_listing *listing,
                          struct error_text *error) RESULT_CHECKED;

/* Makes the folder and those above it, relative to `folder_fd`; `path` is as hub_file_name_is_safe().
 * Links are not followed. */
enum result hub_folders_make(int folder_fd, const char *path,
                             struct error_text *error) RESULT_CHECKED;
/* Opens a folder, relative to another, without following a link. < 0: errno says why. */
int hub_folder_open(int folder_fd, const char *path);
/* snapshots/COMMIT/NAME becomes a link to blobs/HASH. */
enum result hub_snapshot_link(const struct hub_repository *repository, const char *commit,
                              const struct hub_file *file, struct error_text *error) RESULT_CHECKED;
/* refs/REVISION names the commit; nothing if the revision is the commit. */
enum result hub_ref_write(const struct hub_repository *repository, const char *revision,
                          const char *commit, struct error_text *error) RESULT_CHECKED;
/* Waits for the lock of a blob; *fd is closed to release it. `on_wait` is called before it waits, if
 * it must. */
enum result hub_blob_lock(const struct hub_repository *repository, const char *hash,
                          void (*on_wait)(void *context), void *context, int *fd,
                          struct error_text *error) RESULT_CHECKED;

#endif
