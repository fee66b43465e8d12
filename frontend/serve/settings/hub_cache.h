/*
 * Hugging Face's cache on this machine: a repository's name to the folder in which its tool left
 * the checkpoint.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_HUB_CACHE_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_HUB_CACHE_H

#include "proto/result.h"

#define HUB_CACHE_PATH_BYTES 1536u

/*
 * When `model` is a repository's name ("org/name") and no file of that name is here, writes the
 * path of its checkpoint; else "". `cache`: the cache's folder as given by a person; NULL:
 * .cache/huggingface/hub in the home of the user whose process this is. RESULT_INVALID when the
 * cache lacks it, with the command that brings it.
 */
enum result hub_cache_find(const char *cache, const char *model, char path[HUB_CACHE_PATH_BYTES],
                           struct error_text *error) RESULT_CHECKED;

#endif
