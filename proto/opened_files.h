/*
 * The files of a checkpoint, held open. The frontend opens them once and each worker inherits the
 * descriptors, so a worker that is started again reads the files that the server was started with,
 * although their names may belong to others by then or to none. A file that was written to in place
 * is not protected by this: opened_files_differ() finds it.
 */
#ifndef SHOAL_PROTO_OPENED_FILES_H
#define SHOAL_PROTO_OPENED_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/checkpoint_files.h"

struct opened_file {
    int fd;
    int64_t changed_ns; /* of the inode, when it was opened; its removal changes that */
    char name[CHECKPOINT_FILE_NAME_BYTES];
};

struct opened_files {
    struct opened_file *list; /* NULL: none are held */
    size_t count;
    char *text; /* descriptors and times in the order of the record; for a worker's flag */
};

/* Opens the files of `recorded`, which checkpoint_files_read() made of the same `path` and `mmproj`.
 * RESULT_IO: one cannot be opened, or is another one by now; RESULT_TOO_LARGE: they are more than
 * LIMIT_OPENED_FILES or a sixteenth of the process's descriptors; RESULT_UNSUPPORTED: two have one name.
 * None is open then. */
enum result opened_files_open(const char *path, const char *mmproj, const char *recorded,
                              struct opened_files *files, struct error_text *error) RESULT_CHECKED;
/* Takes over the inherited descriptors of `text`, one for each line of `recorded`. RESULT_INVALID:
 * not such a text, or not as many. */
enum result opened_files_parse(const char *text, const char *recorded, struct opened_files *files,
                               struct error_text *error) RESULT_CHECKED;
/* Closes the descriptors. Calling it twice is safe. */
void opened_files_close(struct opened_files *files);

/* The file of this name or path, whose last part counts; NULL: there is none. */
const struct opened_file *opened_files_find(const struct opened_files *files, const char *name);
/* True if one was written to, or its time was set, since it was recorded; `name` is then the first. */
bool opened_files_differ(const struct opened_files *files, const char *recorded,
                         char name[CHECKPOINT_FILE_NAME_BYTES]);

#endif
