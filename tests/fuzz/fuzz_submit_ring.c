/*
 * Fuzz target: a broken frontend's submit records and slab against the worker's frontend_link.
 *
 * Input: the first half (rounded down to records) is the submit ring's content, the rest the
 * slab's. Must hold: every record is accepted or rejected, each event passes the frontend's own
 * check, and an accepted request keeps its rules. scripts/golden/ring_seeds.py writes the seeds.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/log.h"
#include "proto/must.h"
#include "tests/support/process_pair.h"
#include "worker/schedule/frontend_link.h"

#define RECORDS    64u
#define SLAB_BYTES 16384u
#define VOCAB      1000u

static struct process_pair pair;
static struct frontend_link *frontend_link;

static void open_once(void)
{
    if (frontend_link)
        return;
    log_init("fuzz", LOG_ERROR);
    process_pair_open(&pair, RECORDS, 4 * RECORDS, SLAB_BYTES);
    struct frontend_link_fds fds = {.segment = dup(pair.segment.fd),
                                    .submit_bell = pair.submit_bell.event_fd,
                                    .event_bell = pair.event_bell.event_fd,
                                    .parent = -1};
    must(frontend_link_open(&fds, &frontend_link, NULL) == RESULT_OK);
    frontend_link_set_vocabulary(frontend_link, VOCAB);
}

static void check_accepted(const struct sequence_request *request)
{
    must(request->run.prompt_tokens >= 1 &&
         request->run.prompt_tokens <= SLAB_BYTES / sizeof(uint32_t));
    must(request->run.generated_tokens < request->run.prompt_tokens);
    must(request->id.slot < LIMIT_LIVE_REQUESTS);
    for (uint32_t i = 0; i < request->run.prompt_tokens; i++)
        must(request->tokens[i] < VOCAB);
    for (uint32_t i = 0; i < request->run.stop_token_count; i++)
        must(request->stop_ids[i] < VOCAB);
    for (uint32_t i = 0; i < request->run.logit_bias_count; i++)
        must(request->logit_bias[i].token < VOCAB);
    for (uint32_t i = 0; i < request->run.prefix_count + request->run.think_start_count +
                                 request->run.think_end_count;
         i++)
        must(request->forced_ids[i] < VOCAB);
    must(request->run.prefix_count <= LIMIT_PREFIX_TOKENS &&
         request->run.top_logprobs <= LIMIT_TOP_LOGPROBS);
}

static void take_all(uint32_t records)
{
    uint32_t taken = 0;
    for (;;) {
        struct frontend_command command;
        enum result result = frontend_link_take(frontend_link, &command);
        if (result == RESULT_EMPTY)
            break;
        must(result == RESULT_OK || result == RESULT_INVALID);
        taken++;
        if (result == RESULT_OK && command.kind == SUBMIT_RUN) {
            check_accepted(&command.sequence);
            sequence_request_fini(&command.sequence);
        }
        if (result == RESULT_OK && command.kind == SUBMIT_VOCABULARY) {
            must(token_table_check(&command.vocabulary.sizes, &command.vocabulary.table, NULL) ==
                 RESULT_OK);
            must(command.vocabulary.sizes.token_count <= VOCAB);
            free(command.vocabulary.payload);
        }
    }
    must(taken == records);
    must(frontend_link_flush(frontend_link) == RESULT_OK);
}

static void check_events(void)
{
    const void *event;
    while (spsc_ring_peek(&pair.event, &event) == RESULT_OK)
        must(token_event_check(event, VOCAB, SLAB_BYTES, NULL) == RESULT_OK);
    spsc_ring_release(&pair.event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_once();
    size_t records = size / 2 / sizeof(struct submit_record);
    if (records > RECORDS)
        records = RECORDS;
    size_t record_bytes = records * sizeof(struct submit_record);
    size_t slab_bytes = size - record_bytes < SLAB_BYTES ? size - record_bytes : SLAB_BYTES;
    memcpy(pair.segment.slab, data + record_bytes, slab_bytes);
    memset(pair.segment.slab + slab_bytes, 0, SLAB_BYTES - slab_bytes);
    for (size_t i = 0; i < records; i++) {
        void *slot;
        must(spsc_ring_claim(&pair.submit, &slot) == RESULT_OK);
        memcpy(slot, data + i * sizeof(struct submit_record), sizeof(struct submit_record));
    }
    spsc_ring_commit(&pair.submit);
    take_all((uint32_t)records);
    check_events();
    return 0;
}
