/*
 * The frontend's end of a worker's rings and slab; it stays correct whatever the worker writes.
 *
 * Submit: the payload (prompt ids, stop ids, biases, grammar, images) is copied into a slab chunk, then one
 * record is committed and the bell rung. The submit ring has room for every record that a correct
 * worker can leave unread (per slot: an old cancel, a run, a cancel; a drain, a reset, a vocabulary), so a
 * full ring proves a broken worker and nothing ever waits for room.
 *
 * The first request with a grammar is preceded by the vocabulary: the bytes of every token.
 *
 * Events: each record is copied out before it is checked, so that it cannot change in between. All
 * events of one wake-up are handled, then batch_end() lets each stream write once. A wake-up
 * handles a bounded number and then returns to the loop, so that a flood of events cannot starve
 * the sockets.
 *
 * The first broken rule ends the link as corrupt.
 */
#include "frontend/serve/worker/worker_link.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "frontend/api/generation/own_stops.h"
#include "frontend/assets/adapter_set.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/base/shared_bytes.h"
#include "proto/must.h"
#include "proto/submit_payload.h"
#include "shm/doorbell.h"
#include "shm/payload_slab.h"
#include "shm/segment.h"
#include "shm/spsc_ring.h"

#define EVENT_CAPACITY      16384u
#define EVENTS_PER_WAKE     8192u
#define SUBMITS_PER_REQUEST 3u

struct worker_link {
    struct worker_link_config config;
    struct segment segment;
    struct payload_slab *slab;
    struct spsc_ring submits;
    struct spsc_ring events;
    struct doorbell submit_bell;
    struct doorbell event_bell;
    struct event *bell_event;
    uint32_t vocab_tokens;
    struct worker_counters counters;
    uint64_t resets;     /* requested */
    bool has_vocabulary; /* it was submitted */
    bool corrupt;
};

static void on_bell(int fd, short what, void *context);

/* Smallest power of two that holds `count` records. */
static uint32_t ring_capacity(uint32_t count)
{
    uint32_t capacity = 16;
    while (capacity < count)
        capacity *= 2;
    return capacity;
}

static enum result bell_open(struct doorbell *bell, struct doorbell_shared *shared,
                             struct error_text *error)
{
    bell->shared = shared;
    bell->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell->event_fd < 0)
        return error_set(error, RESULT_IO, "eventfd: %s", strerror(errno));
    return RESULT_OK;
}

enum result worker_link_create(const struct worker_link_config *config, struct worker_link **link,
                               struct error_text *error)
{
    struct worker_link *made = must_alloc(1, sizeof *made);
    made->config = *config;
    worker_counters_init(&made->counters, monotonic_clock_us());
    made->submit_bell.event_fd = made->event_bell.event_fd = -1;
    struct segment_sizes sizes = {
        .submit_capacity = ring_capacity(SUBMITS_PER_REQUEST * config->live_requests + 3),
        .event_capacity = EVENT_CAPACITY,
        .slab_bytes = config->slab_bytes & ~63ull};
    enum result result = segment_create(&sizes, config->generation, &made->segment, error);
    if (result == RESULT_OK)
        result = bell_open(&made->submit_bell, made->segment.submit_bell, error);
    if (result == RESULT_OK)
        result = bell_open(&made->event_bell, made->segment.event_bell, error);
    if (result != RESULT_OK) {
        worker_link_destroy(made);
        return result;
    }
    struct segment *segment = &made->segment;
    spsc_ring_attach_producer(&made->submits, segment->submit_shared, segment->submit_records,
                              sizeof(struct submit_record), segment->submit_capacity);
    spsc_ring_attach_consumer(&made->events, segment->event_shared, segment->event_records,
                              sizeof(struct token_event), segment->event_capacity);
    made->slab = payload_slab_create(segment->slab, segment->slab_bytes);
    made->bell_event =
        event_new(config->base, made->event_bell.event_fd, EV_READ | EV_PERSIST, on_bell, made);
    must(made->bell_event && event_add(made->bell_event, NULL) == 0);
    doorbell_prepare_sleep(&made->event_bell);
    *link = made;
    return RESULT_OK;
}

void worker_link_destroy(struct worker_link *link)
{
    if (!link)
        return;
    if (link->bell_event)
        event_free(link->bell_event);
    if (link->submit_bell.event_fd >= 0)
        close(link->submit_bell.event_fd);
    if (link->event_bell.event_fd >= 0)
        close(link->event_bell.event_fd);
    payload_slab_destroy(link->slab);
    segment_detach(&link->segment);
    free(link);
}

void worker_link_set_owner(struct worker_link *link, const struct worker_link_owner *owner)
{
    link->config.owner = *owner;
}

