/*
 * Is this submit record one that an honest frontend could have written?
 *
 * The worker copies a record out of the ring and asks here before it believes any field. Counts are
 * bounded before sizes are computed from them, so nothing overflows: the largest payload is
 * about 4.2 MB and LIMIT_REQUEST_IMAGE_BYTES. A cancel looks only at the request, and a drain and a
 * reset at nothing but their kind: slots are filled in place, so the rest of such a record may be
 * what an earlier lap left there.
 *
 * Refuses to look at the payload: S6 (the chunk's generation) belongs to payload_view(), the ids to
 * the worker that knows its vocabulary, image records to image_record_check(). It says which rule
 * broke and reads nothing but the record.
 */
#include "proto/submit_record.h"

#define PAYLOAD_ALIGN_BYTES 64u

static uint64_t id_bytes(const struct submit_record *record)
{
    uint64_t ids = (uint64_t)record->prompt_tokens + record->stop_token_count +
                   record->prefix_count + record->think_start_count + record->think_end_count;
    return ids * sizeof(uint32_t) +
           (uint64_t)record->logit_bias_count * sizeof(struct logit_bias_entry);
}

uint64_t submit_record_image_offset(const struct submit_record *record)
{
    return (id_bytes(record) + PAYLOAD_ALIGN_BYTES - 1) / PAYLOAD_ALIGN_BYTES * PAYLOAD_ALIGN_BYTES;
}

uint64_t submit_record_payload_bytes(const struct submit_record *record)
{
    if (record->image_count == 0)
        return id_bytes(record);
    return submit_record_image_offset(record) + record->image_bytes;
}

/* S4, S5: where the payload lies. The counts are already known to be in bounds. */
static enum result check_payload(const struct submit_record *record, uint64_t slab_bytes,
                                 struct error_text *error)
{
    uint64_t offset = record->payload_offset;
    uint64_t bytes = record->payload_bytes;
    if (bytes != submit_record_payload_bytes(record))
        return error_set(error, RESULT_CORRUPT, "S5: payload_bytes %llu, counts need %llu",
                         (unsigned long long)bytes,
                         (unsigned long long)submit_record_payload_bytes(record));
    /* The first 64 bytes of the slab hold a chunk header, so no payload starts at 0. */
    if (offset % PAYLOAD_ALIGN_BYTES != 0 || offset == 0 || offset > slab_bytes ||
        bytes > slab_bytes - offset)
        return error_set(error, RESULT_CORRUPT, "S4: payload %llu + %llu outside the slab of %llu",
                         (unsigned long long)offset, (unsigned long long)bytes,
                         (unsigned long long)slab_bytes);
    return RESULT_OK;
}

/* S16, S17: what may be forced. */
static enum result check_forced(const struct submit_record *record, struct error_text *error)
{
    uint32_t thinking = SUBMIT_FLAG_THINKING_OPEN | SUBMIT_FLAG_THINKING_BUDGET;
    if (record->prefix_count > LIMIT_PREFIX_TOKENS)
        return error_set(error, RESULT_CORRUPT, "S16: prefix_count %u", record->prefix_count);
    if (record->think_start_count > LIMIT_THINK_TOKENS ||
        record->think_end_count > LIMIT_THINK_TOKENS)
        return error_set(error, RESULT_CORRUPT, "S17: marks of thinking of %u and %u tokens",
                         record->think_start_count, record->think_end_count);
    if (record->think_end_count == 0 && (record->flags & thinking) != 0)
        return error_set(error, RESULT_CORRUPT, "S17: thinking without an end");
    if (record->thinking_budget != 0 && (record->flags & SUBMIT_FLAG_THINKING_BUDGET) == 0)
        return error_set(error, RESULT_CORRUPT, "S17: thinking_budget %u without its flag",
                         record->thinking_budget);
    return RESULT_OK;
}

