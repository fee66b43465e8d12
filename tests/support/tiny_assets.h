/*
 * What a model is to the frontend, small enough to reason about: the tiny tokenizer, a context of
 * 128 tokens, a template where one is given, and nothing that the checkpoint says of sampling.
 */
#ifndef SHOAL_TESTS_SUPPORT_TINY_ASSETS_H
#define SHOAL_TESTS_SUPPORT_TINY_ASSETS_H

#include "frontend/assets/model_assets.h"
#include "tests/support/tiny_tokenizer.h"

/* `source`: a chat template's, or NULL. A test changes afterwards what it wants otherwise. */
void tiny_assets_open(struct model_assets *assets, const char *source);
void tiny_assets_close(struct model_assets *assets);

#endif