struct worker_link_fds worker_link_fds(const struct worker_link *link)
{
    return (struct worker_link_fds){.segment = link->segment.fd,
                                    .submit_bell = link->submit_bell.event_fd,
                                    .event_bell = link->event_bell.event_fd};
}

const struct worker_gauges *worker_link_gauges(const struct worker_link *link)
{
    return link->segment.gauges;
}

void worker_link_look(struct worker_link *link, struct step_trace_copy *copy)
{
    struct step_trace *trace = link->segment.trace;
    step_trace_read(trace, copy);
    uint32_t looks = atomic_load_explicit(&trace->looks, memory_order_relaxed);
    atomic_store_explicit(&trace->looks, looks + 1, memory_order_relaxed);
    doorbell_ring(&link->submit_bell);
}

void worker_link_add_totals(struct worker_link *link, struct worker_totals *totals)
{
    worker_counters_read(&link->counters, link->segment.gauges, monotonic_clock_us());
    worker_totals_add(totals, &link->counters);
}

void worker_link_set_vocab(struct worker_link *link, uint32_t vocab_tokens)
{
    link->vocab_tokens = vocab_tokens;
}

uint64_t worker_link_slab_used_bytes(const struct worker_link *link)
{
    return payload_slab_used_bytes(link->slab);
}

/* --- submitting ------------------------------------------------------------------------------ */

static enum result record_commit(struct worker_link *link, const struct submit_record *record)
{
    void *place;
    if (link->corrupt || spsc_ring_claim(&link->submits, &place) != RESULT_OK)
        return RESULT_CORRUPT;
    memcpy(place, record, sizeof *record);
    spsc_ring_commit(&link->submits);
    doorbell_ring(&link->submit_bell);
    return RESULT_OK;
}

static uint32_t flags_of(const struct prepared_generation *prepared, const struct stop_ids *stops)
{
    return (stops->ignored ? SUBMIT_FLAG_IGNORE_END : 0) |
           (prepared->request.logprobs ? SUBMIT_FLAG_LOGPROBS : 0) |
           (prepared->request.no_prefix_cache ? SUBMIT_FLAG_NO_PREFIX_CACHE : 0) |
           (prepared->request.no_speculation ? SUBMIT_FLAG_NO_SPECULATION : 0) |
           (prepared->forced.thinking_open ? SUBMIT_FLAG_THINKING_OPEN : 0) |
           (prepared->forced.has_thinking_budget ? SUBMIT_FLAG_THINKING_BUDGET : 0) |
           (prepared->request.grammar_start == GRAMMAR_AFTER_REASONING
                ? SUBMIT_FLAG_GRAMMAR_AFTER_THINKING
                : 0);
}

/* The bytes of token `id`; special tokens have none. */
static size_t text_of(const struct model_assets *assets, uint32_t id, const char **bytes)
{
    size_t length = 0;
    *bytes = NULL;
    if (!tokenizer_is_special(assets->tokenizer, id))
        tokenizer_token_bytes(assets->tokenizer, id, bytes, &length);
    return length;
}

static void vocabulary_write(const struct token_table_sizes *sizes,
                             const struct model_assets *assets, void *payload)
{
    struct token_table table = token_table_place(sizes, payload);
    table.offsets[0] = 0;
    for (uint32_t id = 0; id < sizes->token_count; id++) {
        const char *bytes;
        size_t length = text_of(assets, id, &bytes);
        if (length > 0)
            memcpy(table.text + table.offsets[id], bytes, length);
        table.offsets[id + 1] = table.offsets[id] + (uint32_t)length;
    }
    for (uint32_t i = 0; i < sizes->end_count; i++)
        table.end_tokens[i] = assets->stop_ids[i];
}

/* Results as those of worker_link_submit(). */
static enum result vocabulary_submit(struct worker_link *link, const struct model_assets *assets)
{
    struct submit_record record = {
        .kind = SUBMIT_VOCABULARY,
        .vocabulary = {.token_count = link->vocab_tokens, .end_count = assets->stop_id_count}};
    for (uint32_t id = 0; id < link->vocab_tokens; id++) {
        const char *bytes;
        record.vocabulary.text_bytes += text_of(assets, id, &bytes);
    }
    struct error_text fault;
    if (token_table_check_sizes(&record.vocabulary, &fault) != RESULT_OK)
        return RESULT_TOO_LARGE;
    record.payload_bytes = token_table_bytes(&record.vocabulary);
    struct payload_ref ref;
    void *payload;
    enum result result = payload_slab_take(link->slab, record.payload_bytes, &ref, &payload);
    if (result != RESULT_OK)
        return result;
    vocabulary_write(&record.vocabulary, assets, payload);
    record.payload_offset = ref.offset;
    record.payload_generation = ref.generation;
    must(submit_record_check(&record, link->segment.slab_bytes, &fault) == RESULT_OK);
    result = record_commit(link, &record);
    link->has_vocabulary = result == RESULT_OK;
    return result;
}

