/*
 * What a sentence-transformers folder says about its vectors beside their pooling: whether they have
 * length 1, their Dense modules, and the texts that are put before queries and documents
 * (config_sentence_transformers.json).
 */
#ifndef SHOAL_FRONTEND_ASSETS_POOLING_ASSETS_H
#define SHOAL_FRONTEND_ASSETS_POOLING_ASSETS_H

#include <stdbool.h>

#include "proto/result.h"

struct dense_layers;
struct pooling_assets;

/* A folder or a GGUF file; without modules.json vectors have length 1, and there are no texts. */
enum result pooling_assets_open(const char *path, struct pooling_assets **assets,
                                struct error_text *error) RESULT_CHECKED;
void pooling_assets_close(struct pooling_assets *assets); /* NULL is allowed */

bool pooling_assets_normalizes(const struct pooling_assets *assets);
/* What a text's pooled vector goes through; NULL: nothing. */
const struct dense_layers *pooling_assets_dense(const struct pooling_assets *assets);
/* The text of that name; NULL: there is none. `name` NULL: the default text, "" if there is none. */
const char *pooling_assets_prompt(const struct pooling_assets *assets, const char *name);
/* The names, separated by ", "; "" for none. */
const char *pooling_assets_prompt_names(const struct pooling_assets *assets);

#endif
