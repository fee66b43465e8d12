/*
 * Commands take effect before the next step is planned: a cancelled sequence gives its blocks back
 * at once. If a step under way has a row of it, that row's results have no owner and are dropped.
 *
 * A request that can never run is refused here with its reason. The number of records per turn is
 * bounded, so that a flood of them cannot stop the running streams. Records are already checked by
 * frontend_link.c.
 */
#include "worker/schedule/submit_intake.h"

#include <stdlib.h>

#include "proto/log.h"
#include "worker/cache/prefix_cache.h"
#include "worker/schedule/gauge_board.h"

#define RECORDS_PER_TURN 256u /* each causes at most two events */

static enum result open_grammar(struct worker_engine *engine, struct sequence_request *request,
                                struct error_text *words)
{
    enum result result = sequence_grammar_open(&request->grammar, engine->vocabulary,
                                               request->grammar_blob, &request->run, words);
    gauge_board_add_grammar(engine->gauges);
    free(request->grammar_blob);
    request->grammar_blob = NULL;
    return result;
}

/* With pooling: one token without a choice, after the vectors of all tokens if they are needed. */
static bool suits_pooling(const struct worker_engine *engine, const struct run_params *run)
{
    enum pooling pooling = engine->parts.pooling;
    return pooling == POOLING_OFF ||
           (run->max_new_tokens == 1 && run->generated_tokens == 0 && run->grammar_bytes == 0 &&
            run->image_count == 0 && run->score_from == (pooling_reads_all(pooling) ? 1 : 0));
}

static void run(struct worker_engine *engine, struct sequence_request *request)
{
    struct request_id id = request->id;
    enum result result = RESULT_FULL; /* a draining worker takes no new requests */
    uint32_t tokens_max = 0;
    struct error_text words = {""};
    if (!engine->draining)
        result = admission_policy_size(&engine->limits, request->run.prompt_tokens,
                                       request->run.max_new_tokens, &tokens_max);
    if (result == RESULT_OK && !adapter_slots_have(engine->parts.adapters, request->run.adapter))
        result = RESULT_UNSUPPORTED; /* only a bug of the frontend names one that is not loaded */
    if (result == RESULT_OK && !suits_pooling(engine, &request->run))
        result = RESULT_UNSUPPORTED;
    if (result == RESULT_OK)
        result = sequence_images_fit(&request->images, request->run.cache_salt,
                                     &engine->image_limits, &words);
    if (result == RESULT_OK && request->run.grammar_bytes > 0)
        result = open_grammar(engine, request, &words);
    if (result == RESULT_OK)
        result = sequence_table_add(engine->table, request, tokens_max);
    else
        sequence_request_fini(request);
    if (result != RESULT_OK) {
        log_debug("request %u.%u refused: %s%s%s", id.slot, id.generation, result_name(result),
                  words.text[0] ? ": " : "", words.text);
        frontend_link_emit_failed(engine->parts.link, id, result);
    }
}

/* Only the first vocabulary counts: running grammars depend on it. A worker whose vocabulary cannot
 * be built refuses each grammar (sequence_grammar_open()). */
static void take_vocabulary(struct worker_engine *engine, struct frontend_vocabulary *vocabulary)
{
    const struct token_table *table = &vocabulary->table;
    const struct token_bytes bytes = {
        .bytes = table->text, .offsets = table->offsets, .count = vocabulary->sizes.token_count};
    if (!engine->vocabulary)
        engine->vocabulary = grammar_vocabulary_open(
            &bytes, table->end_tokens, vocabulary->sizes.end_count, engine->parts.vocab_tokens);
    if (!engine->vocabulary)
        log_warn("the vocabulary for grammars cannot be built");
    free(vocabulary->payload);
}

static void cancel(struct worker_engine *engine, struct request_id id)
{
    struct sequence *sequence = sequence_table_find(engine->table, id);
    if (!sequence)
        return; /* it has already ended by itself */
    sequence_table_remove(engine->table, sequence, &engine->pools);
    frontend_link_emit_finished(engine->parts.link, id, FINISH_CANCELLED);
}

/* Backends load adapters between steps. Until the steps under way have ended, no step is launched
 * (step_loop.c) and no record taken, so that requests after the adapter's record find it. */
static void read_adapter(struct worker_engine *engine)
{
    struct error_text words = {""};
    if (!engine->adapter_due || !step_pipeline_is_empty(&engine->pipeline))
        return;
    engine->adapter_due = false;
    enum result result = engine->parts.adapters ? adapter_slots_read(engine->parts.adapters,
                                                                     engine->adapter.slot, &words)
                                                : RESULT_UNSUPPORTED;
    if (result != RESULT_OK) {
        log_warn("%s", words.text);
        gauge_board_set_refusal(engine->gauges, words.text);
    }
    frontend_link_emit(engine->parts.link, &(struct token_event){.kind = TOKEN_EVENT_ADAPTER,
                                                                 .adapter = engine->adapter,
                                                                 .failure = (uint32_t)result});
}

static void apply(struct worker_engine *engine, struct frontend_command *command)
{
    switch (command->kind) {
    case SUBMIT_RUN: run(engine, &command->sequence); break;
    case SUBMIT_VOCABULARY: take_vocabulary(engine, &command->vocabulary); break;
    case SUBMIT_CANCEL: cancel(engine, command->request); break;
    case SUBMIT_RESET:
        if (engine->pools.prefixes)
            prefix_cache_reset(engine->pools.prefixes);
        if (engine->pools.features)
            feature_cache_reset(engine->pools.features);
        gauge_board_add_reset(engine->gauges);
        break;
    case SUBMIT_ADAPTER:
        engine->adapter_due = true;
        engine->adapter = command->adapter;
        read_adapter(engine);
        break;
    case SUBMIT_DRAIN:
        if (!engine->draining)
            log_info("draining");
        engine->draining = true;
        gauge_board_set_state(engine->gauges, WORKER_DRAINING);
        break;
    }
}

enum result submit_intake_drain(struct worker_engine *engine)
{
    read_adapter(engine);
    for (uint32_t taken = 0; taken < RECORDS_PER_TURN && !engine->adapter_due; taken++) {
        struct frontend_command command;
        enum result result = frontend_link_take(engine->parts.link, &command);
        if (result == RESULT_EMPTY)
            break;
        if (result == RESULT_CORRUPT)
            return result;
        if (result == RESULT_OK)
            apply(engine, &command);
        worker_engine_publish_roster(engine);
    }
    return RESULT_OK;
}
