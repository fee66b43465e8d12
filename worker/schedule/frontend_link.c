/*
 * Where the worker meets memory that another process can write at any time.
 *
 * In: a record is copied, checked by the contract's rules, and its payload is copied and checked
 * against the vocabulary; from then on the worker reads only its own memory, so the payload is
 * given back at once. A bad record costs the sender that request, never the worker; only a ring
 * whose counts cannot be is the end, because nothing read from it could be believed.
 *
 * Out: events go straight into ring slots while there is room, else into a private queue of fixed
 * size. The order is kept, and one commit and at most one wake-up publish a whole step.
 *
 * Refuses to schedule anything and to interpret events.
 */
#include "worker/schedule/frontend_link.h"

#include <stdlib.h>
#include <string.h>

#include "proto/log.h"
#include "proto/must.h"
#include "shm/payload_slab.h"
#include "shm/segment.h"
#include "shm/spsc_ring.h"

struct frontend_link {
    struct segment segment;
    struct spsc_ring submit;
    struct spsc_ring events;
    struct doorbell submit_bell;
    struct doorbell event_bell;
    int parent_fd;
    uint32_t vocab_tokens;
    const void *peeked; /* a record seen and not yet taken */
    bool submit_corrupt;
    bool events_corrupt;
    bool uncommitted; /* claimed events wait for the commit */
    uint32_t pending_first;
    uint32_t pending_count;
    struct token_event pending[FRONTEND_LINK_EVENTS_MAX]; /* a ring */
};

enum result frontend_link_open(const struct frontend_link_fds *fds, struct frontend_link **opened,
                               struct error_text *error)
{
    struct frontend_link *link = must_alloc(1, sizeof *link);
    enum result result = segment_attach(fds->segment, &link->segment, error);
    if (result != RESULT_OK) {
        free(link);
        return result;
    }
    struct segment *segment = &link->segment;
    spsc_ring_attach_consumer(&link->submit, segment->submit_shared, segment->submit_records,
                              sizeof(struct submit_record), segment->submit_capacity);
    spsc_ring_attach_producer(&link->events, segment->event_shared, segment->event_records,
                              sizeof(struct token_event), segment->event_capacity);
    link->submit_bell =
        (struct doorbell){.shared = segment->submit_bell, .event_fd = fds->submit_bell};
    link->event_bell =
        (struct doorbell){.shared = segment->event_bell, .event_fd = fds->event_bell};
    link->parent_fd = fds->parent;
    *opened = link;
    return RESULT_OK;
}

void frontend_link_close(struct frontend_link *link)
{
    if (!link)
        return;
    segment_detach(&link->segment);
    free(link);
}

struct worker_gauges *frontend_link_gauges(struct frontend_link *link)
{
    return link->segment.gauges;
}

uint32_t frontend_link_life(const struct frontend_link *link)
{
    return link->segment.header->generation;
}

void frontend_link_ring(struct frontend_link *link)
{
    doorbell_ring(&link->event_bell);
}

void frontend_link_roster_add(struct frontend_link *link, uint32_t slot)
{
    step_roster_add(link->segment.roster, slot);
}

void frontend_link_roster_clear(struct frontend_link *link)
{
    step_roster_clear(link->segment.roster);
}

void frontend_link_set_vocabulary(struct frontend_link *link, uint32_t vocab_tokens)
{
    link->vocab_tokens = vocab_tokens;
}

/* --- events out --------------------------------------------------------------------------------*/

static bool put_in_ring(struct frontend_link *link, const struct token_event *event)
{
    void *slot;
    enum result result = spsc_ring_claim(&link->events, &slot);
    if (result == RESULT_CORRUPT)
        link->events_corrupt = true;
    if (result != RESULT_OK)
        return false;
    memcpy(slot, event, sizeof *event);
    link->uncommitted = true;
    return true;
}

void frontend_link_emit(struct frontend_link *link, const struct token_event *event)
{
    if (link->pending_count == 0 && put_in_ring(link, event))
        return;
    must(link->pending_count < FRONTEND_LINK_EVENTS_MAX);
    uint32_t at = (link->pending_first + link->pending_count) % FRONTEND_LINK_EVENTS_MAX;
    link->pending[at] = *event;
    link->pending_count++;
}

