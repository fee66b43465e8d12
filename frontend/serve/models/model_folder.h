/*
 * The models in a folder (--models-dir): what the server can load, before anything is loaded.
 *
 * A model is
 *   NAME.gguf            of a split file (NAME-00001-of-00003.gguf) the first part, named NAME;
 *                        projector files (mmproj in the name) belong to the models beside them
 *   NAME/config.json     a Hugging Face folder
 *   NAME/ with *.gguf    a folder of its own for one model in this form, and its projector
 *   models--ORG--NAME/   a repository of Hugging Face's cache (model_repository.h)
 *
 * Settings of single models are in the file shoal.ini of the folder, if there is one:
 *
 *   [NAME]
 *   context = 8192       any option of `shoal serve` that concerns a model, without "--"
 *   preload = true       loaded at start
 *   pinned = true        not unloaded to make room
 *
 * '#' and ';' begin a comment line. Flags take true or false. A section whose model is not there is
 * an error, like an unknown option.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_FOLDER_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_FOLDER_H

#include "frontend/serve/models/model_place.h"
#include "proto/limits.h"
#include "proto/result.h"

struct model_folder {
    struct model_place *models; /* sorted by name */
    uint32_t count;
};

/* A folder may have no model. RESULT_INVALID: shoal.ini is wrong; RESULT_TOO_LARGE: more than LIMIT_MODELS;
 * RESULT_IO. On RESULT_OK call model_folder_fini(). */
enum result model_folder_read(const char *path, struct model_folder *folder,
                              struct error_text *error) RESULT_CHECKED;
void model_folder_fini(struct model_folder *folder);

#endif
