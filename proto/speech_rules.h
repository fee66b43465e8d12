/*
 * Which tokens a model of speech (whisper) may draw, beside logit_bias. They are part of struct run_params.
 *
 * The vocabulary is text, then tokens with a meaning of their own, of which `end` is the first one and the last one
 * <|notimestamps|>, then timestamps. With T the id of the first timestamp and g the tokens generated so far:
 *
 *   first       g is empty: tokens of [first_from, first_to) alone, if that is not empty, and not `blank`
 *   timestamps  T > 0: not <|notimestamps|> (T - 1). The last token of g is a timestamp: no timestamp if the one before
 *               it is too or is missing, else no text. Timestamps do not decrease, and after a pair of them they grow
 *   likely      T > 0: if the timestamps that are left are together more likely than every other token, one of them
 *
 * Log-probabilities of such a request are those of the row after these rules and logit_bias.
 *
 * Source: transformers, WhisperTimeStampLogitsProcessor; openai-whisper, ApplyTimestampRules.
 *
 * Byte map of struct speech_rules, 20 bytes. Written by the frontend.
 *
 *   offset  size  field       rule (S26)
 *   0       4     timestamps  <= LIMIT_VOCAB_TOKENS; T, or 0: no rules of timestamps
 *   4       4     end         <= timestamps
 *   8       4     first_from  <= first_to
 *   12      4     first_to    <= LIMIT_VOCAB_TOKENS
 *   16      4     blank       <= LIMIT_VOCAB_TOKENS; 1 + the id; 0: none
 *
 * Ids at or beyond the model's vocabulary have no effect.
 */
#ifndef SHOAL_PROTO_SPEECH_RULES_H
#define SHOAL_PROTO_SPEECH_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"

struct speech_rules {
    uint32_t timestamps;
    uint32_t end;
    uint32_t first_from;
    uint32_t first_to;
    uint32_t blank;
};
_Static_assert(sizeof(struct speech_rules) == 20, "crosses shared memory: layout is fixed");

/* Whether there are any. */
bool speech_rules_exist(const struct speech_rules *rules);
/* RESULT_CORRUPT, and the error text begins with the rule's name. */
enum result speech_rules_check(const struct speech_rules *rules,
                               struct error_text *error) RESULT_CHECKED;

#endif
