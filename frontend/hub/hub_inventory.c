/*
 * Removal takes links first and blobs last, so an interrupted one leaves blobs without links, which
 * the next one of the same repository removes, and never a link without a blob.
 */
#include "frontend/hub/hub_inventory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/hub/hub_choice_policy.h"
#include "frontend/hub/hub_store.h"
#include "proto/limits.h"

#define TREE_DEPTH (LIMIT_HUB_FOLDERS + 4)

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void refs_write(const struct hub_repository *repository, const struct hub_listing *refs,
                       struct hub_entry *entry)
{
    for (uint32_t i = 0; i < refs->count; i++) {
        char commit[HUB_COMMIT_BYTES];
        size_t length = strlen(entry->refs), bytes = strlen(refs->files[i].name);
        if (bytes < HUB_REVISION_BYTES && length + bytes + 2 < sizeof entry->refs &&
            hub_repository_commit(repository, refs->files[i].name, commit) &&
            strcmp(commit, entry->commit) == 0)
            snprintf(entry->refs + length, sizeof entry->refs - length, "%s%s", length ? "," : "",
                     refs->files[i].name);
    }
}

static enum result entry_add(struct hub_inventory *inventory, const struct hub_entry *entry,
                             struct error_text *error)
{
    if (inventory->count == LIMIT_HUB_FILES)
        return error_set(error, RESULT_TOO_LARGE, "the cache has more than %u snapshots",
                         LIMIT_HUB_FILES);
    struct hub_entry *grown =
        realloc(inventory->entries, (inventory->count + 1) * sizeof *inventory->entries);
    if (!grown)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    inventory->entries = grown;
    grown[inventory->count++] = *entry;
    return RESULT_OK;
}

static enum result snapshots_add(struct hub_inventory *inventory, const struct hub_name *name,
                                 const struct hub_repository *repository, struct error_text *error)
{
    struct hub_listing refs;
    enum result result = hub_refs_read(repository, &refs, error);
    int fd = result == RESULT_OK ? hub_folder_open(repository->fd, "snapshots") : -1;
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *at;
    while (result == RESULT_OK && folder && (at = readdir(folder)) != NULL) {
        struct hub_entry entry = {.name = *name};
        if (strlen(at->d_name) != HUB_COMMIT_BYTES - 1 || !hub_commit_is_valid(at->d_name))
            continue;
        snprintf(entry.commit, sizeof entry.commit, "%.40s", at->d_name);
        if (hub_snapshot_read(repository, entry.commit, &entry.listing, error) != RESULT_OK)
            continue;
        refs_write(repository, &refs, &entry);
        result = entry_add(inventory, &entry, error);
        if (result != RESULT_OK)
            hub_listing_fini(&entry.listing);
    }
    if (folder)
        closedir(folder);
    hub_listing_fini(&refs);
    return result;
}

static int entries_compare(const void *one, const void *other)
{
    const struct hub_entry *a = one, *b = other;
    int order = strcmp(a->name.org, b->name.org);
    order = order ? order : strcmp(a->name.name, b->name.name);
    return order ? order : strcmp(a->commit, b->commit);
}

enum result hub_inventory_read(const char *cache, struct hub_inventory *inventory,
                               struct error_text *error)
{
    *inventory = (struct hub_inventory){0};
    DIR *folder = opendir(cache);
    if (!folder)
        return errno == ENOENT ? RESULT_OK
                               : error_set(error, RESULT_IO, "%.150s: %s", cache, strerror(errno));
    enum result result = RESULT_OK;
    for (const struct dirent *at; result == RESULT_OK && (at = readdir(folder)) != NULL;) {
        struct hub_name name;
        struct hub_repository repository;
        if (!hub_name_from_folder(at->d_name, &name) ||
            hub_repository_open(cache, &name, false, &repository, error) != RESULT_OK)
            continue;
        result = snapshots_add(inventory, &name, &repository, error);
        hub_repository_close(&repository);
    }
    closedir(folder);
    if (result != RESULT_OK)
        hub_inventory_fini(inventory);
    else if (inventory->count > 1)
        qsort(inventory->entries, inventory->count, sizeof inventory->entries[0], entries_compare);
    return result;
}

