/*
 * Encodes one piece of text: first symbols (bytes or characters), then merges.
 *
 * Reference: Hugging Face `tokenizers`, models::bpe. `by_bytes` vocabularies start from bytes
 * (spelled in the file in the alphabet of bpe_byte_map.h); others start from characters, with byte
 * fallback for characters that are no token.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_BPE_MODEL_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_BPE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/prompt/tokenizer/bpe_merge_table.h"
#include "frontend/prompt/tokenizer/bpe_merger.h"
#include "frontend/prompt/tokenizer/token_list.h"
#include "frontend/prompt/tokenizer/vocabulary.h"
#include "proto/result.h"

struct bpe_model {
    struct bpe_merge_table merges;
    bool by_bytes;
    bool ignore_merges; /* a piece that equals a token becomes that token (Llama 3) */
    bool byte_fallback;
    bool fuse_unknown; /* adjacent unknown characters give one unknown token */
    bool covers_all; /* derived: no text gives fewer tokens than its length over the longest token's
                      */
    int32_t unknown_id;     /* -1: unknown characters are dropped */
    int32_t byte_ids[256];  /* by_bytes: the byte's token; else its <0xNN> token; -1 for none */
    int32_t ascii_ids[128]; /* the character's token, characters only; -1 for none */
    uint64_t
        *seams; /* bitmap: can these two first symbols be adjacent inside a token? NULL: unknown */
};

void bpe_model_init(struct bpe_model *model);
void bpe_model_fini(struct bpe_model *model);

/* Fills the derived tables; call when merges, flags and the indexed vocabulary are complete. */
enum result bpe_model_prepare(struct bpe_model *model,
                              const struct vocabulary *vocabulary) RESULT_CHECKED;

/* Working memory of one thread; zero-initialized. */
struct bpe_scratch {
    uint32_t *ids;
    size_t capacity;
    struct bpe_merger merger;
};
void bpe_scratch_fini(struct bpe_scratch *scratch);

/* Appends the tokens of a piece of valid UTF-8. No special token results except the unknown
 * token. */
enum result bpe_model_encode(const struct bpe_model *model, const struct vocabulary *vocabulary,
                             struct bpe_scratch *scratch, const char *text, size_t text_bytes,
                             size_t max_tokens, struct token_list *out) RESULT_CHECKED;

#endif
