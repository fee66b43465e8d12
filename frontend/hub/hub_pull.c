/*
 * A blob goes through these states:
 *
 *   absent --lock--> HASH.incomplete --all bytes--> hash checked --rename--> HASH
 *                      ^      | cut or stalled: the next try asks for the rest
 *                      +------+ wrong hash: removed; once more from the start if an earlier call
 *                               wrote its beginning, otherwise an error
 *
 * The hash is computed while bytes arrive; the beginning that an earlier call left is read once.
 */
#include "frontend/hub/hub_pull.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "frontend/base/text_buffer.h"
#include "frontend/hub/hub_choice_policy.h"
#include "frontend/hub/hub_digest.h"
#include "frontend/hub/hub_listing.h"
#include "frontend/hub/hub_progress.h"
#include "frontend/hub/hub_store.h"
#include "proto/limits.h"

#define FREE_BYTES_KEPT (64u << 20) /* of the file system */
#define RETRY_FIRST_MS  250u
#define RETRY_MOST_MS   8000u
#define READ_BYTES      (1u << 20)
#define PATH_CAPACITY   (LIMIT_HUB_FILE_NAME_BYTES * 3 + 512)

struct puller {
    const struct hub_pull *pull;
    const struct hub_name *name;
    struct hub_client *client;
    struct hub_repository repository;
    struct hub_listing listing;
    struct hub_choice choice;
    struct hub_progress progress;
    int blobs_fd;
};

/* A blob that is being downloaded. */
struct blob {
    struct puller *puller;
    const struct hub_file *file;
    struct hub_digest *digest;
    struct error_text *error;
    int fd;
    uint64_t written;
    bool has_old; /* its beginning is from an earlier call */
};

static void retry_wait(uint32_t idle_tries)
{
    uint32_t ms = RETRY_FIRST_MS;
    for (uint32_t i = 1; i < idle_tries && ms < RETRY_MOST_MS; i++)
        ms *= 2;
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&pause, &pause) != 0 && errno == EINTR) {
    }
}

/* --- the list of files ------------------------------------------------------------------------ */

static bool text_restart(void *context)
{
    text_buffer_clear(context);
    return true;
}

static bool text_add(void *context, const char *bytes, size_t count)
{
    struct text_buffer *text = context;
    text_buffer_append(text, bytes, count);
    return !text->failed;
}

static bool path_begin(char path[PATH_CAPACITY], const char *prefix, const struct hub_name *name,
                       const char *between, const char *revision)
{
    path[0] = '\0';
    return hub_path_append(path, PATH_CAPACITY, prefix, true) &&
           hub_path_append(path, PATH_CAPACITY, name->org, false) &&
           hub_path_append(path, PATH_CAPACITY, "/", true) &&
           hub_path_append(path, PATH_CAPACITY, name->name, false) &&
           hub_path_append(path, PATH_CAPACITY, between, true) &&
           hub_path_append(path, PATH_CAPACITY, revision, false);
}

/* Says where a text that is no JSON comes from: often a page for people to log in. */
static enum result listing_parse(struct puller *puller, const struct text_buffer *text,
                                 struct error_text *error)
{
    size_t at = 0;
    while (at < text->length && strchr(" \t\r\n", text->bytes[at]))
        at++;
    if (at < text->length && text->bytes[at] == '<')
        return error_set(error, RESULT_INVALID,
                         "%.150s answers with a page (HTML) instead of a list of files",
                         puller->pull->source.endpoint);
    return hub_listing_read(text->length ? text->bytes : "", text->length, &puller->listing, error);
}

static enum result listing_fetch(struct puller *puller, struct error_text *error)
{
    char path[PATH_CAPACITY];
    struct text_buffer text = {0};
    const struct hub_sink sink = {&text, text_restart, text_add};
    if (!path_begin(path, "/api/models/", puller->name, "/revision/", puller->name->revision))
        return error_set(error, RESULT_TOO_LARGE, "the name is too long");
    strcat(path, "?blobs=true");
    const struct hub_request request = {.path = path, .size = LIMIT_HUB_LISTING_BYTES};
    enum result result = hub_client_get(puller->client, &request, &sink, error);
    for (uint32_t i = 1; result == RESULT_PEER_GONE && i <= puller->pull->retries; i++) {
        retry_wait(i);
        text_buffer_clear(&text);
        result = hub_client_get(puller->client, &request, &sink, error);
    }
    if (result == RESULT_OK)
        result = listing_parse(puller, &text, error);
    text_buffer_fini(&text);
    if (result == RESULT_OK && strlen(puller->name->revision) == HUB_COMMIT_BYTES - 1 &&
        hub_commit_is_valid(puller->name->revision) &&
        strcmp(puller->listing.commit, puller->name->revision) != 0)
        result = error_set(error, RESULT_CORRUPT, "the list of files is of another commit");
    return result;
}

/* --- one blob --------------------------------------------------------------------------------- */

