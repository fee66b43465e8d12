/*
 * What the frontend itself needs of a checkpoint: tokenizer, chat template, names and defaults. No
 * weights. Immutable after opening; shared by the preparation threads.
 */
#ifndef SHOAL_FRONTEND_ASSETS_MODEL_ASSETS_H
#define SHOAL_FRONTEND_ASSETS_MODEL_ASSETS_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/assets/checkpoint_assets.h"
#include "frontend/image/media_policy.h"
#include "frontend/prompt/call_form.h"
#include "frontend/reply/reply_formats.h"
#include "proto/limits.h"
#include "proto/result.h"
#include "proto/sampling_params.h"

struct vision_assets;

struct model_assets {
    char path[4096];
    char model_id[256]; /* what the API calls the model: --served-model-name, the file's stem or the
                           folder's name */
    int64_t created_unix_s; /* mtime of the file, or of the folder's config.json */
    struct tokenizer *tokenizer;
    struct chat_template *chat_template; /* NULL: chat requests get a clear 400 */
    struct reply_formats formats;        /* how its answers are read */
    struct call_form call_form;          /* in which that template takes calls */
    char *bos_text;                      /* text of the bos / eos tokens, "" when there is none */
    char *eos_text;
    uint32_t max_kv_tokens;  /* of prompt and answer, or more is refused; 0: any that fit */
    uint32_t context_tokens; /* the checkpoint's trained context, or --context when smaller */
    uint32_t stop_ids[LIMIT_STOP_TOKENS];
    uint32_t stop_id_count;
    struct vision_assets *vision;        /* owned; NULL: the model takes no pictures */
    struct checkpoint_sampling sampling; /* general.sampling.* keys, generation_config.json */
};

struct model_assets_options {
    const char *path;        /* a GGUF file or a Hugging Face folder */
    const char *served_name; /* or NULL: the file's stem, the folder's name */
    const char
        *chat_template_path; /* a Jinja file instead of the checkpoint's own template, or NULL */
    struct reply_format_names format_names;
    uint32_t context_limit;    /* 0: the trained context */
    uint32_t max_kv_tokens;    /* 0: any number */
    struct media_policy media; /* what clients may name as a picture */
    uint64_t image_bytes;      /* that the pictures of all live requests may take */
};

enum result model_assets_open(const struct model_assets_options *options,
                              struct model_assets *assets, struct error_text *error) RESULT_CHECKED;
void model_assets_close(struct model_assets *assets);

#endif
