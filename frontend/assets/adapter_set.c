/*
 * The memory is a sparse memfd that grows by an adapter at a time. Files are read, not mapped: one
 * that another program truncates meanwhile is an error and not a SIGBUS.
 */
#include "frontend/assets/adapter_set.h"

#include <errno.h>
#include <fcntl.h>
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

struct adapter_set {
    int memory_fd;
    uint64_t memory_bytes;
    uint32_t count;
    struct adapter adapters[LIMIT_ADAPTERS];
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
    return RESULT_OK;
}

void adapter_set_destroy(struct adapter_set *set)
{
    if (!set)
        return;
    close(set->memory_fd);
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
                                  uint64_t *byte_count, struct error_text *error)
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
        if ((uint64_t)got > most_bytes - *byte_count)
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
                             uint64_t most_bytes, uint64_t *offset, uint64_t *byte_count,
                             struct error_text *error)
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
        result = copy_open_file(set->memory_fd, fd, *offset, most_bytes, byte_count, &reason);
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
                              struct adapter_entry *entry, struct error_text *error)
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return error_set(error, RESULT_NOT_FOUND, "%s", strerror(errno));
    if (!S_ISDIR(facts.st_mode))
        return copy_file(set, AT_FDCWD, path, LIMIT_ADAPTER_BYTES, &entry->tensor_offset,
                         &entry->tensor_bytes, error);
    int folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0)
        return error_set(error, RESULT_IO, "%s", strerror(errno));
    enum result result = copy_file(set, folder_fd, CONFIG_FILE, LIMIT_CONFIG_BYTES,
                                   &entry->config_offset, &entry->config_bytes, error);
    if (result == RESULT_OK)
        result = copy_file(set, folder_fd, TENSORS_FILE, LIMIT_ADAPTER_BYTES, &entry->tensor_offset,
                           &entry->tensor_bytes, error);
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

/* --- the set ----------------------------------------------------------------------------------- */

static enum result check_name(const struct adapter_set *set, const char *name, size_t length,
                              struct error_text *error)
{
    if (length < 1 || length >= LIMIT_ADAPTER_NAME_BYTES)
        return error_set(error, RESULT_INVALID, "NAME must have 1 to %u bytes",
                         LIMIT_ADAPTER_NAME_BYTES - 1);
    for (size_t i = 0; i < length; i++)
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\')
            return error_set(error, RESULT_INVALID,
                             "NAME may hold printable ASCII without quotes only");
    for (uint32_t i = 0; i < set->count; i++)
        if (strlen(set->adapters[i].name) == length &&
            memcmp(set->adapters[i].name, name, length) == 0)
            return error_set(error, RESULT_INVALID, "another adapter has the name %.100s",
                             set->adapters[i].name);
    return RESULT_OK;
}

enum result adapter_set_add(struct adapter_set *set, const char *name_and_path,
                            struct error_text *error)
{
    const char *equals = strchr(name_and_path, '=');
    struct error_text reason = {""};
    struct adapter_entry entry;
    memset(&entry, 0, sizeof entry);
    if (!equals || !equals[1])
        return error_set(error, RESULT_INVALID, "--lora '%.150s': NAME=PATH is expected",
                         name_and_path);
    size_t length = (size_t)(equals - name_and_path);
    const char *path = equals + 1;
    enum result result = check_name(set, name_and_path, length, &reason);
    if (result == RESULT_OK && set->count == LIMIT_ADAPTERS)
        result = error_set(&reason, RESULT_TOO_LARGE, "more than %u adapters", LIMIT_ADAPTERS);
    if (result == RESULT_OK && strlen(path) >= ADAPTER_PATH_BYTES)
        result = error_set(&reason, RESULT_TOO_LARGE, "PATH is too long");
    if (result == RESULT_OK)
        result = copy_files(set, path, &entry, &reason);
    struct adapter *adapter = &set->adapters[set->count < LIMIT_ADAPTERS ? set->count : 0];
    uint64_t content[2];
    if (result == RESULT_OK)
        result = hash_files(set, &entry, content, &reason);
    if (result != RESULT_OK)
        return error_set(error, result, "--lora %.100s: %.140s", name_and_path, reason.text);
    memcpy(entry.name, name_and_path, length);
    memcpy(adapter->name, entry.name, sizeof adapter->name);
    memcpy(adapter->content, content, sizeof content);
    strcpy(adapter->path, path);
    adapter->number = set->count + 1;
    if (!write_all(set->memory_fd, (const uint8_t *)&entry, sizeof entry,
                   set->count * sizeof entry))
        return error_set(error, RESULT_OUT_OF_MEMORY, "--lora %.100s: %s", name_and_path,
                         strerror(errno));
    set->count++;
    return RESULT_OK;
}

uint32_t adapter_set_count(const struct adapter_set *set)
{
    return set ? set->count : 0;
}

const struct adapter *adapter_set_at(const struct adapter_set *set, uint32_t index)
{
    must(index < set->count);
    return &set->adapters[index];
}

const struct adapter *adapter_set_find(const struct adapter_set *set, const char *name)
{
    for (uint32_t i = 0; i < adapter_set_count(set); i++)
        if (strcmp(set->adapters[i].name, name) == 0)
            return &set->adapters[i];
    return NULL;
}

int adapter_set_memory(const struct adapter_set *set)
{
    return set ? set->memory_fd : -1;
}
