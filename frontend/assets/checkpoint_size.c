/*
 * Only the directory itself is read, up to FILES_MAX entries.
 */
#include "frontend/assets/checkpoint_size.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 4096 /* of a directory that are counted */

uint64_t checkpoint_size_read(const char *path)
{
    struct stat file;
    uint64_t bytes = 0;
    if (stat(path, &file) != 0)
        return 0;
    if (!S_ISDIR(file.st_mode))
        return (uint64_t)file.st_size;
    DIR *folder = opendir(path);
    const struct dirent *entry;
    for (int i = 0; folder && i < FILES_MAX && (entry = readdir(folder)) != NULL; i++) {
        if (fstatat(dirfd(folder), entry->d_name, &file, 0) == 0 && S_ISREG(file.st_mode))
            bytes += (uint64_t)file.st_size;
    }
    if (folder)
        closedir(folder);
    return bytes;
}
