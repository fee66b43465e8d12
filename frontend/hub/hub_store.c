/*
 * Files are reached by descriptors from the repository's folder on, and no link is followed on the
 * way, so neither a name nor a changed folder leads a write out of the cache.
 */
#include "frontend/hub/hub_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/limits.h"

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define SCRATCH      ".shoal-new" /* of a link or ref before it is renamed */

static enum result system_fail(struct error_text *error, const char *what)
{
    return error_set(error, RESULT_IO, "%.150s: %s", what, strerror(errno));
}

/* --- folders ---------------------------------------------------------------------------------- */

/* Opens one part of a path after the other; `create` makes what is missing. */
static int walk(int folder_fd, const char *path, bool create)
{
    int fd = openat(folder_fd, ".", FOLDER_FLAGS);
    while (fd >= 0 && *path) {
        char part[NAME_MAX + 1];
        size_t bytes = strcspn(path, "/");
        if (bytes == 0 || bytes > NAME_MAX) {
            close(fd);
            errno = EINVAL;
            return -1;
        }
        snprintf(part, sizeof part, "%.*s", (int)bytes, path);
        if (create && mkdirat(fd, part, 0755) != 0 && errno != EEXIST) {
            close(fd);
            return -1;
        }
        int next = openat(fd, part, FOLDER_FLAGS | O_NOFOLLOW);
        int reason = errno;
        close(fd);
        errno = reason;
        fd = next;
        path += bytes + (path[bytes] == '/');
    }
    return fd;
}

int hub_folder_open(int folder_fd, const char *path)
{
    return walk(folder_fd, path, false);
}

enum result hub_folders_make(int folder_fd, const char *path, struct error_text *error)
{
    int fd = walk(folder_fd, path, true);
    if (fd < 0)
        return system_fail(error, path);
    close(fd);
    return RESULT_OK;
}

/* The cache itself is named by the user: links on the way are the user's. */
static int cache_open(const char *cache, bool create)
{
    char path[HUB_PATH_BYTES];
    int fd = open(cache, FOLDER_FLAGS);
    if (fd >= 0 || !create || errno != ENOENT ||
        snprintf(path, sizeof path, "%s", cache) >= (int)sizeof path)
        return fd;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return -1;
        *slash = '/';
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return -1;
    return open(cache, FOLDER_FLAGS);
}

enum result hub_repository_open(const char *cache, const struct hub_name *name, bool create,
                                struct hub_repository *repository, struct error_text *error)
{
    *repository = (struct hub_repository){.fd = -1, .cache_fd = -1};
    hub_name_folder(name, repository->folder);
    if (snprintf(repository->path, sizeof repository->path, "%s/%s", cache, repository->folder) >=
        (int)sizeof repository->path)
        return error_set(error, RESULT_TOO_LARGE, "the path of the cache is too long");
    repository->cache_fd = cache_open(cache, create);
    if (repository->cache_fd >= 0)
        repository->fd = walk(repository->cache_fd, repository->folder, create);
    if (repository->fd >= 0)
        return RESULT_OK;
    enum result result = errno == ENOENT
                             ? error_set(error, RESULT_NOT_FOUND, "it is not in %.150s", cache)
                             : system_fail(error, repository->path);
    hub_repository_close(repository);
    return result;
}

void hub_repository_close(struct hub_repository *repository)
{
    if (repository->fd >= 0)
        close(repository->fd);
    if (repository->cache_fd >= 0)
        close(repository->cache_fd);
    repository->fd = repository->cache_fd = -1;
}

/* --- reading ---------------------------------------------------------------------------------- */

