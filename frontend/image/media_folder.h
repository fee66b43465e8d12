/*
 * Files that a client names, below one directory only.
 */
#ifndef SHOAL_FRONTEND_IMAGE_MEDIA_FOLDER_H
#define SHOAL_FRONTEND_IMAGE_MEDIA_FOLDER_H

#include "frontend/image/data_uri.h"

/* `path` is absolute and begins with `folder`. Below that no part of it may be ".." or a symbolic
 * link, and it must be a regular file of at most `most_bytes`. RESULT_NOT_FOUND also for any path
 * outside, so that clients cannot probe for files. */
enum result media_folder_read(const char *folder, const char *path, size_t most_bytes,
                              struct file_bytes *file, struct error_text *error) RESULT_CHECKED;
/* A file that the user of the command line names; the error text names it. */
enum result media_folder_read_own(const char *path, size_t most_bytes, struct file_bytes *file,
                                  struct error_text *error) RESULT_CHECKED;

#endif
