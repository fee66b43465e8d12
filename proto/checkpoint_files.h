/*
 * The files of a checkpoint with their identities, as a text with one line per file, sorted by name:
 * device, inode, size, modification time, name. The
 * frontend records it at start; a worker compares it with the files that it opened. Equal texts
 * mean that no file was overwritten or replaced in between.
 */
#ifndef SHOAL_PROTO_CHECKPOINT_FILES_H
#define SHOAL_PROTO_CHECKPOINT_FILES_H

#include <stdbool.h>

#include "proto/result.h"

struct stat;

#define CHECKPOINT_FILE_NAME_BYTES 256u
#define CHECKPOINT_LINE_BYTES      (CHECKPOINT_FILE_NAME_BYTES + 100u)

/* `path` is a folder or a GGUF file, of a split one the first; `mmproj` is a further file, or NULL.
 * *text is malloc'd, at most
 * LIMIT_CHECKPOINT_FILES_BYTES long. RESULT_IO: it cannot be read. RESULT_TOO_LARGE. */
enum result checkpoint_files_read(const char *path, const char *mmproj, char **text,
                                  struct error_text *error) RESULT_CHECKED;

/* Writes the line of a file, with the line feed. */
void checkpoint_files_write_line(const struct stat *status, const char *name,
                                 char line[CHECKPOINT_LINE_BYTES]);
/* Copies the name of the line that `line` begins with. */
void checkpoint_files_read_name(const char *line, char name[CHECKPOINT_FILE_NAME_BYTES]);

/* True if `now` differs from `recorded`; `name` is then the first file that was added, removed or
 * changed. */
bool checkpoint_files_differ(const char *recorded, const char *now,
                             char name[CHECKPOINT_FILE_NAME_BYTES]);
/* True if a file of `recorded` was written to, or its time was set: the same device and inode stand in
 * `now` with another size or time. False if files were only replaced, added or removed: who opened
 * the old ones still has them unchanged. */
bool checkpoint_files_overwritten(const char *recorded, const char *now);

#endif
