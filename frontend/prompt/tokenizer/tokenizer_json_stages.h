/*
 * The small members of tokenizer.json: normalizer, pre_tokenizer, decoder, post_processor.
 *
 * Each function takes the member's JSON text (possibly "null") and sets up that stage of the
 * tokenizer. RESULT_UNSUPPORTED names a type that Shoal does not support; RESULT_INVALID is for
 * malformed input.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_JSON_STAGES_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_JSON_STAGES_H

#include "frontend/prompt/tokenizer/tokenizer_builder.h"

struct json_slice {
    const char *bytes; /* NULL: the member is absent */
    size_t count;
};

enum result tokenizer_json_normalizer(struct json_slice json, struct tokenizer *tokenizer,
                                      struct error_text *error) RESULT_CHECKED;
/* Sets model.by_bytes if the sequence ends in ByteLevel. */
enum result tokenizer_json_pretokenizer(struct json_slice json, struct tokenizer *tokenizer,
                                        struct error_text *error) RESULT_CHECKED;
/* Sets shows_spaces and strips_space. */
enum result tokenizer_json_decoder(struct json_slice json, struct tokenizer *tokenizer,
                                   struct error_text *error) RESULT_CHECKED;
/* Sets bos_token and adds_bos from a template that begins with a special token. */
enum result tokenizer_json_post_processor(struct json_slice json, struct tokenizer *tokenizer,
                                          struct error_text *error) RESULT_CHECKED;

#endif
