/*
 * Any bytes as shared memory written by a broken peer. The first byte chooses the rest: a submit
 * record, a token event, a segment's header, a history of ring counts followed by records, a slab
 * with references into it, or the image section of a payload. Records that pass a check are then
 * used as the real reader uses them, under the sanitizers. scripts/golden/ring_seeds.py writes the
 * seeds.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/must.h"
#include "proto/submit_record.h"
#include "proto/token_event.h"
#include "shm/payload_slab.h"
#include "shm/segment.h"
#include "shm/spsc_ring.h"

#define CAPACITY     4u
#define SLAB_BYTES   1024u
#define VOCAB_TOKENS 300u

struct input {
    const uint8_t *bytes;
    size_t left;
};

/* Copies `count` bytes of the input, zeros after its end; false when there was nothing left. */
static int input_take(struct input *input, void *into, size_t count)
{
    size_t part = count < input->left ? count : input->left;
    memset(into, 0, count);
    memcpy(into, input->bytes, part);
    input->bytes += part;
    input->left -= part;
    return part > 0;
}

static uint64_t sum_of(const void *bytes, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += ((const uint8_t *)bytes)[i];
    return sum;
}

/* Every byte of every token of an accepted table lies in the copy. */
static void use_vocabulary(const struct token_table_sizes *sizes, const void *payload,
                           uint64_t bytes)
{
    void *copy = malloc(bytes);
    must(copy != NULL);
    memcpy(copy, payload, bytes);
    struct token_table table = token_table_place(sizes, copy);
    for (uint32_t t = 0;
         token_table_check(sizes, &table, NULL) == RESULT_OK && t < sizes->token_count; t++)
        must(sum_of(table.text + table.offsets[t], table.offsets[t + 1] - table.offsets[t]) <=
             255 * (uint64_t)LIMIT_TOKEN_BYTES);
    free(copy);
}

/* The slab is a heap block of its own, so that a byte outside is seen. */
static void use_submit(const struct submit_record *record, const void *slab)
{
    struct error_text error = {""};
    if (submit_record_check(record, SLAB_BYTES, &error) != RESULT_OK) {
        must(error.text[0] == 'S');
        return;
    }
    if (record->kind != SUBMIT_RUN && record->kind != SUBMIT_VOCABULARY)
        return;
    const void *payload = NULL;
    enum result result = payload_view(slab, SLAB_BYTES, record->payload_offset,
                                      record->payload_bytes, record->payload_generation, &payload);
    must(result == RESULT_OK || result == RESULT_STALE);
    if (result == RESULT_OK)
        must(sum_of(payload, record->payload_bytes) <= 255 * record->payload_bytes);
    if (result == RESULT_OK && record->kind == SUBMIT_VOCABULARY)
        use_vocabulary(&record->vocabulary, payload, record->payload_bytes);
}

static void use_event(const struct token_event *event, struct payload_slab *slab)
{
    static const uint8_t vocabulary[VOCAB_TOKENS];
    if (token_event_check(event, VOCAB_TOKENS, SLAB_BYTES, NULL) != RESULT_OK)
        return;
    if (event->kind == TOKEN_EVENT_TOKEN)
        must(*(const volatile uint8_t *)&vocabulary[event->token] == 0);
    if (event->kind == TOKEN_EVENT_ALTERNATIVES)
        for (uint32_t i = 0; i < event->alternative_count; i++)
            must(*(const volatile uint8_t *)&vocabulary[event->alternatives[i].token] == 0);
    if (event->kind == TOKEN_EVENT_PAYLOAD_DONE) {
        enum result result =
            payload_slab_give(slab, event->payload_offset, event->payload_generation);
        must(result == RESULT_OK || result == RESULT_STALE);
    }
}

/* A file of the right kind whose header is the input: attach refuses it, or everything lies inside.
 */
