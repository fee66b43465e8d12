/*
 * Models in Hugging Face's cache on this machine, and where this user's cache and hub are.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_HUB_CACHE_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_HUB_CACHE_H

#include <stdbool.h>

#include "proto/result.h"

#define HUB_CACHE_PATH_BYTES 1536u

/* Writes the cache directory, existing or not: `option` if it is given, otherwise HF_HUB_CACHE, or
 * hub in HF_HOME, huggingface/hub in XDG_CACHE_HOME, .cache/huggingface/hub in the home directory.
 * False: there is none, or the path is too long. */
bool hub_cache_folder(const char *option, char path[HUB_CACHE_PATH_BYTES]);

struct hub_name;

/* Writes the path of a model's checkpoint in the cache: a GGUF file, or a folder. `projector` (may be
 * NULL) gets the path of a GGUF model's mmproj file, or "". `cache` is as `option` above.
 * RESULT_NOT_FOUND and others: the cache lacks it or a part of it. */
enum result hub_cache_locate(const char *cache, const struct hub_name *name,
                             char path[HUB_CACHE_PATH_BYTES], char projector[HUB_CACHE_PATH_BYTES],
                             struct error_text *error) RESULT_CHECKED;

/* The same if `model` is the name of a model on the hub (hub_name.h) and no file of that name exists,
 * otherwise both are "". RESULT_INVALID, with the command that downloads it, if the cache lacks it. */
enum result hub_cache_find(const char *cache, const char *model, char path[HUB_CACHE_PATH_BYTES],
                           char projector[HUB_CACHE_PATH_BYTES],
                           struct error_text *error) RESULT_CHECKED;

#endif
