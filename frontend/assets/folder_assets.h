/*
 * The frontend's half of a Hugging Face directory: tokenizer.json, tokenizer_config.json, the chat
 * template, generation_config.json and the context length of config.json.
 */
#ifndef SHOAL_FRONTEND_ASSETS_FOLDER_ASSETS_H
#define SHOAL_FRONTEND_ASSETS_FOLDER_ASSETS_H

#include <stdbool.h>

#include "frontend/assets/checkpoint_assets.h"
#include "proto/result.h"

/*
 * Fills tokenizer (with its bos, eos and end tokens), chat_template (left NULL where
 * `with_template` is false or there is none), sampling, context_tokens (as trained) and
 * created_unix_s. The error names the file. On failure `assets` holds what was read so far.
 */
enum result folder_assets_read(int folder_fd, bool with_template, struct checkpoint_assets *assets,
                               struct error_text *error) RESULT_CHECKED;

#endif