/* S7-S11, S14, S15: each count against its bound. */
static enum result check_counts(const struct submit_record *record, struct error_text *error)
{
    if (record->prompt_tokens < 1 || record->prompt_tokens > LIMIT_CONTEXT_TOKENS)
        return error_set(error, RESULT_CORRUPT, "S7: prompt_tokens %u", record->prompt_tokens);
    if (record->generated_tokens >= record->prompt_tokens)
        return error_set(error, RESULT_CORRUPT, "S8: generated_tokens %u of %u",
                         record->generated_tokens, record->prompt_tokens);
    if (record->max_new_tokens < 1 || record->max_new_tokens > LIMIT_CONTEXT_TOKENS)
        return error_set(error, RESULT_CORRUPT, "S9: max_new_tokens %u", record->max_new_tokens);
    if (record->logit_bias_count > LIMIT_LOGIT_BIAS)
        return error_set(error, RESULT_CORRUPT, "S10: logit_bias_count %u",
                         record->logit_bias_count);
    if (record->stop_token_count > LIMIT_STOP_TOKENS)
        return error_set(error, RESULT_CORRUPT, "S11: stop_token_count %u",
                         record->stop_token_count);
    if (record->min_tokens > LIMIT_CONTEXT_TOKENS)
        return error_set(error, RESULT_CORRUPT, "S14: min_tokens %u", record->min_tokens);
    if (record->top_logprobs > LIMIT_TOP_LOGPROBS ||
        (record->top_logprobs > 0 && (record->flags & SUBMIT_FLAG_LOGPROBS) == 0))
        return error_set(error, RESULT_CORRUPT, "S15: top_logprobs %u", record->top_logprobs);
    return RESULT_OK;
}

/* S18: images, as far as the record tells. */
static enum result check_images(const struct submit_record *record, struct error_text *error)
{
    uint64_t least = (uint64_t)record->image_count * sizeof(struct image_record);
    if (record->image_count > LIMIT_REQUEST_IMAGES)
        return error_set(error, RESULT_CORRUPT, "S18: image_count %u", record->image_count);
    if (record->image_bytes > LIMIT_REQUEST_IMAGE_BYTES || record->image_bytes < least ||
        (record->image_count == 0) != (record->image_bytes == 0))
        return error_set(error, RESULT_CORRUPT, "S18: %llu bytes of %u images",
                         (unsigned long long)record->image_bytes, record->image_count);
    return RESULT_OK;
}

static enum result check_run(const struct submit_record *record, uint64_t slab_bytes,
                             struct error_text *error)
{
    if (record->flags & ~SUBMIT_FLAG_ALL)
        return error_set(error, RESULT_CORRUPT, "S2: flags 0x%x", record->flags);
    enum result result = check_counts(record, error);
    if (result == RESULT_OK)
        result = check_forced(record, error);
    if (result == RESULT_OK)
        result = check_images(record, error);
    if (result == RESULT_OK)
        result = check_payload(record, slab_bytes, error);
    if (result != RESULT_OK)
        return result;

    struct error_text words = {""};
    if (sampling_params_check(&record->sampling, &words) != RESULT_OK)
        return error_set(error, RESULT_CORRUPT, "S12: %.200s", words.text);
    for (size_t i = 0; i < sizeof record->reserved / sizeof record->reserved[0]; i++) {
        if (record->reserved[i] != 0)
            return error_set(error, RESULT_CORRUPT, "S13: reserved word %zu is not zero", i);
    }
    return RESULT_OK;
}

enum result submit_record_check(const struct submit_record *record, uint64_t slab_bytes,
                                struct error_text *error)
{
    if (record->kind == SUBMIT_DRAIN || record->kind == SUBMIT_RESET)
        return RESULT_OK;
    if (record->kind != SUBMIT_RUN && record->kind != SUBMIT_CANCEL)
        return error_set(error, RESULT_CORRUPT, "S1: kind %u", record->kind);
    if (record->request.slot >= LIMIT_LIVE_REQUESTS)
        return error_set(error, RESULT_CORRUPT, "S3: slot %u", record->request.slot);
    if (record->kind == SUBMIT_CANCEL)
        return RESULT_OK;
    return check_run(record, slab_bytes, error);
}