void frontend_link_emit_failed(struct frontend_link *link, struct request_id request,
                               enum result failure)
{
    frontend_link_emit(link, &(struct token_event){.kind = TOKEN_EVENT_FAILED,
                                                   .request = request,
                                                   .failure = (uint32_t)failure});
}

void frontend_link_emit_finished(struct frontend_link *link, struct request_id request,
                                 enum finish_reason finish)
{
    frontend_link_emit(link, &(struct token_event){.kind = TOKEN_EVENT_FINISHED,
                                                   .request = request,
                                                   .finish = (uint32_t)finish});
}

enum result frontend_link_flush(struct frontend_link *link)
{
    while (link->pending_count > 0 && put_in_ring(link, &link->pending[link->pending_first])) {
        link->pending_first = (link->pending_first + 1) % FRONTEND_LINK_EVENTS_MAX;
        link->pending_count--;
    }
    if (link->uncommitted) {
        spsc_ring_commit(&link->events);
        link->uncommitted = false;
        doorbell_ring(&link->event_bell);
    }
    if (link->events_corrupt)
        return RESULT_CORRUPT;
    return link->pending_count > 0 ? RESULT_FULL : RESULT_OK;
}

/* --- records in --------------------------------------------------------------------------------*/

/* Looks for the next record; true when there is one or the ring is corrupt, which taking reports.
 */
static bool look(struct frontend_link *link)
{
    if (!link->peeked && !link->submit_corrupt) {
        enum result result = spsc_ring_peek(&link->submit, &link->peeked);
        if (result == RESULT_CORRUPT)
            link->submit_corrupt = true;
        if (result != RESULT_OK)
            link->peeked = NULL;
    }
    return link->peeked || link->submit_corrupt;
}

static void emit_payload_done(struct frontend_link *link, const struct submit_record *record)
{
    struct token_event event = {.kind = TOKEN_EVENT_PAYLOAD_DONE,
                                .request = record->request,
                                .payload_generation = record->payload_generation,
                                .payload_offset = record->payload_offset};
    /* A refused record may name a payload that no honest event could. */
    if (token_event_check(&event, UINT32_MAX, link->segment.slab_bytes, NULL) == RESULT_OK)
        frontend_link_emit(link, &event);
}

static enum result reject(struct frontend_link *link, const struct submit_record *record,
                          enum result reason, const char *words)
{
    log_warn("submit record refused: %s", words);
    atomic_fetch_add_explicit(&link->segment.gauges->rejected_records_total, 1,
                              memory_order_relaxed);
    if (record->kind == SUBMIT_RUN && record->request.slot < LIMIT_LIVE_REQUESTS) {
        emit_payload_done(link, record);
        frontend_link_emit_failed(link, record->request, reason);
    }
    return RESULT_INVALID;
}

/* Copies `bytes` of the payload into new memory and moves on; nothing for none. False: no memory.
 */
static bool take_part(const uint8_t **from, size_t bytes, void **part)
{
    if (bytes == 0)
        return true;
    *part = malloc(bytes);
    if (!*part)
        return false;
    memcpy(*part, *from, bytes);
    *from += bytes;
    return true;
}

/* The image part, when there is one; the ids are copied. */
static enum result copy_images(const struct submit_record *record, const uint8_t *payload,
                               struct sequence_request *request, struct error_text *words)
{
    if (record->image_count == 0)
        return RESULT_OK;
    uint32_t asked_tokens = record->prompt_tokens - record->generated_tokens;
    return sequence_images_copy(&request->images, payload + submit_record_image_offset(record),
                                record->image_bytes, record->image_count, request->tokens,
                                asked_tokens, words);
}

/* Copies the payload into memory of the request's own; counts are in bounds. */
static enum result copy_payload(const struct frontend_link *link,
                                const struct submit_record *record,
                                struct sequence_request *request, struct error_text *words)
{
    (void)error_set(words, RESULT_INVALID, "its payload cannot be read");
    const void *payload;
    enum result result =
        payload_view(link->segment.slab, link->segment.slab_bytes, record->payload_offset,
                     record->payload_bytes, record->payload_generation, &payload);
    if (result != RESULT_OK)
        return result;
    const uint8_t *from = payload;
    void *tokens = NULL;
    void *biases = NULL;
    void *forced = NULL;
    bool good = take_part(&from, record->prompt_tokens * sizeof(uint32_t), &tokens);
    if (good) {
        size_t stop_bytes = record->stop_token_count * sizeof(uint32_t);
        memcpy(request->stop_ids, from, stop_bytes);
        from += stop_bytes;
        good =
            take_part(&from, record->logit_bias_count * sizeof(struct logit_bias_entry), &biases) &&
            take_part(&from, sequence_request_forced_ids(request) * sizeof(uint32_t), &forced);
    }
    request->tokens = tokens;
    request->logit_bias = biases;
    request->forced_ids = forced;
    if (!good)
        return RESULT_OUT_OF_MEMORY;
    return copy_images(record, payload, request, words);
}

