/*
 * What the readers of request bodies get besides the body.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_PARSE_CONTEXT_H
#define SHOAL_FRONTEND_API_GENERATION_PARSE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/assets/model_assets.h"
#include "frontend/base/client_key.h"

/* Used on a preparation thread. */
struct parse_context {
    const struct model_assets *assets;
    uint64_t random_seed; /* for requests that name none */
    void *format_context; /* what the format's route was created with; locks itself */
    struct client_key client_key;
    /* NULL: this thread may wait for the network. Otherwise it may not: a step that would have to
     * wait ends with RESULT_CANCELLED and sets this to true. */
    bool *needs_network;
};

#endif
