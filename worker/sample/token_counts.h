/*
 * Which tokens a sequence has seen, for penalties: kept incrementally, one small hash map per
 * sequence that has a penalty on.
 */
#ifndef SHOAL_WORKER_SAMPLE_TOKEN_COUNTS_H
#define SHOAL_WORKER_SAMPLE_TOKEN_COUNTS_H

#include <stdint.h>

#include "proto/result.h"

struct token_counts;

struct token_count {
    uint32_t token;
    uint32_t prompt;    /* times seen in the prompt */
    uint32_t generated; /* times generated */
};

struct token_counts *token_counts_create(void);
void token_counts_destroy(struct token_counts *counts);
enum result token_counts_add_prompt(struct token_counts *counts, uint32_t token) RESULT_CHECKED;
enum result token_counts_add_generated(struct token_counts *counts, uint32_t token) RESULT_CHECKED;
/* Entries in no particular order: `index` from 0 to token_counts_size() - 1. */
uint32_t token_counts_size(const struct token_counts *counts);
struct token_count token_counts_at(const struct token_counts *counts, uint32_t index);

#endif
