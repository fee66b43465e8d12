/*
 * Reads files below one directory.
 *
 * A path that is checked and then opened can change in between. So it is walked: each part is
 * opened beneath the one before, never through a link, even one that stays inside the directory,
 * and the opened file itself is checked and read. This needs no system call newer than openat().
 */
#include "frontend/image/media_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum result refuse(struct error_text *error)
{
    return error_set(error, RESULT_NOT_FOUND,
                     "there is no such file in the folder of --allow-media-path");
}

/* The part of the path after the folder, without leading slashes, or NULL. */
static const char *path_below(const char *folder, const char *path)
{
    size_t bytes = strlen(folder);
    while (bytes > 0 && folder[bytes - 1] == '/')
        bytes--;
    if (strncmp(path, folder, bytes) != 0 || path[bytes] != '/')
        return NULL;
    path += bytes;
    return path + strspn(path, "/");
}

/* Opens `path` beneath `at`, and closes `at`. -1 if it does not exist. */
static int walk(int at, const char *path)
{
    while (at >= 0) {
        char part[256];
        size_t bytes = strcspn(path, "/");
        const char *next = path + bytes + strspn(path + bytes, "/");
        bool last = *next == '\0';
        int opened = -1;
        if (bytes > 0 && bytes < sizeof part && path[bytes] == (last ? '\0' : '/')) {
            memcpy(part, path, bytes);
            part[bytes] = '\0';
            if (strcmp(part, "..") != 0)
                opened =
                    openat(at, part,
                           O_NOFOLLOW | O_CLOEXEC |
                               (last ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_PATH | O_DIRECTORY));
        }
        close(at);
        if (last)
            return opened;
        at = opened;
        path = next;
    }
    return -1;
}

static enum result read_whole(int fd, struct file_bytes *file, struct error_text *error)
{
    size_t done = 0;
    while (done < file->count) {
        ssize_t got = read(fd, file->bytes + done, file->count - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_set(error, RESULT_IO, "the file cannot be read whole");
        done += (size_t)got;
    }
    return RESULT_OK;
}

static enum result fd_read(int fd, size_t most_bytes, struct file_bytes *file,
                           struct error_text *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
        return error_set(error, RESULT_INVALID, "it is no regular file with something in it");
    if ((uint64_t)status.st_size > most_bytes)
        return error_set(error, RESULT_TOO_LARGE, "it has more than the %zu bytes that are taken",
                         most_bytes);
    struct file_bytes made = {.bytes = malloc((size_t)status.st_size),
                              .count = (size_t)status.st_size};
    if (!made.bytes)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    enum result result = read_whole(fd, &made, error);
    if (result == RESULT_OK)
        *file = made;
    else
        file_bytes_fini(&made);
    return result;
}

enum result media_folder_read(const char *folder, const char *path, size_t most_bytes,
                              struct file_bytes *file, struct error_text *error)
{
    *file = (struct file_bytes){0};
    const char *below = path_below(folder, path);
    if (!below)
        return refuse(error);
    int fd = walk(open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC), below);
    if (fd < 0)
        return refuse(error);
    enum result result = fd_read(fd, most_bytes, file, error);
    close(fd);
    return result;
}

enum result media_folder_read_own(const char *path, size_t most_bytes, struct file_bytes *file,
                                  struct error_text *error)
{
    *file = (struct file_bytes){0};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, RESULT_NOT_FOUND, "%.150s: %s", path, strerror(errno));
    struct error_text why;
    enum result result = fd_read(fd, most_bytes, file, &why);
    close(fd);
    return result == RESULT_OK ? RESULT_OK
                               : error_set(error, result, "%.100s: %.140s", path, why.text);
}