enum result worker_link_submit(struct worker_link *link, struct request_id request,
                               const struct prepared_generation *prepared,
                               const struct token_list *generated, uint32_t scored_tokens,
                               const struct model_assets *assets)
{
    bool scores = prepared->request.scores_prompt && scored_tokens + 1 < prepared->prompt.count;
    uint32_t generated_tokens = (uint32_t)generated->count;
    must(generated_tokens < prepared->max_new_tokens);
    const struct forced_tokens *forced = &prepared->forced;
    const struct generation_request *asked = &prepared->request;
    struct stop_ids stops;
    stop_ids_collect(asked, assets, &stops);
    struct submit_record record = {
        .kind = SUBMIT_RUN,
        .request = request,
        .run = {.flags = flags_of(prepared, &stops),
                .prompt_tokens = (uint32_t)prepared->prompt.count + generated_tokens,
                .generated_tokens = generated_tokens,
                .max_new_tokens = prepared->max_new_tokens - generated_tokens,
                .logit_bias_count = asked->logit_bias_count,
                .stop_token_count = stops.count,
                .sampling = asked->sampling,
                .min_tokens = asked->min_tokens,
                .top_logprobs = asked->top_logprobs,
                .prefix_count = forced->prefix_count,
                .think_start_count = forced->think_start_count,
                .think_end_count = forced->think_end_count,
                .thinking_budget = forced->thinking_budget,
                .score_from = scores ? scored_tokens + 1 : pooling_reads_all(assets->pooling),
                .score_top = scores ? asked->top_prompt_logprobs : 0,
                .dry_breaker_words =
                    (uint32_t)(shared_bytes_length(asked->dry_breakers) / sizeof(uint32_t)),
                .grammar_bytes = (uint32_t)shared_bytes_length(asked->grammar),
                .image_bytes = image_set_bytes(prepared->images),
                .image_count = image_set_count(prepared->images),
                .adapter = asked->adapter ? asked->adapter->number : 0,
                .separator = asked->separator,
                .speech = asked->speech}};
    const struct run_params *run = &record.run;
    memcpy(record.run.cache_salt, &asked->cache_salt, sizeof record.run.cache_salt);
    record.payload_bytes = submit_payload_bytes(run);
    struct payload_ref ref;
    void *payload;
    bool speaks = run->grammar_bytes > 0 && !link->has_vocabulary;
    enum result result = speaks ? vocabulary_submit(link, assets) : RESULT_OK;
    if (result != RESULT_OK)
        return result;
    result = payload_slab_take(link->slab, record.payload_bytes, &ref, &payload);
    if (result != RESULT_OK)
        return result;
    const struct submit_piece pieces[] = {
        {SUBMIT_PROMPT_IDS, prepared->prompt.ids, 0, prepared->prompt.count},
        {SUBMIT_PROMPT_IDS, generated->ids, 0, generated->count},
        {SUBMIT_STOP_IDS, stops.ids, 0, stops.count},
        {SUBMIT_LOGIT_BIAS, asked->logit_bias, 0, asked->logit_bias_count},
        {SUBMIT_PREFIX_IDS, forced->ids, 0, forced->prefix_count},
        {SUBMIT_THINK_START_IDS, forced->ids, forced->prefix_count, forced->think_start_count},
        {SUBMIT_THINK_END_IDS, forced->ids, forced->prefix_count + forced->think_start_count,
         forced->think_end_count},
        {SUBMIT_DRY_BREAKERS, shared_bytes_data(asked->dry_breakers), 0, run->dry_breaker_words},
        {SUBMIT_GRAMMAR, shared_bytes_data(asked->grammar), 0, run->grammar_bytes},
        {SUBMIT_IMAGES, prepared->images ? image_set_part(prepared->images) : NULL, 0,
         run->image_bytes}};
    submit_payload_write(run, pieces, sizeof pieces / sizeof pieces[0], payload);
    record.payload_offset = ref.offset;
    record.payload_generation = ref.generation;
    struct error_text fault;
    must(submit_record_check(&record, link->segment.slab_bytes, &fault) == RESULT_OK);
    return record_commit(link, &record);
}

enum result worker_link_cancel(struct worker_link *link, struct request_id request)
{
    return record_commit(link, &(struct submit_record){.kind = SUBMIT_CANCEL, .request = request});
}