static bool blob_restart(void *context)
{
    struct blob *blob = context;
    blob->written = 0;
    blob->has_old = false;
    if (ftruncate(blob->fd, 0) == 0 && lseek(blob->fd, 0, SEEK_SET) == 0 &&
        hub_digest_restart(blob->digest))
        return true;
    (void)error_set(blob->error, RESULT_IO, "it cannot be written: %s", strerror(errno));
    return false;
}

static bool blob_add(void *context, const char *bytes, size_t count)
{
    struct blob *blob = context;
    for (size_t at = 0; at < count;) {
        ssize_t written = write(blob->fd, bytes + at, count - at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            (void)error_set(blob->error, RESULT_IO, "it cannot be written: %s", strerror(errno));
            return false;
        }
        at += (size_t)written;
    }
    blob->written += count;
    hub_progress_show(&blob->puller->progress, blob->written);
    if (hub_digest_add(blob->digest, bytes, count))
        return true;
    (void)error_set(blob->error, RESULT_IO, "its hash cannot be computed");
    return false;
}

/* Hashes what an earlier call wrote; more than the size, or an unreadable file, is dropped. */
static enum result old_bytes_read(struct blob *blob)
{
    struct stat status;
    char *bytes = malloc(READ_BYTES);
    if (!bytes)
        return error_set(blob->error, RESULT_OUT_OF_MEMORY, "out of memory");
    bool right = fstat(blob->fd, &status) == 0 && (uint64_t)status.st_size <= blob->file->size;
    while (right && blob->written < (uint64_t)status.st_size) {
        ssize_t count = read(blob->fd, bytes, READ_BYTES);
        right = count > 0 && hub_digest_add(blob->digest, bytes, (size_t)count);
        if (right)
            blob->written += (uint64_t)count;
    }
    right = right && blob->written == (uint64_t)status.st_size;
    blob->has_old = blob->written > 0;
    free(bytes);
    return right || blob_restart(blob) ? RESULT_OK : RESULT_IO;
}

/* Requests the rest until all bytes are there. */
static enum result bytes_fetch(struct blob *blob)
{
    struct puller *puller = blob->puller;
    char path[PATH_CAPACITY];
    const struct hub_sink sink = {blob, blob_restart, blob_add};
    uint32_t idle_tries = 0;
    if (!path_begin(path, "/", puller->name, "/resolve/", puller->listing.commit) ||
        !hub_path_append(path, sizeof path, "/", true) ||
        !hub_path_append(path, sizeof path, blob->file->name, true))
        return error_set(blob->error, RESULT_TOO_LARGE, "its name is too long");
    while (blob->written < blob->file->size || blob->file->size == 0) {
        uint64_t before = blob->written;
        const struct hub_request request = {
            .path = path, .from = before, .size = blob->file->size, .exact = true};
        enum result result = hub_client_get(puller->client, &request, &sink, blob->error);
        if (result != RESULT_PEER_GONE)
            return result;
        idle_tries = blob->written > before ? 0 : idle_tries + 1;
        if (idle_tries > puller->pull->retries)
            return result;
        hub_progress_note(&puller->progress, "%s: %s; trying again", blob->file->name,
                          blob->error->text);
        retry_wait(idle_tries);
    }
    return RESULT_OK;
}

/* Downloads into the open file and checks the hash. */
static enum result bytes_complete(struct blob *blob)
{
    enum result result = old_bytes_read(blob);
    hub_progress_begin(&blob->puller->progress, blob->file, blob->written);
    while (result == RESULT_OK) {
        char hash[HUB_HASH_BYTES];
        bool had_old = blob->has_old;
        result = bytes_fetch(blob);
        if (result != RESULT_OK)
            return result;
        if (!hub_digest_finish(blob->digest, hash))
            return error_set(blob->error, RESULT_IO, "its hash cannot be computed");
        if (strcmp(hash, blob->file->hash) == 0)
            return RESULT_OK;
        if (!blob_restart(blob))
            return RESULT_IO;
        if (!had_old)
            return error_set(blob->error, RESULT_CORRUPT,
                             "its hash is %.64s, announced is %.64s; it is removed", hash,
                             blob->file->hash);
        hub_progress_note(&blob->puller->progress, "%s: the part that was there is damaged",
                          blob->file->name);
    }
    return result;
}

