/*
 * The memory is a sparse memfd that grows by an adapter at a time; a cleared adapter leaves a hole. Files
 * are read, not mapped: one that another program truncates meanwhile is an error and not a SIGBUS.
 *
 * An entry is written whole and is emptied before its contents are: a worker that has read an entry and finds
 * nothing at its place reads it again.
 */
#include "frontend/assets/adapter_set.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/keyed_hash.h"
#include "proto/must.h"

#define CONFIG_FILE  "adapter_config.json"
#define TENSORS_FILE "adapter_model.safetensors"
#define CHUNK_BYTES  (1u << 20)

enum adapter_state { ADAPTER_FREE, ADAPTER_FILLING, ADAPTER_IN_USE, ADAPTER_LEAVING };

struct adapter_slot {
    enum adapter_state state;
    _Atomic uint32_t users;
    struct adapter_entry entry; /* as the memory has it */
    struct adapter adapter;
};

struct adapter_set {
    int memory_fd;
    uint64_t memory_bytes;
    uint32_t versions;    /* given so far */
    pthread_mutex_t lock; /* states and names, and taking by name */
    struct adapter_slot slots[LIMIT_ADAPTERS];
};

enum result adapter_set_create(struct adapter_set **set, struct error_text *error)
{
    int fd = memfd_create("shoal-adapters", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, ADAPTER_ALIGN_BYTES) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        if (fd >= 0)
            close(fd);
        return error_set(error, RESULT_IO, "the memory of adapters cannot be created: %s",
                         strerror(errno));
    }
    _Static_assert(ADAPTER_TABLE_BYTES <= ADAPTER_ALIGN_BYTES, "contents follow the table");
    *set = must_alloc(1, sizeof **set);
    (*set)->memory_fd = fd;
    (*set)->memory_bytes = ADAPTER_ALIGN_BYTES;
    must(pthread_mutex_init(&(*set)->lock, NULL) == 0);
    return RESULT_OK;
}

void adapter_set_destroy(struct adapter_set *set)
{
    if (!set)
        return;
    close(set->memory_fd);
    pthread_mutex_destroy(&set->lock);
    free(set);
}

/* --- files ------------------------------------------------------------------------------------- */

static bool write_all(int fd, const uint8_t *bytes, size_t count, uint64_t at)
{
    while (count > 0) {
        ssize_t done = pwrite(fd, bytes, count, (off_t)at);
        if (done <= 0 && errno != EINTR)
            return false;
        size_t written = done > 0 ? (size_t)done : 0;
        bytes += written;
        count -= written;
        at += written;
    }
    return true;
}

