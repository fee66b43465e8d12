/*
 * A whole file, mapped read-only, and what tells it from another file.
 *
 * The mapping is private to reading: pages come from the file when they are touched. A file that
 * another program truncates while it is mapped ends this process with SIGBUS.
 */
#ifndef SHOAL_PROTO_MAPPED_FILE_H
#define SHOAL_PROTO_MAPPED_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

struct mapped_file {
    const void *bytes; /* page-aligned; NULL when closed */
    size_t byte_count;
    int64_t modified_ns; /* since the epoch */
    int64_t changed_ns;  /* the same of the inode: no program can set it back */
    uint64_t device;
    uint64_t inode;
};

/*
 * `name` relative to the folder `folder_fd` (AT_FDCWD: the working one); links are followed.
 * RESULT_NOT_FOUND, RESULT_IO (errno's words), RESULT_INVALID for what is no regular file or is
 * empty. The words do not name the file.
 */
enum result mapped_file_open(int folder_fd, const char *name, struct mapped_file *file,
                             struct error_text *error) RESULT_CHECKED;
/* Twice is fine. */
void mapped_file_close(struct mapped_file *file);

#endif