/* The ids and biases of a copied payload; NULL, or what is wrong. */
static const char *payload_fault(const struct sequence_request *request, uint32_t vocab_tokens)
{
    for (uint32_t i = 0; i < request->prompt_tokens; i++) {
        if (request->tokens[i] >= vocab_tokens)
            return "a prompt id is outside the vocabulary";
    }
    for (uint32_t i = 0; i < request->stop_token_count; i++) {
        if (request->stop_ids[i] >= vocab_tokens)
            return "a stop id is outside the vocabulary";
    }
    for (uint32_t i = 0; i < sequence_request_forced_ids(request); i++) {
        if (request->forced_ids[i] >= vocab_tokens)
            return "a forced id is outside the vocabulary";
    }
    for (uint32_t i = 0; i < request->logit_bias_count; i++) {
        const struct logit_bias_entry *entry = &request->logit_bias[i];
        if (entry->token >= vocab_tokens || !(entry->bias >= -100.0f && entry->bias <= 100.0f))
            return "a logit bias is out of range";
    }
    return NULL;
}

static enum result take_run(struct frontend_link *link, const struct submit_record *record,
                            struct sequence_request *request)
{
    *request = (struct sequence_request){
        .id = record->request,
        .flags = record->flags,
        .prompt_tokens = record->prompt_tokens,
        .generated_tokens = record->generated_tokens,
        .max_new_tokens = record->max_new_tokens,
        .stop_token_count = record->stop_token_count,
        .logit_bias_count = record->logit_bias_count,
        .sampling = record->sampling,
        .min_tokens = record->min_tokens,
        .top_logprobs = record->top_logprobs,
        .prefix_count = record->prefix_count,
        .think_start_count = record->think_start_count,
        .think_end_count = record->think_end_count,
        .thinking_budget = record->thinking_budget,
    };
    memcpy(request->cache_salt, record->cache_salt, sizeof request->cache_salt);
    step_roster_add(link->segment.roster, record->request.slot);
    struct error_text words;
    enum result result = copy_payload(link, record, request, &words);
    const char *fault =
        result == RESULT_OK ? payload_fault(request, link->vocab_tokens) : words.text;
    if (fault) {
        sequence_request_fini(request);
        return reject(link, record, result == RESULT_OK ? RESULT_INVALID : result, fault);
    }
    emit_payload_done(link, record);
    return RESULT_OK;
}

enum result frontend_link_take(struct frontend_link *link, struct frontend_command *command)
{
    if (!look(link))
        return RESULT_EMPTY;
    if (link->submit_corrupt)
        return RESULT_CORRUPT;
    struct submit_record record;
    memcpy(&record, link->peeked, sizeof record);
    link->peeked = NULL;
    spsc_ring_release(&link->submit);

    struct error_text words;
    if (submit_record_check(&record, link->segment.slab_bytes, &words) != RESULT_OK)
        return reject(link, &record, RESULT_CORRUPT, words.text);
    command->kind = (enum submit_kind)record.kind;
    command->request = record.request;
    if (record.kind == SUBMIT_RUN)
        return take_run(link, &record, &command->sequence);
    return RESULT_OK;
}

/* --- sleep -------------------------------------------------------------------------------------*/

bool frontend_link_sleep(struct frontend_link *link)
{
    doorbell_prepare_sleep(&link->submit_bell); /* D1, D2 */
    if (look(link)) {                           /* D3 */
        doorbell_cancel_sleep(&link->submit_bell);
        return false;
    }
    return doorbell_wait(&link->submit_bell, link->parent_fd, -1); /* D4, D5 */
}

bool frontend_link_sleep_for_room(struct frontend_link *link, int timeout_ms)
{
    doorbell_prepare_sleep(&link->submit_bell);
    return doorbell_wait(&link->submit_bell, link->parent_fd, timeout_ms);
}