/* Copies an open file to `at`; *byte_count is its size. */
static enum result copy_open_file(int memory_fd, int fd, uint64_t at, uint64_t most_bytes,
                                  const atomic_bool *cancelled, uint64_t *byte_count,
                                  struct error_text *error)
{
    uint8_t *chunk = must_alloc(CHUNK_BYTES, 1);
    enum result result = RESULT_OK;
    *byte_count = 0;
    while (result == RESULT_OK) {
        ssize_t got = read(fd, chunk, CHUNK_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            result = error_set(error, RESULT_IO, "%s", strerror(errno));
        if (got <= 0)
            break;
        if (cancelled && atomic_load_explicit(cancelled, memory_order_relaxed))
            result = error_set(error, RESULT_STALE, "cancelled");
        else if ((uint64_t)got > most_bytes - *byte_count)
            result = error_set(error, RESULT_TOO_LARGE, "it is larger than %llu bytes",
                               (unsigned long long)most_bytes);
        else if (!write_all(memory_fd, chunk, (size_t)got, at + *byte_count))
            result =
                error_set(error, RESULT_OUT_OF_MEMORY, "no memory for it: %s", strerror(errno));
        *byte_count += (uint64_t)got;
    }
    free(chunk);
    return result;
}

/* Copies file `name` of a folder to the memory's end. */
static enum result copy_file(struct adapter_set *set, int folder_fd, const char *name,
                             uint64_t most_bytes, const atomic_bool *cancelled, uint64_t *offset,
                             uint64_t *byte_count, struct error_text *error)
{
    struct error_text reason = {""};
    struct stat facts;
    enum result result = RESULT_OK;
    *offset = set->memory_bytes;
    int fd = openat(folder_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        result = error_set(&reason, errno == ENOENT ? RESULT_NOT_FOUND : RESULT_IO, "%s",
                           strerror(errno));
    else if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size == 0)
        result = error_set(&reason, RESULT_INVALID, "it is empty or not a file");
    else
        result =
            copy_open_file(set->memory_fd, fd, *offset, most_bytes, cancelled, byte_count, &reason);
    if (fd >= 0)
        close(fd);
    if (result != RESULT_OK)
        return error_set(error, result, "%.120s: %.120s", name, reason.text);
    set->memory_bytes +=
        (*byte_count + ADAPTER_ALIGN_BYTES - 1) / ADAPTER_ALIGN_BYTES * ADAPTER_ALIGN_BYTES;
    if (ftruncate(set->memory_fd, (off_t)set->memory_bytes) != 0)
        return error_set(error, RESULT_OUT_OF_MEMORY, "%.120s: %s", name, strerror(errno));
    return RESULT_OK;
}

static enum result copy_files(struct adapter_set *set, const char *path,
                              const atomic_bool *cancelled, struct adapter_entry *entry,
                              struct error_text *error)
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return error_set(error, RESULT_NOT_FOUND, "%s", strerror(errno));
    if (!S_ISDIR(facts.st_mode))
        return copy_file(set, AT_FDCWD, path, LIMIT_ADAPTER_BYTES, cancelled, &entry->tensor_offset,
                         &entry->tensor_bytes, error);
    int folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0)
        return error_set(error, RESULT_IO, "%s", strerror(errno));
    enum result result = copy_file(set, folder_fd, CONFIG_FILE, LIMIT_CONFIG_BYTES, cancelled,
                                   &entry->config_offset, &entry->config_bytes, error);
    if (result == RESULT_OK)
        result = copy_file(set, folder_fd, TENSORS_FILE, LIMIT_ADAPTER_BYTES, cancelled,
                           &entry->tensor_offset, &entry->tensor_bytes, error);
    close(folder_fd);
    return result;
}

