/*
 * Names are fixed and few. Files are created with mode 0600 and opened without following links: the
 * directory belongs to this process's user (frontend/api/responses/response_journal.h).
 */
#include "frontend/serve/worker/prefix_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/log.h"

#define NAME_BYTES 64u

static void saved_name(uint32_t index, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "prefix-cache-%u", index);
}

/* The inode's number keeps those of a replaced model and of a successor apart. */
static void unfinished_name(uint32_t index, const struct stat *facts, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "prefix-cache-%u.%llu.tmp", index,
             (unsigned long long)facts->st_ino);
}

int prefix_files_open_saved(const struct prefix_files *files, uint32_t index)
{
    char name[NAME_BYTES];
    struct stat facts;
    if (files->directory < 0)
        return -1;
    saved_name(index, name);
    int fd = openat(files->directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT)
            log_warn("%s in --state-dir is not used: %s", name, strerror(errno));
        return -1;
    }
    const char *why = NULL;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        why = "it is not a file";
    else if (facts.st_uid != geteuid())
        why = "it belongs to another user";
    else if ((uint64_t)facts.st_size > files->most_bytes)
        why = "it is larger than --prefix-cache-bytes";
    if (!why)
        return fd;
    log_warn("%s in --state-dir is not used: %s", name, why);
    close(fd);
    return -1;
}

int prefix_files_begin(const struct prefix_files *files, uint32_t index)
{
    char name[NAME_BYTES], first[NAME_BYTES];
    struct stat facts;
    if (files->directory < 0)
        return -1;
    snprintf(first, sizeof first, "prefix-cache-%u.of-%d.tmp", index, (int)getpid());
    (void)unlinkat(files->directory, first, 0);
    int fd =
        openat(files->directory, first, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && fstat(fd, &facts) == 0) {
        unfinished_name(index, &facts, name);
        if (renameat(files->directory, first, files->directory, name) == 0)
            return fd;
    }
    log_warn("the prefix cache of worker %u will not be saved: %s in --state-dir: %s", index, first,
             strerror(errno));
    if (fd >= 0) {
        (void)unlinkat(files->directory, first, 0);
        close(fd);
    }
    return -1;
}

void prefix_files_end(const struct prefix_files *files, uint32_t index, int fd, bool complete)
{
    char saved[NAME_BYTES];
    char unfinished[NAME_BYTES];
    struct stat facts;
    if (fd < 0)
        return;
    bool known = fstat(fd, &facts) == 0;
    complete = complete && known && facts.st_size > 0;
    close(fd);
    if (!known)
        return;
    saved_name(index, saved);
    unfinished_name(index, &facts, unfinished);
    if (complete && renameat(files->directory, unfinished, files->directory, saved) == 0)
        return;
    if (complete)
        log_warn("the prefix cache of worker %u is not saved: %s", index, strerror(errno));
    (void)unlinkat(files->directory, unfinished, 0);
}

void prefix_files_remove(const struct prefix_files *files)
{
    char name[NAME_BYTES];
    for (uint32_t index = 0; files->directory >= 0 && index < LIMIT_WORKERS; index++) {
        saved_name(index, name);
        (void)unlinkat(files->directory, name, 0);
    }
}

void prefix_files_sweep(int directory)
{
    static const char begin[] = "prefix-cache-", end[] = ".tmp";
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        size_t bytes = strlen(entry->d_name);
        if (strncmp(entry->d_name, begin, sizeof begin - 1) == 0 && bytes > sizeof end &&
            strcmp(entry->d_name + bytes - (sizeof end - 1), end) == 0)
            (void)unlinkat(directory, entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
}
