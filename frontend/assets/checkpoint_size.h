/*
 * The size of a checkpoint on disk.
 */
#ifndef SHOAL_FRONTEND_ASSETS_CHECKPOINT_SIZE_H
#define SHOAL_FRONTEND_ASSETS_CHECKPOINT_SIZE_H

#include <stdint.h>

/* Bytes of the file, or of the files in the directory; 0 if it cannot be read. */
uint64_t checkpoint_size_read(const char *path);

#endif
