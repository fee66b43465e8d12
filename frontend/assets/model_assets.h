/*
 * What the frontend needs of a checkpoint: tokenizer, chat template, names and defaults, but no
 * weights. Immutable after opening; shared by the preparation threads.
 */
#ifndef SHOAL_FRONTEND_ASSETS_MODEL_ASSETS_H
#define SHOAL_FRONTEND_ASSETS_MODEL_ASSETS_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/assets/checkpoint_assets.h"
#include "frontend/document/document_reader.h"
#include "frontend/image/media_policy.h"
#include "frontend/prompt/call_form.h"
#include "frontend/reply/reply_formats.h"
#include "proto/keyed_hash.h"
#include "proto/limits.h"
#include "proto/pooling.h"
#include "proto/result.h"
#include "proto/sampling_params.h"

struct adapter_set;
struct pooling_assets;
struct speech_assets;
struct vision_assets;

struct model_assets {
    char path[4096];
    char model_id[256]; /* name in the API: the first --served-model-name, or the name of the file
                           or directory */
    const char *const
        *names; /* [name_count] in requests; they outlive the assets; none: model_id */
    uint32_t name_count;
    char fingerprint[24]; /* of this program's version and the checkpoint's files: "b" and hex */
    bool any_name;        /* every name is this model's */
    uint64_t file_bytes;  /* of the checkpoint */
    enum pooling pooling; /* not OFF: gives embeddings, and no text */
    struct pooling_assets *pools; /* owned; NULL if pooling is OFF */
    bool reranks;                 /* judges documents (--reranking, or named so) */
    bool classifies;              /* a cross-encoder: gives scores of pairs, no embeddings */
    int64_t created_unix_s;       /* mtime of the file, or of the directory's config.json */
    char family[64];              /* the checkpoint's name of its architecture; "": not known */
    struct tokenizer *tokenizer;
    struct chat_template *chat_template; /* NULL: chat requests get a clear 400 */
    struct reply_formats formats;        /* how its answers are parsed */
    struct call_form call_form;          /* form in which the template takes tool calls */
    char *bos_text;                      /* text of the bos / eos tokens, "" when there is none */
    char *eos_text;
    uint32_t max_kv_tokens;  /* maximum of prompt and answer; 0: no limit */
    uint32_t context_tokens; /* the checkpoint's trained context, or --context when smaller */
    uint32_t stop_ids[LIMIT_STOP_TOKENS];
    uint32_t stop_id_count;
    struct media_policy media; /* sources from which clients may name files */
    struct document_settings documents;
    struct vision_assets *vision;        /* owned; NULL: the model takes no images */
    struct speech_assets *speech;        /* owned; NULL: it transcribes no speech */
    struct adapter_set *adapters;        /* outlives the assets; NULL: none */
    struct checkpoint_sampling sampling; /* general.sampling.* keys, generation_config.json */
};

struct model_assets_options {
    const char *path;                /* a GGUF file or a Hugging Face directory */
    const char *mmproj;              /* projector file of a GGUF file, or NULL */
    const char *draft_path;          /* a draft model, which must have the same tokens; or NULL */
    const char *const *served_names; /* [served_name_count]; none: the name of the file or directory
                                      */
    uint32_t served_name_count;
    struct adapter_set *adapters; /* NULL: none */
    bool any_name;
    bool reranks;
    enum pooling pooling;
    const char
        *chat_template_path; /* a Jinja file instead of the checkpoint's own template, or NULL */
    struct reply_format_names format_names;
    uint32_t context_limit;    /* 0: the trained context */
    uint32_t max_kv_tokens;    /* 0: no limit */
    struct media_policy media; /* sources from which clients may name files */
    struct document_settings documents;
    uint64_t image_bytes;                   /* maximum for the images of all live requests */
    const struct keyed_hash_key *image_key; /* of hashes of images; NULL: a random one */
};

enum result model_assets_open(const struct model_assets_options *options,
                              struct model_assets *assets, struct error_text *error) RESULT_CHECKED;
void model_assets_close(struct model_assets *assets);
/* Whether `name` is the served name `own`; of org/name:QUANT, the quantization may be in another case. */
bool model_assets_names_match(const char *own, const char *name);
/* Whether the model itself has the name. */
bool model_assets_has_own_name(const struct model_assets *assets, const char *name);
/* True if a request may name the model, or one of its adapters, so. */
bool model_assets_has_name(const struct model_assets *assets, const char *name);

#endif
