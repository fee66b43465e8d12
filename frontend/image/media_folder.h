/*
 * Files that a client names: those below one folder, and none else.
 */
#ifndef SHOAL_FRONTEND_IMAGE_MEDIA_FOLDER_H
#define SHOAL_FRONTEND_IMAGE_MEDIA_FOLDER_H

#include "frontend/image/data_uri.h"

/* `path` is absolute and begins with `folder`. Below that no part of it may be ".." or a symbolic
 * link, and it must be a regular file of at most `most_bytes`. RESULT_NOT_FOUND also for what lies
 * outside: what is there is not told. */
enum result media_folder_read(const char *folder, const char *path, size_t most_bytes,
                              struct file_bytes *file, struct error_text *error) RESULT_CHECKED;
/* One file that the caller may read anyway; the error names it. */
enum result media_folder_read_own(const char *path, size_t most_bytes, struct file_bytes *file,
                                  struct error_text *error) RESULT_CHECKED;

#endif
