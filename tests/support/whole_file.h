/*
 * Files of golden data.
 */
#ifndef SHOAL_TESTS_SUPPORT_WHOLE_FILE_H
#define SHOAL_TESTS_SUPPORT_WHOLE_FILE_H

#include <stddef.h>

/* All bytes of the file and a zero after them, to be freed. Fails the test if it is missing. */
void *whole_file_read(const char *path, size_t *bytes);

#endif
