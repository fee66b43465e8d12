/*
 * The files of the prefix cache in --state-dir, one for each worker: prefix-cache-<index>. The frontend
 * opens and renames them; workers write and check the contents (worker/cache/prefix_file.h).
 *
 * A worker writes prefix-cache-<index>.<inode>.tmp when it has drained; the frontend renames it once the
 * worker has ended with success, so a file is the whole old one or the whole new one. What a crash of
 * the machine leaves of it is found by its hash.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_PREFIX_FILES_H
#define SHOAL_FRONTEND_SERVE_WORKER_PREFIX_FILES_H

#include <stdbool.h>
#include <stdint.h>

/* Where the files are. */
struct prefix_files {
    int directory;       /* the caller's; -1: no files */
    uint64_t most_bytes; /* of a file */
};

/* The saved file for reading, or -1 if there is none; the log says why one that exists is not used. */
int prefix_files_open_saved(const struct prefix_files *files, uint32_t index);
/* An empty unfinished file for writing; -1, with a line in the log, if it cannot be created. */
int prefix_files_begin(const struct prefix_files *files, uint32_t index);
/* Ends it and closes `fd`: puts it in place of the saved one if `complete` and not empty, otherwise
 * removes it. An fd of -1 is allowed. */
void prefix_files_end(const struct prefix_files *files, uint32_t index, int fd, bool complete);
/* Removes unfinished files that earlier processes left; the directory is this process's alone. */
void prefix_files_sweep(int directory);
/* Removes the saved files of all workers. */
void prefix_files_remove(const struct prefix_files *files);

#endif
