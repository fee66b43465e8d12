/*
 * Options that follow from files: the model's path in Hugging Face's cache, its projector, how it
 * pools, the programs that read documents.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_MODEL_FILES_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_MODEL_FILES_H

#include "frontend/serve/settings/hub_cache.h"
#include "frontend/serve/settings/mmproj_find.h"
#include "frontend/serve/settings/options.h"

/* The options point into it. */
struct model_files {
    char path[HUB_CACHE_PATH_BYTES];
    char draft_path[HUB_CACHE_PATH_BYTES];
    char mmproj[MMPROJ_PATH_BYTES];
};

/* Replaces the names of repositories by the paths of their checkpoints, served under that name, and
 * completes mmproj, pooling and documents. With --models-dir only the last; nothing with --help. */
enum result model_files_find(enum options_command command, struct model_files *files,
                             struct options *options, struct error_text *error) RESULT_CHECKED;

#endif
