/*
 * Completes the options of one model from its files (contract in model_files.h).
 */
#include "frontend/serve/settings/model_files.h"

#include <string.h>

#include "frontend/serve/settings/document_find.h"
#include "frontend/serve/settings/pooling_find.h"

static enum result path_find(struct model_files *files, struct options *options,
                             struct error_text *error)
{
    enum result result =
        hub_cache_find(options->hf_cache, options->model, files->path, files->mmproj, error);
    if (result != RESULT_OK || !files->path[0])
        return result;
    if (options->served_model_names.count == 0)
        options->served_model_names = (struct option_texts){.items = {options->model}, .count = 1};
    options->model = files->path;
    return RESULT_OK;
}

static enum result draft_find(struct model_files *files, struct options *options,
                              struct error_text *error)
{
    if (!options->draft_model)
        return RESULT_OK;
    enum result result =
        hub_cache_find(options->hf_cache, options->draft_model, files->draft_path, NULL, error);
    if (result == RESULT_OK && files->draft_path[0])
        options->draft_model = files->draft_path;
    return result;
}

/* "none" is no projector. */
static void tower_find(struct model_files *files, struct options *options)
{
    if (options->mmproj && strcmp(options->mmproj, "none") == 0) {
        options->mmproj = NULL;
    } else if (!options->mmproj &&
               (files->mmproj[0] || mmproj_find(options->model, files->mmproj))) {
        options->mmproj = files->mmproj;
        options->mmproj_found = true;
    }
}

enum result model_files_find(enum options_command command, struct model_files *files,
                             struct options *options, struct error_text *error)
{
    if (options->help)
        return RESULT_OK;
    /* Only servers read documents and give embeddings; the other commands generate text. */
    bool serves = command == OPTIONS_SERVE;
    enum result result = serves ? document_find(options->documents_text, options->poppler_path,
                                                &options->documents, error)
                                : RESULT_OK;
    if (result != RESULT_OK || !options->model)
        return result;
    result = path_find(files, options, error);
    if (result == RESULT_OK)
        result = draft_find(files, options, error);
    const char *pooling = options->reranking ? "auto" : options->pooling_text;
    if (result == RESULT_OK && serves)
        result =
            pooling_find(pooling, options->model, options->reranking, &options->pooling, error);
    if (result == RESULT_OK)
        tower_find(files, options);
    return result;
}
