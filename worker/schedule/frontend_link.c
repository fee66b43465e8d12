/*
 * The boundary to memory that another process can write at any time.
 *
 * In: a record is copied and checked by the rules of proto/submit_record.h; its payload is copied
 * and checked against the vocabulary. From then on the worker reads only its own memory, so the
 * payload is given back at once. A bad record fails that request only. A ring with impossible
 * counts ends the worker, because nothing read from it can be trusted.
 *
 * Out: events are written directly into ring slots while there is room, else into a private queue
 * of fixed size. Order is kept, and a whole step is published by one commit and at most one
 * wake-up.
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
    const void *peeked; /* record that was seen but not taken */
    bool submit_corrupt;
    bool events_corrupt;
    bool uncommitted; /* claimed events are not committed yet */
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

struct step_trace *frontend_link_trace(struct frontend_link *link)
{
    return link->segment.trace;
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

/* --- events out ------------------------------------------------------------------------------- */

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

/* --- records in ------------------------------------------------------------------------------- */

/* Looks for the next record; true if there is one or the ring is corrupt (the next take reports
 * that). */
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
    /* A refused record may name a payload that is outside the slab. */
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

/* Copies the sections `first` to `last` into new memory; *part stays NULL if they are empty. False:
 * out of memory. */
static bool take_part(const struct run_params *run, const void *payload, enum submit_section first,
                      enum submit_section last, void **part)
{
    struct submit_span span = submit_payload_span(run, first, last);
    if (span.bytes == 0)
        return true;
    *part = malloc(span.bytes);
    if (!*part)
        return false;
    submit_payload_read(run, payload, first, last, *part);
    return true;
}

/* Copies the images, if there are any; the ids must be copied already. */
static enum result copy_images(const uint8_t *payload, struct sequence_request *request,
                               struct error_text *words)
{
    const struct run_params *run = &request->run;
    if (run->image_count == 0)
        return RESULT_OK;
    struct submit_span span = submit_payload_span(run, SUBMIT_IMAGES, SUBMIT_IMAGES);
    return sequence_images_copy(&request->images, payload + span.offset, span.bytes,
                                run->image_count, request->tokens,
                                run->prompt_tokens - run->generated_tokens, words);
}

/* Copies the payload into memory owned by the request; the counts are checked already. */
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
    const struct run_params *run = &request->run;
    void *tokens = NULL;
    void *biases = NULL;
    void *forced = NULL;
    void *grammar = NULL;
    void *breakers = NULL;
    bool good = take_part(run, payload, SUBMIT_PROMPT_IDS, SUBMIT_PROMPT_IDS, &tokens) &&
                take_part(run, payload, SUBMIT_LOGIT_BIAS, SUBMIT_LOGIT_BIAS, &biases) &&
                take_part(run, payload, SUBMIT_PREFIX_IDS, SUBMIT_THINK_END_IDS, &forced) &&
                take_part(run, payload, SUBMIT_DRY_BREAKERS, SUBMIT_DRY_BREAKERS, &breakers) &&
                take_part(run, payload, SUBMIT_GRAMMAR, SUBMIT_GRAMMAR, &grammar);
    request->tokens = tokens;
    request->logit_bias = biases;
    request->forced_ids = forced;
    request->grammar_blob = grammar;
    request->dry_breakers = (struct dry_breakers){.words = breakers};
    if (!good)
        return RESULT_OUT_OF_MEMORY;
    submit_payload_read(run, payload, SUBMIT_STOP_IDS, SUBMIT_STOP_IDS, request->stop_ids);
    return copy_images(payload, request, words);
}

/* Checks the ids, biases and breakers of a copied payload against the vocabulary. */
static enum result check_payload(struct sequence_request *request, uint32_t vocab_tokens,
                                 struct error_text *words)
{
    const struct {
        enum submit_section first, last;
        const void *copy;
    } parts[] = {
        {SUBMIT_PROMPT_IDS, SUBMIT_PROMPT_IDS, request->tokens},
        {SUBMIT_STOP_IDS, SUBMIT_STOP_IDS, request->stop_ids},
        {SUBMIT_LOGIT_BIAS, SUBMIT_LOGIT_BIAS, request->logit_bias},
        {SUBMIT_PREFIX_IDS, SUBMIT_THINK_END_IDS, request->forced_ids},
    };
    enum result result = RESULT_OK;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && result == RESULT_OK; i++)
        result = submit_payload_check(&request->run, parts[i].first, parts[i].last, parts[i].copy,
                                      vocab_tokens, words);
    if (result == RESULT_OK && request->run.dry_breaker_words > 0)
        result = dry_breakers_init(&request->dry_breakers, request->dry_breakers.words,
                                   request->run.dry_breaker_words, vocab_tokens, words);
    return result;
}

static enum result take_run(struct frontend_link *link, const struct submit_record *record,
                            struct sequence_request *request)
{
    *request = (struct sequence_request){.id = record->request, .run = record->run};
    step_roster_add(link->segment.roster, record->request.slot);
    struct error_text words;
    enum result result = copy_payload(link, record, request, &words);
    if (result == RESULT_OK)
        result = check_payload(request, link->vocab_tokens, &words);
    if (result != RESULT_OK) {
        sequence_request_fini(request);
        return reject(link, record, result, words.text);
    }
    emit_payload_done(link, record);
    return RESULT_OK;
}

/* Copies and checks a vocabulary; the sizes are checked already. */
static enum result copy_vocabulary(const struct frontend_link *link,
                                   const struct submit_record *record,
                                   struct frontend_vocabulary *vocabulary, struct error_text *words)
{
    const void *payload;
    (void)error_set(words, RESULT_INVALID, "its payload cannot be read");
    *vocabulary = (struct frontend_vocabulary){.sizes = record->vocabulary};
    if (record->vocabulary.token_count > link->vocab_tokens)
        return error_set(words, RESULT_CORRUPT, "a vocabulary of %u tokens for a model of %u",
                         record->vocabulary.token_count, link->vocab_tokens);
    enum result result =
        payload_view(link->segment.slab, link->segment.slab_bytes, record->payload_offset,
                     record->payload_bytes, record->payload_generation, &payload);
    if (result != RESULT_OK)
        return result;
    vocabulary->payload = malloc(record->payload_bytes);
    if (!vocabulary->payload)
        return RESULT_OUT_OF_MEMORY;
    memcpy(vocabulary->payload, payload, record->payload_bytes);
    vocabulary->table = token_table_place(&vocabulary->sizes, vocabulary->payload);
    return token_table_check(&vocabulary->sizes, &vocabulary->table, words);
}

static enum result take_vocabulary(struct frontend_link *link, const struct submit_record *record,
                                   struct frontend_vocabulary *vocabulary)
{
    struct error_text words;
    enum result result = copy_vocabulary(link, record, vocabulary, &words);
    if (result != RESULT_OK) {
        free(vocabulary->payload);
        vocabulary->payload = NULL;
    }
    if (result != RESULT_OK)
        result = reject(link, record, result, words.text);
    emit_payload_done(link, record);
    return result;
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
    command->adapter = record.adapter;
    if (record.kind == SUBMIT_RUN)
        return take_run(link, &record, &command->sequence);
    if (record.kind == SUBMIT_VOCABULARY)
        return take_vocabulary(link, &record, &command->vocabulary);
    return RESULT_OK;
}

/* --- sleep ------------------------------------------------------------------------------------ */

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