void hub_inventory_fini(struct hub_inventory *inventory)
{
    for (uint32_t i = 0; i < inventory->count; i++)
        hub_listing_fini(&inventory->entries[i].listing);
    free(inventory->entries);
    *inventory = (struct hub_inventory){0};
}

/* --- removal ---------------------------------------------------------------------------------- */

/* Removes a file, or a folder with all that is below it; links are removed, not followed. */
static void tree_remove(int folder_fd, const char *name, unsigned depth, uint64_t *freed_bytes)
{
    struct stat status;
    if (fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (!S_ISDIR(status.st_mode)) {
        if (unlinkat(folder_fd, name, 0) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
            *freed_bytes += (uint64_t)status.st_size;
        return;
    }
    int fd = depth < TREE_DEPTH ? hub_folder_open(folder_fd, name) : -1;
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    for (const struct dirent *at; folder && (at = readdir(folder)) != NULL;)
        if (!is_dots(at->d_name))
            tree_remove(dirfd(folder), at->d_name, depth + 1, freed_bytes);
    if (folder)
        closedir(folder);
    (void)unlinkat(folder_fd, name, AT_REMOVEDIR);
}

static enum result repository_remove(const struct hub_repository *repository, uint64_t *freed_bytes,
                                     struct error_text *error)
{
    struct stat status;
    int locks = hub_folder_open(repository->cache_fd, ".locks");
    tree_remove(repository->cache_fd, repository->folder, 0, freed_bytes);
    if (locks >= 0) {
        uint64_t ignored = 0;
        tree_remove(locks, repository->folder, 0, &ignored);
        close(locks);
    }
    return fstatat(repository->cache_fd, repository->folder, &status, AT_SYMLINK_NOFOLLOW) == 0
               ? error_set(error, RESULT_IO, "%.150s cannot be removed", repository->path)
               : RESULT_OK;
}

static void snapshot_remove(const struct hub_repository *repository, const struct hub_entry *entry,
                            uint64_t *freed_bytes)
{
    char commit[HUB_COMMIT_BYTES], path[HUB_REVISION_BYTES + 16];
    struct hub_listing refs;
    struct error_text ignored;
    if (hub_refs_read(repository, &refs, &ignored) != RESULT_OK)
        return;
    for (uint32_t i = 0; i < refs.count; i++) {
        if (strlen(refs.files[i].name) < HUB_REVISION_BYTES &&
            hub_repository_commit(repository, refs.files[i].name, commit) &&
            strcmp(commit, entry->commit) == 0) {
            snprintf(path, sizeof path, "refs/%s", refs.files[i].name);
            (void)unlinkat(repository->fd, path, 0);
        }
    }
    hub_listing_fini(&refs);
    int snapshots = hub_folder_open(repository->fd, "snapshots");
    if (snapshots < 0)
        return;
    tree_remove(snapshots, entry->commit, 0, freed_bytes);
    close(snapshots);
}

/* Removes the links of one quantization, and of the projectors if no other model is left. */
static enum result quant_remove(const struct hub_repository *repository,
                                const struct hub_entry *entry, const char *quant,
                                uint64_t *freed_bytes, struct error_text *error)
{
    struct hub_choice choice;
    uint32_t models = 0, removed = 0;
    char path[LIMIT_HUB_FILE_NAME_BYTES + HUB_COMMIT_BYTES + 16];
    enum result result = hub_choice_make(&entry->listing, quant, &choice, error);
    if (result != RESULT_OK)
        return result;
    for (uint32_t i = 0; i < entry->listing.count; i++)
        models += !hub_name_is_projector(entry->listing.files[i].name);
    removed = choice.count - (choice.projector != NULL);
    for (uint32_t i = 0; i < choice.count; i++) {
        const char *file = entry->listing.files[choice.files[i]].name;
        if (file == choice.projector)
            continue;
        snprintf(path, sizeof path, "snapshots/%s/%s", entry->commit, file);
        tree_remove(repository->fd, path, 0, freed_bytes);
    }
    hub_choice_fini(&choice);
    if (models == removed)
        snapshot_remove(repository, entry, freed_bytes);
    return RESULT_OK;
}

static bool inventory_links(const struct hub_inventory *inventory, const struct hub_name *name,
                            const char *hash)
{
    for (uint32_t i = 0; i < inventory->count; i++) {
        const struct hub_entry *entry = &inventory->entries[i];
        if (strcmp(entry->name.org, name->org) != 0 || strcmp(entry->name.name, name->name) != 0)
            continue;
        for (uint32_t file = 0; file < entry->listing.count; file++)
            if (strcmp(entry->listing.files[file].hash, hash) == 0)
                return true;
    }
    return false;
}

static bool has_snapshot(const struct hub_inventory *inventory, const struct hub_name *name)
{
    for (uint32_t i = 0; i < inventory->count; i++)
        if (strcmp(inventory->entries[i].name.org, name->org) == 0 &&
            strcmp(inventory->entries[i].name.name, name->name) == 0)
            return true;
    return false;
}

/* Removes complete blobs without a link; beginnings of blobs stay for the next download. */
static enum result blobs_remove(const char *cache, const struct hub_repository *repository,
                                const struct hub_name *name, uint64_t *freed_bytes,
                                struct error_text *error)
{
    struct hub_inventory left;
    enum result result = hub_inventory_read(cache, &left, error);
    if (result != RESULT_OK)
        return result;
    if (!has_snapshot(&left, name)) {
        hub_inventory_fini(&left);
        return repository_remove(repository, freed_bytes, error);
    }
    int fd = hub_folder_open(repository->fd, "blobs");
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    for (const struct dirent *at; folder && (at = readdir(folder)) != NULL;)
        if (!is_dots(at->d_name) && !strchr(at->d_name, '.') &&
            !inventory_links(&left, name, at->d_name))
            tree_remove(dirfd(folder), at->d_name, 0, freed_bytes);
    if (folder)
        closedir(folder);
    hub_inventory_fini(&left);
    return RESULT_OK;
}

static enum result entries_remove(const struct hub_inventory *inventory,
                                  const struct hub_repository *repository,
                                  const struct hub_name *name, uint64_t *freed_bytes,
                                  struct error_text *error)
{
    char commit[HUB_COMMIT_BYTES] = "";
    uint32_t removed = 0;
    if (name->has_revision && !hub_repository_commit(repository, name->revision, commit))
        return error_set(error, RESULT_NOT_FOUND, "the cache has no revision '%.100s' of it",
                         name->revision);
    enum result last = error_set(error, RESULT_NOT_FOUND, "it is not in the cache");
    for (uint32_t i = 0; i < inventory->count; i++) {
        const struct hub_entry *entry = &inventory->entries[i];
        if (strcmp(entry->name.org, name->org) != 0 || strcmp(entry->name.name, name->name) != 0 ||
            (commit[0] && strcmp(entry->commit, commit) != 0))
            continue;
        enum result result = RESULT_OK;
        if (name->quant[0])
            result = quant_remove(repository, entry, name->quant, freed_bytes, error);
        else
            snapshot_remove(repository, entry, freed_bytes);
        removed += result == RESULT_OK;
        last = result;
    }
    return removed > 0 ? RESULT_OK : last;
}

enum result hub_inventory_remove(const char *cache, const struct hub_name *name,
                                 uint64_t *freed_bytes, struct error_text *error)
{
    struct hub_repository repository;
    struct hub_inventory inventory;
    *freed_bytes = 0;
    enum result result = hub_repository_open(cache, name, false, &repository, error);
    if (result != RESULT_OK)
        return result;
    if (!name->quant[0] && !name->has_revision) {
        result = repository_remove(&repository, freed_bytes, error);
        hub_repository_close(&repository);
        return result;
    }
    result = hub_inventory_read(cache, &inventory, error);
    if (result == RESULT_OK) {
        result = entries_remove(&inventory, &repository, name, freed_bytes, error);
        hub_inventory_fini(&inventory);
    }
    if (result == RESULT_OK)
        result = blobs_remove(cache, &repository, name, freed_bytes, error);
    hub_repository_close(&repository);
    return result;
}
