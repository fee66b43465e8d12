/*
 * What the readers of request bodies get besides the body.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_PARSE_CONTEXT_H
#define SHOAL_FRONTEND_API_GENERATION_PARSE_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "frontend/api/generation/cache_salt.h"
#include "frontend/assets/model_assets.h"
#include "frontend/base/client_key.h"
#include "frontend/grammar/grammar_cache.h"
#include "frontend/image/image_reader.h"

/* What a preparation thread may spend time on; each lane includes the one before it. */
enum preparation_lane {
    PREPARATION_TEXT,   /* parse, render, tokenize */
    PREPARATION_IMAGES, /* read and decode images as well */
    PREPARATION_NETWORK /* wait for other hosts as well */
};

struct field_watch; /* field_table.h */

/* Used on a preparation thread. */
struct parse_context {
    const struct model_assets *assets;
    uint64_t random_seed; /* for requests that name none */
    void *format_context; /* what the format's route was created with; locks itself */
    struct client_key client_key;
    const char *answer_id; /* of the answer to the body; NULL: there is none */
    bool resumes;          /* an answer that an earlier process began: its record exists */
    struct cache_salt cache_salt;
    struct field_watch *fields;        /* locks itself; NULL: unknown fields are ignored */
    struct grammar_cache *grammars;    /* locks itself; NULL: nothing is cached */
    const struct image_reader *reader; /* NULL only if the assets have no vision */
    /* NULL: this thread may do all of it. Otherwise its lane: a request that needs a later one ends
     * with RESULT_CANCELLED, and *lane is set to the lane that it needs. */
    enum preparation_lane *lane;
    /* NULL, or true once the client has left or the server stops: long work looks at it and ends.
     */
    const atomic_bool *cancelled;
};

#endif