static enum result incomplete_fetch(struct blob *blob, const char *incomplete)
{
    struct puller *puller = blob->puller;
    blob->fd =
        openat(puller->blobs_fd, incomplete, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (blob->fd < 0)
        return error_set(blob->error, RESULT_IO, "it cannot be written: %s", strerror(errno));
    blob->digest = hub_digest_create(blob->file);
    enum result result = blob->digest ? bytes_complete(blob)
                                      : error_set(blob->error, RESULT_IO, "hashes do not work");
    if (result == RESULT_OK && fsync(blob->fd) != 0)
        result = error_set(blob->error, RESULT_IO, "it cannot be written: %s", strerror(errno));
    hub_digest_destroy(blob->digest);
    close(blob->fd);
    if (result == RESULT_OK &&
        renameat(puller->blobs_fd, incomplete, puller->blobs_fd, blob->file->hash) != 0)
        result = error_set(blob->error, RESULT_IO, "it cannot be renamed: %s", strerror(errno));
    if (result == RESULT_CORRUPT || result == RESULT_TOO_LARGE)
        (void)unlinkat(puller->blobs_fd, incomplete, 0);
    if (result == RESULT_OK)
        hub_progress_end(&puller->progress, "complete");
    return result;
}

/* Bytes that must still be downloaded; 0: the blob is there. */
static uint64_t blob_missing(const struct puller *puller, const struct hub_file *file)
{
    struct stat status;
    char incomplete[HUB_HASH_BYTES + 16];
    if (fstatat(puller->blobs_fd, file->hash, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(status.st_mode) && (uint64_t)status.st_size == file->size)
        return 0;
    snprintf(incomplete, sizeof incomplete, "%s.incomplete", file->hash);
    if (fstatat(puller->blobs_fd, incomplete, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        (uint64_t)status.st_size < file->size)
        return file->size - (uint64_t)status.st_size;
    return file->size + (file->size == 0);
}

static void wait_note(void *context)
{
    struct blob *blob = context;
    hub_progress_note(&blob->puller->progress, "%s: another process is downloading it",
                      blob->file->name);
}

static enum result blob_fetch(struct puller *puller, const struct hub_file *file,
                              struct error_text *error)
{
    struct error_text why;
    struct blob blob = {.puller = puller, .file = file, .error = &why};
    char incomplete[HUB_HASH_BYTES + 16];
    int lock;
    snprintf(incomplete, sizeof incomplete, "%s.incomplete", file->hash);
    if (blob_missing(puller, file) == 0)
        return RESULT_OK;
    enum result result =
        hub_blob_lock(&puller->repository, file->hash, wait_note, &blob, &lock, error);
    if (result != RESULT_OK)
        return result;
    if (blob_missing(puller, file) > 0)
        result = incomplete_fetch(&blob, incomplete);
    close(lock);
    return result == RESULT_OK ? result
                               : error_set(error, result, "%.100s: %s", file->name, why.text);
}

/* --- all of it -------------------------------------------------------------------------------- */

static enum result space_check(struct puller *puller, struct error_text *error)
{
    struct statvfs disk;
    uint64_t needed = 0;
    char needed_text[16], free_text[16];
    for (uint32_t i = 0; i < puller->choice.count; i++)
        needed += blob_missing(puller, &puller->listing.files[puller->choice.files[i]]);
    if (fstatvfs(puller->blobs_fd, &disk) != 0)
        return RESULT_OK;
    uint64_t available = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (needed == 0 || (available >= FREE_BYTES_KEPT && needed <= available - FREE_BYTES_KEPT))
        return RESULT_OK;
    hub_size_write(needed, needed_text);
    hub_size_write(available, free_text);
    return error_set(error, RESULT_IO, "it needs %s, and the file system of the cache has %s free",
                     needed_text, free_text);
}

static enum result files_fetch(struct puller *puller, struct error_text *error)
{
    const struct hub_file *files = puller->listing.files;
    enum result result = hub_folders_make(puller->repository.fd, "blobs", error);
    if (result != RESULT_OK)
        return result;
    puller->blobs_fd = hub_folder_open(puller->repository.fd, "blobs");
    if (puller->blobs_fd < 0)
        return error_set(error, RESULT_IO, "the cache cannot be read: %s", strerror(errno));
    result = space_check(puller, error);
    for (uint32_t i = 0; result == RESULT_OK && i < puller->choice.count; i++)
        result = blob_fetch(puller, &files[puller->choice.files[i]], error);
    if (result == RESULT_OK)
        hub_progress_status(&puller->progress, "writing manifest");
    for (uint32_t i = 0; result == RESULT_OK && i < puller->choice.count; i++)
        result = hub_snapshot_link(&puller->repository, puller->listing.commit,
                                   &files[puller->choice.files[i]], error);
    if (result == RESULT_OK)
        result = hub_ref_write(&puller->repository, puller->name->revision, puller->listing.commit,
                               error);
    return result;
}

enum result hub_pull_run(const struct hub_pull *pull, const struct hub_name *name,
                         struct error_text *error)
{
    struct puller puller = {
        .pull = pull, .name = name, .repository = {.fd = -1, .cache_fd = -1}, .blobs_fd = -1};
    hub_progress_init(&puller.progress, pull->progress, pull->progress_json);
    hub_progress_status(&puller.progress, "pulling manifest");
    enum result result = hub_client_create(&pull->source, &puller.client, error);
    if (result == RESULT_OK)
        result = listing_fetch(&puller, error);
    if (result == RESULT_OK)
        result = hub_choice_make(&puller.listing, name->quant, &puller.choice, error);
    if (result == RESULT_OK)
        result = hub_repository_open(pull->cache, name, true, &puller.repository, error);
    if (result == RESULT_OK)
        result = files_fetch(&puller, error);
    if (puller.blobs_fd >= 0)
        close(puller.blobs_fd);
    hub_repository_close(&puller.repository);
    hub_choice_fini(&puller.choice);
    hub_listing_fini(&puller.listing);
    hub_client_destroy(puller.client);
    return result;
}
