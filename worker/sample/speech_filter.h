/*
 * Applies the rules of speech (proto/speech_rules.h) to a row. Pure.
 */
#ifndef SHOAL_WORKER_SAMPLE_SPEECH_FILTER_H
#define SHOAL_WORKER_SAMPLE_SPEECH_FILTER_H

#include <stdint.h>

#include "proto/speech_rules.h"

/* row: [vocab_tokens] logits after all other changes; those that are not allowed become -INFINITY.
 * generated: [count] tokens of the answer so far. */
void speech_filter_apply(const struct speech_rules *rules, const uint32_t *generated,
                         uint32_t count, float *row, uint32_t vocab_tokens);

#endif
