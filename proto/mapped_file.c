/*
 * Opens, checks and maps a file of a checkpoint.
 *
 * The descriptor is checked after it was opened, so the checked file is the mapped one. Opening
 * does not block: a named pipe of that name would otherwise wait for a writer. Only regular files
 * are mapped. Nothing guards against another program that changes the file under the mapping.
 */
#include "proto/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/opened_files.h"

static int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* `changed_ns` stands for the inode's own time if it has no name any more. */
static enum result map(int fd, int64_t changed_ns, struct mapped_file *file,
                       struct error_text *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return error_set(error, RESULT_IO, "%s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error_set(error, RESULT_INVALID, "not a regular file");
    if (status.st_size <= 0)
        return error_set(error, RESULT_INVALID, "the file is empty");
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return error_set(error, RESULT_IO, "mmap: %s", strerror(errno));
    *file = (struct mapped_file){
        .bytes = bytes,
        .byte_count = (size_t)status.st_size,
        .modified_ns = nanoseconds(status.st_mtim),
        .changed_ns = status.st_nlink > 0 ? nanoseconds(status.st_ctim) : changed_ns,
        .device = (uint64_t)status.st_dev,
        .inode = (uint64_t)status.st_ino,
    };
    return RESULT_OK;
}

enum result mapped_file_open(int folder_fd, const char *name, struct mapped_file *file,
                             struct error_text *error)
{
    *file = (struct mapped_file){0};
    int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(error, errno == ENOENT ? RESULT_NOT_FOUND : RESULT_IO, "%s",
                         strerror(errno));
    enum result result = map(fd, 0, file, error);
    close(fd);
    return result;
}

enum result mapped_file_open_of(const struct opened_files *opened, int folder_fd, const char *name,
                                struct mapped_file *file, struct error_text *error)
{
    if (!opened)
        return mapped_file_open(folder_fd, name, file, error);
    *file = (struct mapped_file){0};
    const struct opened_file *found = opened_files_find(opened, name);
    if (!found)
        return error_set(error, RESULT_NOT_FOUND, "the server did not open it");
    return map(found->fd, found->changed_ns, file, error);
}

void mapped_file_close(struct mapped_file *file)
{
    if (file->bytes)
        munmap((void *)file->bytes, file->byte_count);
    *file = (struct mapped_file){0};
}
