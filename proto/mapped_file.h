/*
 * A whole file, mapped read-only, and its identity (size, times, device, inode).
 *
 * Pages are read from the file when they are touched. If another program truncates the file while
 * it is mapped, this process ends with SIGBUS.
 */
#ifndef SHOAL_PROTO_MAPPED_FILE_H
#define SHOAL_PROTO_MAPPED_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

struct opened_files;

struct mapped_file {
    const void *bytes; /* page-aligned; NULL when closed */
    size_t byte_count;
    int64_t modified_ns; /* since the epoch */
    int64_t changed_ns;  /* the same of the inode: no program can set it back */
    uint64_t device;
    uint64_t inode;
};

/*
 * `name` is relative to the directory `folder_fd` (AT_FDCWD: the working directory); links are
 * followed. RESULT_NOT_FOUND, RESULT_IO (with errno's text), RESULT_INVALID if the file is empty or
 * not regular. The error text does not name the file.
 */
enum result mapped_file_open(int folder_fd, const char *name, struct mapped_file *file,
                             struct error_text *error) RESULT_CHECKED;
/* The same for a file of `opened`, by the last part of its name, and for no other; NULL: as
 * mapped_file_open(). The time of the inode's change is that of the file's opening if it was removed
 * since, so that it has the same identity with and without its name. */
enum result mapped_file_open_of(const struct opened_files *opened, int folder_fd, const char *name,
                                struct mapped_file *file, struct error_text *error) RESULT_CHECKED;
/* Calling it twice is safe. */
void mapped_file_close(struct mapped_file *file);

#endif
