/*
 * Tiny model assets for tests of the frontend: the tiny tokenizer, a context of 128 tokens, an
 * optional template, and no sampling defaults.
 */
#ifndef SHOAL_TESTS_SUPPORT_TINY_ASSETS_H
#define SHOAL_TESTS_SUPPORT_TINY_ASSETS_H

#include "frontend/assets/model_assets.h"
#include "tests/support/tiny_tokenizer.h"

/* `source`: a chat template, or NULL. A test may change the result afterwards. */
void tiny_assets_open(struct model_assets *assets, const char *source);
void tiny_assets_close(struct model_assets *assets);

#endif
