/*
 * Finds a repository's checkpoint in Hugging Face's cache on this machine.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_HUB_CACHE_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_HUB_CACHE_H

#include "proto/result.h"

#define HUB_CACHE_PATH_BYTES 1536u

/*
 * If `model` is the name of a repository ("org/name") and no file of that name exists, writes the
 * path of its checkpoint; otherwise "". `cache`: the cache directory as given by the user; NULL:
 * .cache/huggingface/hub in the home directory. RESULT_INVALID, with the command that downloads it,
 * if the cache lacks it.
 */
enum result hub_cache_find(const char *cache, const char *model, char path[HUB_CACHE_PATH_BYTES],
                           struct error_text *error) RESULT_CHECKED;

#endif