static void attach_header(struct input *input)
{
    uint32_t pages = 0;
    input_take(input, &pages, 1);
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    must(fd >= 0 && ftruncate(fd, (off_t)pages * 4096) == 0);
    struct segment_header header;
    input_take(input, &header, sizeof header);
    if (pages > 0)
        must(pwrite(fd, &header, sizeof header, 0) == (ssize_t)sizeof header);
    must(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    struct segment segment;
    if (segment_attach(fd, &segment, NULL) != RESULT_OK) {
        close(fd);
        return;
    }
    must(segment.slab + segment.slab_bytes <= segment.base + segment.segment_bytes);
    must(sum_of(segment.base, segment.segment_bytes) > 0);
    segment_detach(&segment);
}

/* Each step: a foreign tail, then up to two peeks, then perhaps a release. */
static void walk_consumer(struct input *input, uint32_t record_bytes, struct payload_slab *slab,
                          const void *slab_base)
{
    struct spsc_ring_shared shared = {0};
    uint8_t *records = malloc((size_t)CAPACITY * record_bytes);
    must(records != NULL);
    input_take(input, records, (size_t)CAPACITY * record_bytes);
    struct spsc_ring ring;
    spsc_ring_attach_consumer(&ring, &shared, records, record_bytes, CAPACITY);
    struct {
        uint32_t tail;
        uint8_t relative;
        uint8_t peeks;
        uint8_t release;
    } step;
    while (input_take(input, &step, sizeof step)) {
        atomic_store(&shared.tail, step.relative & 1 ? ring.foreign + step.tail % 6 : step.tail);
        for (uint32_t i = 0; i < step.peeks % 6u; i++) {
            const void *slot = NULL;
            if (spsc_ring_peek(&ring, &slot) != RESULT_OK)
                break;
            struct submit_record submit;
            struct token_event event;
            if (record_bytes == sizeof submit) {
                memcpy(&submit, slot, sizeof submit);
                use_submit(&submit, slab_base);
            } else {
                memcpy(&event, slot, sizeof event);
                use_event(&event, slab);
            }
            must(ring.position - ring.committed <= CAPACITY);
        }
        if (step.release & 1)
            spsc_ring_release(&ring);
    }
    free(records);
}

static void walk_producer(struct input *input)
{
    struct spsc_ring_shared shared = {0};
    uint8_t *records = malloc((size_t)CAPACITY * sizeof(struct token_event));
    must(records != NULL);
    struct spsc_ring ring;
    spsc_ring_attach_producer(&ring, &shared, records, sizeof(struct token_event), CAPACITY);
    uint8_t step[6];
    while (input_take(input, step, sizeof step)) {
        uint32_t head = 0;
        memcpy(&head, step, sizeof head);
        atomic_store(&shared.head, step[4] & 1 ? ring.foreign + head % 6 : head);
        void *slot = NULL;
        for (uint32_t i = 0; i < (step[4] >> 1) % 6u; i++) {
            if (spsc_ring_claim(&ring, &slot) == RESULT_OK)
                memset(slot, step[5], sizeof(struct token_event));
        }
        must(spsc_ring_free(&ring) <= CAPACITY);
        if (step[5] & 1)
            spsc_ring_commit(&ring);
    }
    free(records);
}

/* Takes and give-backs as the input says; the book must add up and end empty. */
static void work_slab(struct input *input, struct payload_slab *slab)
{
    struct payload_ref live[16];
    uint32_t count = 0;
    uint8_t step[4];
    while (input_take(input, step, sizeof step)) {
        void *payload = NULL;
        if ((step[0] & 1) && count < 16) {
            uint64_t bytes = step[1] + 4ull * step[2];
            if (payload_slab_take(slab, bytes, &live[count], &payload) == RESULT_OK)
                memset(payload, step[3], live[count++].bytes);
        } else if (step[0] & 2) {
            uint32_t generation = step[3];
            if (payload_slab_give(slab, 8ull * step[1], generation) == RESULT_OK) {
                uint32_t at = 0;
                while (live[at].offset != 8ull * step[1])
                    must(++at < count);
                must(live[at].generation == generation);
                live[at] = live[--count];
            }
        } else if (count > 0) {
            count--;
            must(payload_slab_give(slab, live[count].offset, live[count].generation) == RESULT_OK);
        }
    }
    while (count-- > 0)
        must(payload_slab_give(slab, live[count].offset, live[count].generation) == RESULT_OK);
    must(payload_slab_used_bytes(slab) == 0);
}

#define IMAGES_MAX 4u

/* As the worker takes images in: records are copied and checked, then pixels are read where they
 * say. The part is a heap block of its own size. */
static void use_images(struct input *input)
{
    struct {
        uint32_t count;
        uint32_t prompt_tokens;
        uint32_t image_bytes;
        uint32_t placed; /* odd: places and size as an honest writer has them */
    } given;
    input_take(input, &given, sizeof given);
    struct image_record records[IMAGES_MAX];
    uint32_t count = given.count % (IMAGES_MAX + 1);
    input_take(input, records, count * sizeof *records);
    uint64_t image_bytes = given.image_bytes % (1u << 16);
    if (given.placed & 1)
        image_bytes = image_record_place(records, count);
    struct error_text error = {""};
    if (image_record_check(records, count, given.prompt_tokens, image_bytes, &error) != RESULT_OK) {
        must(error.text[0] == 'I');
        return;
    }
    uint8_t *part = calloc(1, image_bytes + 1);
    must(part != NULL);
    for (uint32_t i = 0; i < count; i++) {
        must(records[i].span_tokens <= given.prompt_tokens - records[i].first_token);
        must(sum_of(part + records[i].pixels_offset, records[i].pixels_bytes) == 0);
    }
    free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct input input = {bytes, count};
    uint8_t kind = 0;
    if (!input_take(&input, &kind, 1))
        return 0;
    void *base = aligned_alloc(64, SLAB_BYTES);
    must(base != NULL);
    memset(base, 1, SLAB_BYTES); /* every generation word is 0x01010101 */
    struct payload_slab *slab = payload_slab_create(base, SLAB_BYTES);
    struct submit_record submit;
    struct token_event event;
    switch (kind % 8) {
    case 0:
        input_take(&input, &submit, sizeof submit);
        use_submit(&submit, base);
        break;
    case 1:
        input_take(&input, &event, sizeof event);
        use_event(&event, slab);
        break;
    case 2: attach_header(&input); break;
    case 3: walk_consumer(&input, sizeof submit, slab, base); break;
    case 4: walk_consumer(&input, sizeof event, slab, base); break;
    case 5: walk_producer(&input); break;
    case 7: use_images(&input); break;
    default: work_slab(&input, slab); break;
    }
    payload_slab_destroy(slab);
    free(base);
    return 0;
}