bool worker_link_reset_is_pending(const struct worker_link *link)
{
    const struct worker_gauges *gauges = link->segment.gauges;
    return link->resets > atomic_load_explicit(&gauges->prefix_resets_total, memory_order_relaxed);
}

enum result worker_link_reset_cache(struct worker_link *link)
{
    /* A reset that the worker has not handled yet serves this request, too: the ring holds one. */
    if (worker_link_reset_is_pending(link))
        return RESULT_OK;
    link->resets++;
    return record_commit(link, &(struct submit_record){.kind = SUBMIT_RESET});
}

enum result worker_link_read_adapter(struct worker_link *link, struct adapter_id adapter)
{
    return record_commit(link, &(struct submit_record){.kind = SUBMIT_ADAPTER, .adapter = adapter});
}

void worker_link_read_failure(const struct worker_link *link, struct error_text *words)
{
    const struct worker_gauges *gauges = link->segment.gauges;
    _Static_assert(sizeof words->text == sizeof gauges->failure, "copied whole");
    memcpy(words->text, gauges->failure, sizeof words->text);
    words->text[sizeof words->text - 1] = '\0';
}

enum result worker_link_drain(struct worker_link *link)
{
    return record_commit(link, &(struct submit_record){.kind = SUBMIT_DRAIN});
}

/* --- events ---------------------------------------------------------------------------------- */

static enum result event_handle(struct worker_link *link, const struct token_event *event,
                                struct error_text *why)
{
    enum result result =
        token_event_check(event, link->vocab_tokens, link->segment.slab_bytes, why);
    if (result != RESULT_OK)
        return result;
    if (event->kind == TOKEN_EVENT_PAYLOAD_DONE) {
        if (payload_slab_give(link->slab, event->payload_offset, event->payload_generation) !=
            RESULT_OK)
            return error_set(why, RESULT_CORRUPT, "a payload was given back that is not out");
        return RESULT_OK;
    }
    const struct worker_listener *listener = &link->config.owner.listener;
    if (listener->event(listener->context, link->config.worker, event) != RESULT_OK)
        return error_set(why, RESULT_CORRUPT, "an event of kind %u contradicts its request",
                         event->kind);
    return RESULT_OK;
}

/* Handles up to `most` events and returns their number; *result is the reason for the stop. */
static uint32_t events_take(struct worker_link *link, uint32_t most, enum result *result,
                            struct error_text *why)
{
    uint32_t taken = 0;
    *result = RESULT_OK;
    while (taken < most && *result == RESULT_OK) {
        const void *record;
        *result = spsc_ring_peek(&link->events, &record);
        if (*result == RESULT_CORRUPT)
            (void)error_set(why, RESULT_CORRUPT, "the event ring's count is impossible");
        if (*result != RESULT_OK)
            break;
        struct token_event event;
        memcpy(&event, record, sizeof event);
        *result = event_handle(link, &event, why);
        taken++;
    }
    if (taken > 0)
        spsc_ring_release(&link->events);
    return taken;
}

static void on_bell(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct worker_link *link = context;
    struct error_text why;
    enum result result;
    doorbell_woken(&link->event_bell);
    link->config.owner.bell(link->config.owner.context);
    uint32_t taken = events_take(link, EVENTS_PER_WAKE, &result, &why);
    bool again = result == RESULT_OK;
    if (result == RESULT_EMPTY) {
        doorbell_prepare_sleep(&link->event_bell);
        /* Second look, for records committed before the worker could see the flag. */
        uint32_t more = events_take(link, EVENTS_PER_WAKE, &result, &why);
        again = more > 0;
        taken += more;
    }
    if (taken > 0)
        link->config.owner.listener.batch_end(link->config.owner.listener.context);
    if (result != RESULT_OK && result != RESULT_EMPTY) {
        link->corrupt = true;
        event_del(link->bell_event);
        link->config.owner.corrupt(link->config.owner.context, why.text);
    } else if (again) {
        doorbell_cancel_sleep(&link->event_bell);
        event_active(link->bell_event, EV_READ, 0); /* after the sockets' events */
    }
}

void worker_link_take_rest(struct worker_link *link)
{
    struct error_text why;
    enum result result = RESULT_OK;
    while (!link->corrupt && result == RESULT_OK)
        (void)events_take(link, EVENTS_PER_WAKE, &result, &why);
    link->corrupt = true; /* no further events from a dead worker */
    link->config.owner.listener.batch_end(link->config.owner.listener.context);
}

void worker_link_read_roster(const struct worker_link *link, struct step_roster_copy *roster)
{
    step_roster_read(link->segment.roster, roster);
}
