/*
 * Names are fixed and few. Files are created with mode 0600 and opened without following links: the
 * directory belongs to this process's user (frontend/api/responses/response_journal.h).
 */
#include "frontend/serve/worker/prefix_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/log.h"

#define NAME_BYTES 40u

static void saved_name(uint32_t index, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "prefix-cache-%u", index);
}

static void unfinished_name(uint32_t index, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "prefix-cache-%u.tmp", index);
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
    char name[NAME_BYTES];
    if (files->directory < 0)
        return -1;
    unfinished_name(index, name);
    (void)unlinkat(files->directory, name, 0);
    int fd =
        openat(files->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        log_warn("the prefix cache of worker %u will not be saved: %s in --state-dir: %s", index,
                 name, strerror(errno));
    return fd;
}

void prefix_files_end(const struct prefix_files *files, uint32_t index, int fd, bool complete)
{
    char saved[NAME_BYTES];
    char unfinished[NAME_BYTES];
    struct stat facts;
    if (fd < 0)
        return;
    saved_name(index, saved);
    unfinished_name(index, unfinished);
    complete = complete && fstat(fd, &facts) == 0 && facts.st_size > 0;
    close(fd);
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
