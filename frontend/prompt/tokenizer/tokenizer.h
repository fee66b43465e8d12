/*
 * Text to token ids and token ids to bytes, for the vocabulary of one checkpoint.
 *
 * Three algorithms with one interface: WordPiece (BERT: words, cut into the longest pieces), byte-level BPE (GPT-2, Llama 3, Qwen 2/3, SmolLM: a PCRE2
 * pattern splits the text, bytes are merged by rank inside each piece) and SentencePiece-style BPE
 * with byte fallback (Gemma, Llama 2: no splitting, merges by score over the whole text). Both are
 * O(n log n) on any input.
 *
 * An open tokenizer is immutable: any number of threads may use it. Reference: Hugging Face
 * `tokenizers` (token for token); tests/unit/frontend/prompt and tests/unit/golden.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/prompt/tokenizer/prompt_span.h"
#include "frontend/prompt/tokenizer/token_list.h"
#include "proto/result.h"

struct gguf_file;
struct tokenizer;

/* Opens the tokenizer described by GGUF metadata (`tokenizer.ggml.*`). The file may be closed
 * afterwards. */
enum result tokenizer_open_gguf(const struct gguf_file *gguf, struct tokenizer **tokenizer,
                                struct error_text *error) RESULT_CHECKED;

/* Opens a Hugging Face `tokenizer.json` held in memory (`json_bytes` long; need not be
 * NUL-terminated). */
enum result tokenizer_open_json(const char *json, size_t json_bytes, struct tokenizer **tokenizer,
                                struct error_text *error) RESULT_CHECKED;

/* Opens a SentencePiece `tokenizer.model` (BPE only) held in memory. */
enum result tokenizer_open_model(const void *bytes, size_t byte_count, struct tokenizer **tokenizer,
                                 struct error_text *error) RESULT_CHECKED;

/*
 * Settings from files next to a tokenizer.json, set after opening and before the tokenizer is
 * shared: the bos and eos tokens, whether bos is prepended, and ids that end a turn (duplicates,
 * ids outside the vocabulary and those beyond LIMIT_STOP_TOKENS are ignored).
 */
void tokenizer_set_bos(struct tokenizer *tokenizer, int32_t id);
void tokenizer_set_eos(struct tokenizer *tokenizer, int32_t id);
void tokenizer_set_adds_bos(struct tokenizer *tokenizer, bool adds);
void tokenizer_add_end_token(struct tokenizer *tokenizer, int32_t id);

void tokenizer_close(struct tokenizer *tokenizer);

uint32_t tokenizer_vocab_tokens(const struct tokenizer *tokenizer);

/* Ids that end a turn according to the checkpoint; at most LIMIT_STOP_TOKENS. Returns the count. */
uint32_t tokenizer_end_tokens(const struct tokenizer *tokenizer, uint32_t ids[]);

/* -1 if the checkpoint has none. */
int32_t tokenizer_bos_token(const struct tokenizer *tokenizer);
int32_t tokenizer_eos_token(const struct tokenizer *tokenizer);
/* True if a raw prompt (no chat template) begins with the bos token (add_bos_token). */
bool tokenizer_adds_bos(const struct tokenizer *tokenizer);

/* The token that ends a text whose vector is wanted (the template's last, add_eos_token), or -1. */
int32_t tokenizer_tail_token(const struct tokenizer *tokenizer);

/* The tokens between the texts of a pair (TemplateProcessing); returns their number, 0 if pairs are
 * not supported. *segments: the second text and its tail have type 1, all else has type 0. */
uint32_t tokenizer_pair_middle(const struct tokenizer *tokenizer,
                               uint32_t ids[PAIR_MIDDLE_TOKENS_MAX], bool *segments);

/* The token whose content is exactly `text` (special tokens included), or -1. */
int32_t tokenizer_find_token(const struct tokenizer *tokenizer, const char *text,
                             size_t text_bytes);

/* The longest special token with which the text begins: its bytes and its id; 0: none. */
size_t tokenizer_special_at(const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                            uint32_t *id);

/* True for control/special tokens: their text is never shown to a client. */
bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id);

/*
 * Appends the tokens of the spans to *out; adds neither bos nor eos. RESULT_TOO_LARGE if *out would
 * hold more than `max_tokens` in all (detected early: the work is proportional to max_tokens),
 * RESULT_OUT_OF_MEMORY, RESULT_UNSUPPORTED if a checkpoint's own pattern exceeds its bound on steps
 * on this text, RESULT_CANCELLED once *cancelled is true (may be NULL). *out is then as before.
 */
enum result tokenizer_encode(const struct tokenizer *tokenizer, const struct prompt_span spans[],
                             size_t span_count, size_t max_tokens, const atomic_bool *cancelled,
                             struct token_list *out) RESULT_CHECKED;

/*
 * The bytes of token `id`, not NUL-terminated, owned by the tokenizer; empty for ids outside the
 * vocabulary. Special tokens give their text (the caller decides whether to show it). Concatenating
 * the bytes of a token sequence gives its text, apart from the leading space that SentencePiece
 * prepends (see tokenizer_strips_space).
 */
void tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id, const char **bytes,
                           size_t *byte_count);

/* True if the first token's leading space is an artefact of the tokenizer (Llama 2), to be dropped
 * at a text's start. */
bool tokenizer_strips_space(const struct tokenizer *tokenizer);

#endif
