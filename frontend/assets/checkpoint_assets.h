/*
 * The parts of a checkpoint that the frontend reads, from either file format: gguf_assets.h,
 * folder_assets.h.
 */
#ifndef SHOAL_FRONTEND_ASSETS_CHECKPOINT_ASSETS_H
#define SHOAL_FRONTEND_ASSETS_CHECKPOINT_ASSETS_H

#include <stdint.h>

#include "frontend/prompt/chat_template.h"
#include "frontend/prompt/tokenizer/tokenizer.h"

/* Default sampling fields of a checkpoint; NAN / UINT32_MAX where it has none. */
struct checkpoint_sampling {
    float temperature;
    float top_p;
    float min_p;
    float repetition_penalty;
    uint32_t top_k;
};

struct checkpoint_assets {
    struct tokenizer *tokenizer;         /* owned; with its bos, eos and end tokens */
    struct chat_template *chat_template; /* owned; NULL: none, or not asked for */
    struct checkpoint_sampling sampling;
    uint32_t context_tokens; /* as trained */
    char family[64];         /* general.architecture, or model_type; "": not known */
    bool classifies;         /* an encoder that gives scores: hf_config_classifies() */
    int64_t created_unix_s;  /* mtime of the file, or of the directory's config.json */
};

#endif