/* Of equal files equal in every process, because saved prefix caches outlive this one. */
static enum result hash_part(int fd, uint64_t offset, uint64_t byte_count, uint64_t hash[2],
                             struct error_text *error)
{
    static const struct keyed_hash_key key = {{0}};
    hash[0] = hash[1] = 0;
    if (byte_count == 0)
        return RESULT_OK;
    void *bytes = mmap(NULL, byte_count, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    if (bytes == MAP_FAILED)
        return error_set(error, RESULT_OUT_OF_MEMORY, "%s", strerror(errno));
    keyed_hash_wide(&key, bytes, byte_count, hash);
    munmap(bytes, byte_count);
    return RESULT_OK;
}

static enum result hash_files(const struct adapter_set *set, const struct adapter_entry *entry,
                              uint64_t content[2], struct error_text *error)
{
    static const struct keyed_hash_key key = {{0}};
    uint64_t parts[4];
    enum result result =
        hash_part(set->memory_fd, entry->config_offset, entry->config_bytes, parts, error);
    if (result == RESULT_OK)
        result =
            hash_part(set->memory_fd, entry->tensor_offset, entry->tensor_bytes, parts + 2, error);
    if (result == RESULT_OK)
        keyed_hash_wide(&key, parts, sizeof parts, content);
    return result;
}

/* --- changes ----------------------------------------------------------------------------------- */

/* LIMIT_ADAPTERS: none in this state has the name. */
static uint32_t find_slot(const struct adapter_set *set, const char *name, enum adapter_state state)
{
    uint32_t slot = 0;
    while (slot < LIMIT_ADAPTERS &&
           (set->slots[slot].state != state || strcmp(set->slots[slot].adapter.name, name) != 0))
        slot++;
    return slot;
}

static enum result check_name(const struct adapter_set *set, const char *name, bool replaces,
                              struct error_text *error)
{
    size_t length = strlen(name);
    if (length < 1 || length >= LIMIT_ADAPTER_NAME_BYTES)
        return error_set(error, RESULT_INVALID, "a name must have 1 to %u bytes",
                         LIMIT_ADAPTER_NAME_BYTES - 1);
    for (size_t i = 0; i < length; i++)
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\')
            return error_set(error, RESULT_INVALID,
                             "a name may hold printable ASCII without quotes only");
    if (find_slot(set, name, ADAPTER_FILLING) < LIMIT_ADAPTERS ||
        (!replaces && find_slot(set, name, ADAPTER_IN_USE) < LIMIT_ADAPTERS))
        return error_set(error, RESULT_STALE, "another adapter has the name %.100s", name);
    return RESULT_OK;
}

static void set_state(struct adapter_set *set, uint32_t slot, enum adapter_state state)
{
    must(pthread_mutex_lock(&set->lock) == 0);
    set->slots[slot].state = state;
    must(pthread_mutex_unlock(&set->lock) == 0);
}

enum result adapter_set_begin(struct adapter_set *set, const char *name, const char *path,
                              bool replaces, uint32_t *slot, struct error_text *error)
{
    enum result result = check_name(set, name, replaces, error);
    if (result != RESULT_OK)
        return result;
    if (!path[0] || strlen(path) >= ADAPTER_PATH_BYTES)
        return error_set(error, RESULT_INVALID, "a path must have 1 to %u bytes",
                         ADAPTER_PATH_BYTES - 1);
    for (*slot = 0; *slot < LIMIT_ADAPTERS && set->slots[*slot].state != ADAPTER_FREE;)
        ++*slot;
    if (*slot == LIMIT_ADAPTERS)
        return error_set(error, RESULT_FULL, "more than %u adapters", LIMIT_ADAPTERS);
    struct adapter_slot *taken = &set->slots[*slot];
    struct adapter *adapter = &taken->adapter;
    strcpy(adapter->name, name);
    strcpy(adapter->path, path);
    adapter->number = *slot + 1;
    adapter->users = &taken->users;
    set_state(set, *slot, ADAPTER_FILLING);
    return RESULT_OK;
}

static enum result write_entry(const struct adapter_set *set, uint32_t slot,
                               const struct adapter_entry *entry, struct error_text *error)
{
    if (!write_all(set->memory_fd, (const uint8_t *)entry, sizeof *entry, slot * sizeof *entry))
        return error_set(error, RESULT_OUT_OF_MEMORY, "%s", strerror(errno));
    return RESULT_OK;
}

enum result adapter_set_fill(struct adapter_set *set, uint32_t slot, const atomic_bool *cancelled,
                             struct error_text *error)
{
    struct adapter_slot *filled = &set->slots[slot];
    struct adapter_entry *entry = &filled->entry;
    must(filled->state == ADAPTER_FILLING);
    memset(entry, 0, sizeof *entry);
    enum result result = copy_files(set, filled->adapter.path, cancelled, entry, error);
    if (result == RESULT_OK)
        result = hash_files(set, entry, filled->adapter.content, error);
    if (result != RESULT_OK)
        return result;
    strcpy(entry->name, filled->adapter.name);
    entry->version = ++set->versions;
    return write_entry(set, slot, entry, error);
}

struct adapter_id adapter_set_id(const struct adapter_set *set, uint32_t slot)
{
    return (struct adapter_id){.slot = slot, .version = set->slots[slot].entry.version};
}

const char *adapter_set_path(const struct adapter_set *set, uint32_t slot)
{
    return set->slots[slot].adapter.path;
}

void adapter_set_settle(struct adapter_set *set, uint32_t slot)
{
    struct error_text ignored; /* bytes that were there: writing needs no memory */
    set->slots[slot].entry.in_use = 1;
    must(write_entry(set, slot, &set->slots[slot].entry, &ignored) == RESULT_OK);
    must(pthread_mutex_lock(&set->lock) == 0);
    uint32_t before = find_slot(set, set->slots[slot].adapter.name, ADAPTER_IN_USE);
    if (before < LIMIT_ADAPTERS)
        set->slots[before].state = ADAPTER_LEAVING;
    set->slots[slot].state = ADAPTER_IN_USE;
    must(pthread_mutex_unlock(&set->lock) == 0);
}

enum result adapter_set_hide(struct adapter_set *set, const char *name)
{
    uint32_t slot = find_slot(set, name, ADAPTER_IN_USE);
    if (slot == LIMIT_ADAPTERS)
        return RESULT_NOT_FOUND;
    set_state(set, slot, ADAPTER_LEAVING);
    return RESULT_OK;
}

bool adapter_set_is_in_use(const struct adapter_set *set, uint32_t slot)
{
    return set->slots[slot].state == ADAPTER_IN_USE;
}

uint32_t adapter_set_unused(const struct adapter_set *set)
{
    for (uint32_t i = 0; i < LIMIT_ADAPTERS; i++)
        if (set->slots[i].state == ADAPTER_LEAVING && atomic_load(&set->slots[i].users) == 0)
            return i;
    return LIMIT_ADAPTERS;
}

bool adapter_set_is_leaving(const struct adapter_set *set)
{
    for (uint32_t i = 0; i < LIMIT_ADAPTERS; i++)
        if (set->slots[i].state == ADAPTER_LEAVING)
            return true;
    return false;
}

static void punch(const struct adapter_set *set, uint64_t offset, uint64_t bytes)
{
    if (bytes > 0) /* if it fails, the memory stays until the end */
        (void)fallocate(set->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                        (off_t)bytes);
}

void adapter_set_clear(struct adapter_set *set, uint32_t slot)
{
    struct adapter_entry old = set->slots[slot].entry;
    struct error_text ignored;
    set->slots[slot].entry = (struct adapter_entry){0};
    must(write_entry(set, slot, &set->slots[slot].entry, &ignored) == RESULT_OK);
    punch(set, old.config_offset, old.config_bytes);
    punch(set, old.tensor_offset, old.tensor_bytes);
    set_state(set, slot, ADAPTER_FREE);
}

enum result adapter_set_add(struct adapter_set *set, const char *name_and_path,
                            struct error_text *error)
{
    const char *equals = strchr(name_and_path, '=');
    struct error_text reason = {""};
    char name[LIMIT_ADAPTER_NAME_BYTES + 1] = "";
    uint32_t slot = 0;
    if (!equals || !equals[1])
        return error_set(error, RESULT_INVALID, "--lora '%.150s': NAME=PATH is expected",
                         name_and_path);
    snprintf(name, sizeof name, "%.*s", (int)(equals - name_and_path), name_and_path);
    enum result result = adapter_set_begin(set, name, equals + 1, false, &slot, &reason);
    if (result == RESULT_OK)
        result = adapter_set_fill(set, slot, NULL, &reason);
    if (result != RESULT_OK)
        return error_set(error, result, "--lora %.100s: %.140s", name_and_path, reason.text);
    adapter_set_settle(set, slot);
    return RESULT_OK;
}

/* --- reading ----------------------------------------------------------------------------------- */

uint32_t adapter_set_count(const struct adapter_set *set)
{
    uint32_t count = 0;
    for (uint32_t i = 0; set && i < LIMIT_ADAPTERS; i++)
        count += set->slots[i].state == ADAPTER_IN_USE;
    return count;
}

const struct adapter *adapter_set_at(const struct adapter_set *set, uint32_t index)
{
    for (uint32_t i = 0; i < LIMIT_ADAPTERS; i++)
        if (set->slots[i].state == ADAPTER_IN_USE && index-- == 0)
            return &set->slots[i].adapter;
    must(false);
    return NULL;
}

const struct adapter *adapter_set_find(const struct adapter_set *set, const char *name)
{
    uint32_t slot = set ? find_slot(set, name, ADAPTER_IN_USE) : LIMIT_ADAPTERS;
    return slot < LIMIT_ADAPTERS ? &set->slots[slot].adapter : NULL;
}

bool adapter_set_has(struct adapter_set *set, const char *name)
{
    const struct adapter *taken = adapter_set_take(set, name);
    adapter_release(taken);
    return taken != NULL;
}

const struct adapter *adapter_set_take(struct adapter_set *set, const char *name)
{
    if (!set)
        return NULL;
    must(pthread_mutex_lock(&set->lock) == 0);
    const struct adapter *found = adapter_share(adapter_set_find(set, name));
    must(pthread_mutex_unlock(&set->lock) == 0);
    return found;
}

const struct adapter *adapter_share(const struct adapter *adapter)
{
    if (adapter)
        atomic_fetch_add(adapter->users, 1);
    return adapter;
}

void adapter_release(const struct adapter *adapter)
{
    if (adapter)
        atomic_fetch_sub(adapter->users, 1);
}

int adapter_set_memory(const struct adapter_set *set)
{
    return set ? set->memory_fd : -1;
}
