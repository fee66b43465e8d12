/*
 * Cache directory; safe to delete.
 *
 * The home directory is that of the password database, so that it does not depend on how the
 * process was started; an option names another place. Missing directories are created. Without a
 * cache everything works, only slower, so no failure is an error.
 *
 * A directory that others can write to is not used: compiled kernels in it run on the device.
 */
#include "frontend/serve/settings/cache_folder.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/log.h"

#define PASSWORD_ENTRY_BYTES 4096u

bool cache_folder_in_home(const char *below, char path[CACHE_FOLDER_BYTES])
{
    struct passwd entry;
    struct passwd *found = NULL;
    char words[PASSWORD_ENTRY_BYTES];
    if (getpwuid_r(geteuid(), &entry, words, sizeof words, &found) != 0 || !found ||
        found->pw_dir[0] != '/')
        return false;
    return snprintf(path, CACHE_FOLDER_BYTES, "%s/%s", found->pw_dir, below) <
           (int)CACHE_FOLDER_BYTES;
}

/* Creates missing directories of the path; errno tells why it failed. */
static bool make(char path[CACHE_FOLDER_BYTES])
{
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        bool there = mkdir(path, 0700) == 0 || errno == EEXIST;
        if (slash)
            *slash = '/';
        if (!there || !slash)
            return there;
    }
}

static bool is_own(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    errno = EPERM;
    return S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

void cache_folder_find(const char *wanted, char path[CACHE_FOLDER_BYTES])
{
    path[0] = '\0';
    if (wanted && strcmp(wanted, "none") == 0)
        return;
    errno = ENAMETOOLONG;
    bool found = wanted ? wanted[0] != '\0' && snprintf(path, CACHE_FOLDER_BYTES, "%s", wanted) <
                                                   (int)CACHE_FOLDER_BYTES
                        : cache_folder_in_home(".cache/shoal", path);
    if (found && make(path) && is_own(path)) {
        log_info("compiled shaders are kept in %s", path);
        return;
    }
    log_warn("compiled shaders are not kept: %.200s: %s", path[0] ? path : "no home folder",
             strerror(errno));
    path[0] = '\0';
}