bool hub_repository_commit(const struct hub_repository *repository, const char *revision,
                           char commit[HUB_COMMIT_BYTES])
{
    char path[HUB_REVISION_BYTES + 16];
    struct stat status;
    snprintf(path, sizeof path, "refs/%s", revision);
    int fd = openat(repository->fd, path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t count = read(fd, commit, HUB_COMMIT_BYTES - 1);
        close(fd);
        commit[count > 0 ? count : 0] = '\0';
    } else if (strlen(revision) == HUB_COMMIT_BYTES - 1) {
        memcpy(commit, revision, HUB_COMMIT_BYTES);
    } else {
        return false;
    }
    if (!hub_commit_is_valid(commit))
        return false;
    snprintf(path, sizeof path, "snapshots/%s", commit);
    return fstatat(repository->fd, path, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

struct walker {
    struct hub_listing *listing;
    struct error_text *error;
    char name[LIMIT_HUB_FILE_NAME_BYTES + 1];
};

static enum result folder_list(struct walker *walker, int folder_fd, size_t name_bytes,
                               unsigned depth);

/* The entry's name stands at the end of walker->name. */
static enum result entry_list(struct walker *walker, int folder_fd, const char *entry,
                              unsigned depth)
{
    struct stat link, status;
    char target[256];
    struct hub_file file = {.name = walker->name};
    if (fstatat(folder_fd, entry, &link, AT_SYMLINK_NOFOLLOW) != 0)
        return RESULT_OK;
    if (S_ISDIR(link.st_mode) && depth < LIMIT_HUB_FOLDERS) {
        int below = openat(folder_fd, entry, FOLDER_FLAGS | O_NOFOLLOW);
        size_t bytes = strlen(walker->name);
        if (below < 0 || bytes + 1 >= sizeof walker->name) {
            if (below >= 0)
                close(below);
            return RESULT_OK;
        }
        walker->name[bytes] = '/';
        return folder_list(walker, below, bytes + 1, depth + 1);
    }
    if (fstatat(folder_fd, entry, &status, 0) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size < 0 || (uint64_t)status.st_size > LIMIT_HUB_FILE_BYTES)
        return RESULT_OK;
    file.size = (uint64_t)status.st_size;
    ssize_t count = readlinkat(folder_fd, entry, target, sizeof target - 1);
    target[count > 0 ? count : 0] = '\0';
    const char *blob = strrchr(target, '/');
    if (blob && strlen(blob + 1) < HUB_HASH_BYTES)
        memcpy(file.hash, blob + 1, strlen(blob + 1) + 1);
    return hub_listing_add(walker->listing, &file, walker->error);
}

/* Closes folder_fd. */
static enum result folder_list(struct walker *walker, int folder_fd, size_t name_bytes,
                               unsigned depth)
{
    DIR *folder = fdopendir(folder_fd);
    enum result result = RESULT_OK;
    if (!folder) {
        close(folder_fd);
        return RESULT_OK;
    }
    for (const struct dirent *entry; result == RESULT_OK && (entry = readdir(folder)) != NULL;) {
        size_t bytes = strlen(entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            name_bytes + bytes >= sizeof walker->name)
            continue;
        memcpy(walker->name + name_bytes, entry->d_name, bytes + 1);
        if (hub_file_name_is_safe(walker->name))
            result = entry_list(walker, dirfd(folder), entry->d_name, depth);
    }
    closedir(folder);
    return result;
}

static int names_compare(const void *one, const void *other)
{
    return strcmp(((const struct hub_file *)one)->name, ((const struct hub_file *)other)->name);
}

/* Lists what is below `path` in the repository's folder. */
static enum result below_read(const struct hub_repository *repository, const char *path,
                              struct hub_listing *listing, struct error_text *error)
{
    struct walker walker = {.listing = listing, .error = error};
    *listing = (struct hub_listing){0};
    int fd = walk(repository->fd, path, false);
    if (fd < 0)
        return error_set(error, RESULT_NOT_FOUND, "it has no folder %.60s", path);
    enum result result = folder_list(&walker, fd, 0, 0);
    if (result == RESULT_OK && listing->count > 1)
        qsort(listing->files, listing->count, sizeof listing->files[0], names_compare);
    if (result != RESULT_OK)
        hub_listing_fini(listing);
    return result;
}

enum result hub_snapshot_read(const struct hub_repository *repository, const char *commit,
                              struct hub_listing *listing, struct error_text *error)
{
    char path[HUB_COMMIT_BYTES + 16];
    snprintf(path, sizeof path, "snapshots/%.40s", commit);
    enum result result = below_read(repository, path, listing, error);
    if (result == RESULT_OK)
        snprintf(listing->commit, sizeof listing->commit, "%s", commit);
    return result;
}

enum result hub_refs_read(const struct hub_repository *repository, struct hub_listing *listing,
                          struct error_text *error)
{
    enum result result = below_read(repository, "refs", listing, error);
    return result == RESULT_NOT_FOUND ? RESULT_OK : result;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Makes the folders above `path` below the repository's folder `top`; gives the base name and the
 * descriptor of its folder. */
static enum result place_open(const struct hub_repository *repository, const char *top,
                              const char *path, const char **base, int *fd,
                              struct error_text *error)
{
    char folder[LIMIT_HUB_FILE_NAME_BYTES + HUB_COMMIT_BYTES + 32];
    const char *slash = strrchr(path, '/');
    *base = slash ? slash + 1 : path;
    if (snprintf(folder, sizeof folder, slash ? "%s/%.*s" : "%s", top,
                 slash ? (int)(slash - path) : 0, path) >= (int)sizeof folder)
        return error_set(error, RESULT_TOO_LARGE, "'%.100s' is too long a path", path);
    *fd = walk(repository->fd, folder, true);
    return *fd < 0 ? system_fail(error, folder) : RESULT_OK;
}

enum result hub_snapshot_link(const struct hub_repository *repository, const char *commit,
                              const struct hub_file *file, struct error_text *error)
{
    char top[HUB_COMMIT_BYTES + 16], target[3 * LIMIT_HUB_FOLDERS + HUB_HASH_BYTES + 32] = "../../";
    const char *base;
    int fd;
    snprintf(top, sizeof top, "snapshots/%.40s", commit);
    for (const char *at = file->name; (at = strchr(at, '/')) != NULL; at++)
        strcat(target, "../");
    strcat(target, "blobs/");
    strcat(target, file->hash);
    enum result result = place_open(repository, top, file->name, &base, &fd, error);
    if (result != RESULT_OK)
        return result;
    (void)unlinkat(fd, SCRATCH, 0);
    if (symlinkat(target, fd, SCRATCH) != 0 || renameat(fd, SCRATCH, fd, base) != 0)
        result = system_fail(error, file->name);
    close(fd);
    return result;
}

enum result hub_ref_write(const struct hub_repository *repository, const char *revision,
                          const char *commit, struct error_text *error)
{
    const char *base;
    int fd;
    if (strcmp(revision, commit) == 0)
        return RESULT_OK;
    enum result result = place_open(repository, "refs", revision, &base, &fd, error);
    if (result != RESULT_OK)
        return result;
    size_t length = strlen(commit);
    int file = openat(fd, SCRATCH, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    bool written = file >= 0 && write(file, commit, length) == (ssize_t)length && fsync(file) == 0;
    if (file >= 0)
        written = close(file) == 0 && written;
    if (!written || renameat(fd, SCRATCH, fd, base) != 0)
        result = system_fail(error, revision);
    close(fd);
    return result;
}

enum result hub_blob_lock(const struct hub_repository *repository, const char *hash,
                          void (*on_wait)(void *context), void *context, int *fd,
                          struct error_text *error)
{
    char folder[HUB_FOLDER_BYTES + 16], name[HUB_HASH_BYTES + 8];
    snprintf(folder, sizeof folder, ".locks/%s", repository->folder);
    snprintf(name, sizeof name, "%s.lock", hash);
    int folder_fd = walk(repository->cache_fd, folder, true);
    if (folder_fd < 0)
        return system_fail(error, folder);
    *fd = openat(folder_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    close(folder_fd);
    if (*fd < 0)
        return system_fail(error, name);
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return RESULT_OK;
    on_wait(context);
    while (flock(*fd, LOCK_EX) != 0) {
        if (errno == EINTR)
            continue;
        close(*fd);
        return system_fail(error, name);
    }
    return RESULT_OK;
}
