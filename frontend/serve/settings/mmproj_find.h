/*
 * Finds the projector file (mmproj) of a GGUF model: the vision tower, which is a file of its own.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_MMPROJ_FIND_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_MMPROJ_FIND_H

#include <stdbool.h>

#define MMPROJ_PATH_BYTES 1536u

/* Looks in the folder of `model` for GGUF files with "mmproj" in their name, as llama.cpp does, and
 * writes the path of the best one: by the type in its name F16, BF16, Q8_0, F32, others; then by
 * name. Returns false, with an empty path, if `model` is no file or there is none beside it. */
bool mmproj_find(const char *model, char path[MMPROJ_PATH_BYTES]);

#endif
