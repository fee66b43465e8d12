/*
 * Whether a model is served for embeddings, and how it pools: --pooling, or what the checkpoint says.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_POOLING_FIND_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_POOLING_FIND_H

#include <stdbool.h>

#include "proto/pooling.h"
#include "proto/result.h"

/* `asked`: "auto" or a name of pooling_parse(). `model`: a GGUF file or a folder. With "auto" a folder
 * pools as its modules.json says, or without one as an encoder does by default, and a file as its key
 * pooling_type says; with `reranks` only a cross-encoder pools. Others do not, nor do those that cannot
 * be read, which fail later with more words. RESULT_INVALID: another text; RESULT_UNSUPPORTED: the
 * checkpoint asks for a pooling that is not served. */
enum result pooling_find(const char *asked, const char *model, bool reranks, enum pooling *pooling,
                         struct error_text *error) RESULT_CHECKED;

#endif
