/*
 * Decides whether an answer ends because of its tokens. The worker calls it after each sampled
 * token; the frontend calls it for the last token in its journal if the worker died before it
 * reported the end. So a replay ends where the first run would have ended.
 *
 * Ends that depend on text (stop strings) are the frontend's alone and are not decided here.
 */
#ifndef SHOAL_PROTO_GENERATION_END_H
#define SHOAL_PROTO_GENERATION_END_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/token_event.h"

struct generation_end_rules {
    const uint32_t *stop_ids; /* [stop_id_count] */
    uint32_t stop_id_count;
    bool ignore_end;           /* stop ids do not end the answer (SUBMIT_FLAG_IGNORE_END) */
    uint32_t max_total_tokens; /* prompt and answer together */
};

/* `token` is the last of `total_tokens` tokens of prompt and answer. Returns FINISH_STOP_TOKEN,
 * FINISH_LENGTH, or FINISH_NONE if generation continues; a stop id takes precedence over the
 * length. A minimum length is no part of this: it removes stop ids from the draw (row_sampler.h),
 * and a stop id that was generated all the same ends the answer. */
enum finish_reason generation_end_find(const struct generation_end_rules *rules, uint32_t token,
                                       uint32_t total_tokens);

#endif
