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

/* Adds the vector to the sums, or takes the larger values of both. */
static enum result add(struct worker_engine *engine, struct sequence *sequence, const float *vector)
{
    bool largest = engine->parts.pooling == POOLING_MAX;
    uint32_t columns = engine->parts.vector_columns;
    bool first = sequence->pooled == NULL;
    if (first)
        sequence->pooled = calloc(columns, sizeof *sequence->pooled);
    if (!sequence->pooled)
        return RESULT_OUT_OF_MEMORY;
    for (uint32_t c = 0; c < columns; c++) {
        double value = (double)vector[c];
        if (!largest)
            sequence->pooled[c] += value;
        else if (first || value > sequence->pooled[c])
            sequence->pooled[c] = value;
    }
    return RESULT_OK;
}

static enum result tell_pooled(struct worker_engine *engine, struct sequence *sequence)
{
    uint32_t columns = engine->parts.vector_columns;
    double divisor =
        engine->parts.pooling == POOLING_MEAN ? (double)sequence->request.run.prompt_tokens : 1.0;
    float *pooled = malloc(columns * sizeof *pooled);
    if (!pooled)
        return RESULT_OUT_OF_MEMORY;
    for (uint32_t c = 0; c < columns; c++)
        pooled[c] = (float)(sequence->pooled[c] / divisor);
    tell(engine, sequence->request.id, pooled);
    free(pooled);
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
    case POOLING_MEAN:
    case POOLING_MAX: {
        enum result result = add(engine, sequence, vector);
        return result == RESULT_OK && last ? tell_pooled(engine, sequence) : result;
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
