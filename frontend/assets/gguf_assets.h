/*
 * The frontend's half of a GGUF file: tokenizer, chat template, sampling defaults and context.
 */
#ifndef SHOAL_FRONTEND_ASSETS_GGUF_ASSETS_H
#define SHOAL_FRONTEND_ASSETS_GGUF_ASSETS_H

#include <stdbool.h>

#include "frontend/assets/checkpoint_assets.h"
#include "proto/result.h"

/* Fills `assets`; chat_template stays NULL where `with_template` is false or there is none. On
 * failure `assets` holds what was read so far. */
enum result gguf_assets_read(const char *path, bool with_template, struct checkpoint_assets *assets,
                             struct error_text *error) RESULT_CHECKED;

#endif
