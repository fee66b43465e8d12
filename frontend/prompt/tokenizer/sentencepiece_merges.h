/*
 * Merges for a vocabulary that stores scores instead (SentencePiece BPE in GGUF files).
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_SENTENCEPIECE_MERGES_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_SENTENCEPIECE_MERGES_H

#include "frontend/prompt/tokenizer/bpe_merge_table.h"
#include "frontend/prompt/tokenizer/vocabulary.h"
#include "proto/result.h"

/*
 * Adds every split of every findable, ordinary token into two others, in Hugging Face's order: by
 * score, the highest first; for equal scores the longer left part, then the longer right part (in
 * characters), then the lower token id. scores[token_count] belongs to the vocabulary, which is
 * indexed. Scores are finite.
 */
enum result sentencepiece_merges_build(const struct vocabulary *vocabulary, const float scores[],
                                       struct bpe_merge_table *merges) RESULT_CHECKED;

#endif
