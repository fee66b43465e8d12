/*
 * The mean is summed in double precision in the order of the positions, so that it depends neither on
 * how the prompt was cut into chunks nor on what else was in the steps.
 */
#include "worker/schedule/vector_publisher.h"

#include <math.h>
#include <stdlib.h>

#include "proto/must.h"

static void tell(struct worker_engine *engine, struct request_id id, const float *vector)
{
    uint32_t columns = engine->parts.vector_columns;
    for (uint32_t told = 0; told < columns;) {
        struct token_event event = {.kind = TOKEN_EVENT_VECTOR, .request = id};
        while (event.value_count < TOKEN_EVENT_VALUES_MAX && told < columns)
            event.values[event.value_count++] = vector[told++];
        frontend_link_emit(engine->parts.link, &event);
    }
}

static enum result add(struct worker_engine *engine, struct sequence *sequence, const float *vector)
{
    uint32_t columns = engine->parts.vector_columns;
    if (!sequence->pooled)
        sequence->pooled = calloc(columns, sizeof *sequence->pooled);
    if (!sequence->pooled)
        return RESULT_OUT_OF_MEMORY;
    for (uint32_t c = 0; c < columns; c++)
        sequence->pooled[c] += (double)vector[c];
    return RESULT_OK;
}

static enum result tell_mean(struct worker_engine *engine, struct sequence *sequence)
{
    uint32_t columns = engine->parts.vector_columns;
    float *mean = malloc(columns * sizeof *mean);
    if (!mean)
        return RESULT_OUT_OF_MEMORY;
    for (uint32_t c = 0; c < columns; c++)
        mean[c] = (float)(sequence->pooled[c] / (double)sequence->request.run.prompt_tokens);
    tell(engine, sequence->request.id, mean);
    free(mean);
    return RESULT_OK;
}

enum result vector_publisher_take(struct worker_engine *engine, struct sequence *sequence,
                                  uint32_t position, const float *vector)
{
    bool last = position + 1 == sequence->request.run.prompt_tokens;
    for (uint32_t c = 0; c < engine->parts.vector_columns; c++)
        if (!isfinite(vector[c]))
            return RESULT_CORRUPT;
    switch (engine->parts.pooling) {
    case POOLING_MEAN: {
        enum result result = add(engine, sequence, vector);
        return result == RESULT_OK && last ? tell_mean(engine, sequence) : result;
    }
    case POOLING_LAST:
        if (last)
            tell(engine, sequence->request.id, vector);
        return RESULT_OK;
    case POOLING_CLS:
        if (position == 0)
            tell(engine, sequence->request.id, vector);
        return RESULT_OK;
    default:
        must(engine->parts.pooling == POOLING_TOKENS);
        tell(engine, sequence->request.id, vector);
        return RESULT_OK;
    }
}
