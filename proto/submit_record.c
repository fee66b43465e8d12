/*
 * Checks a submit record, which the worker has copied out of the ring, before any field is used.
 *
 * Counts are bounded before sizes are computed from them, so nothing overflows. For a cancel only
 * the kind and the request are checked, for an adapter only the kind and its slot, for a drain and a reset only the kind: slots are filled in
 * place, so the rest of such a record may be left over from an earlier lap of the ring. A
 * vocabulary names no request.
 *
 * The payload is not read: payload_view() checks S6 (the chunk's generation),
 * submit_payload_check() the ids, image_record_check() the image records.
 */
#include "proto/submit_record.h"

#include "proto/submit_payload.h"

#define PAYLOAD_ALIGN_BYTES 64u

/* S4, S5: where the payload lies. The counts are already known to be in bounds. */
static enum result check_payload(const struct submit_record *record, uint64_t needed_bytes,
                                 uint64_t slab_bytes, struct error_text *error)
{
    uint64_t offset = record->payload_offset;
    uint64_t bytes = record->payload_bytes;
    if (bytes != needed_bytes)
        return error_set(error, RESULT_CORRUPT, "S5: payload_bytes %llu, counts need %llu",
                         (unsigned long long)bytes, (unsigned long long)needed_bytes);
    /* The first 64 bytes of the slab hold a chunk header, so no payload starts at 0. */
    if (offset % PAYLOAD_ALIGN_BYTES != 0 || offset == 0 || offset > slab_bytes ||
        bytes > slab_bytes - offset)
        return error_set(error, RESULT_CORRUPT, "S4: payload %llu + %llu outside the slab of %llu",
                         (unsigned long long)offset, (unsigned long long)bytes,
                         (unsigned long long)slab_bytes);
    return RESULT_OK;
}

/* S17: which fields of thinking go together. */
static enum result check_forced(const struct run_params *run, struct error_text *error)
{
    uint32_t thinking = SUBMIT_FLAG_THINKING_OPEN | SUBMIT_FLAG_THINKING_BUDGET;
    if (run->think_end_count == 0 && (run->flags & thinking) != 0)
        return error_set(error, RESULT_CORRUPT, "S17: thinking without an end");
    if (run->thinking_budget != 0 && (run->flags & SUBMIT_FLAG_THINKING_BUDGET) == 0)
        return error_set(error, RESULT_CORRUPT, "S17: thinking_budget %u without its flag",
                         run->thinking_budget);
    return RESULT_OK;
}

/* S7-S9, S14, S15, S21: the counts that are not the size of a payload section. */
static enum result check_counts(const struct run_params *run, struct error_text *error)
{
    if (run->prompt_tokens < 1)
        return error_set(error, RESULT_CORRUPT, "S7: prompt_tokens %u", run->prompt_tokens);
    if (run->generated_tokens >= run->prompt_tokens)
        return error_set(error, RESULT_CORRUPT, "S8: generated_tokens %u of %u",
                         run->generated_tokens, run->prompt_tokens);
    if (run->max_new_tokens < 1 || run->max_new_tokens > LIMIT_CONTEXT_TOKENS)
        return error_set(error, RESULT_CORRUPT, "S9: max_new_tokens %u", run->max_new_tokens);
    if (run->min_tokens > LIMIT_CONTEXT_TOKENS)
        return error_set(error, RESULT_CORRUPT, "S14: min_tokens %u", run->min_tokens);
    if (run->top_logprobs > LIMIT_TOP_LOGPROBS ||
        (run->top_logprobs > 0 && (run->flags & SUBMIT_FLAG_LOGPROBS) == 0))
        return error_set(error, RESULT_CORRUPT, "S15: top_logprobs %u", run->top_logprobs);
    if (run->score_from > run->prompt_tokens - run->generated_tokens ||
        run->score_top > LIMIT_TOP_LOGPROBS || (run->score_top > 0 && run->score_from == 0) ||
        (run->score_from > 0 && run->image_count > 0))
        return error_set(error, RESULT_CORRUPT, "S21: score_from %u, score_top %u", run->score_from,
                         run->score_top);
    return RESULT_OK;
}

/* S18: the numbers of images and of their bytes. */
static enum result check_images(const struct run_params *run, struct error_text *error)
{
    uint64_t record_bytes = (uint64_t)run->image_count * sizeof(struct image_record);
    if (run->image_count > LIMIT_REQUEST_RECORDS)
        return error_set(error, RESULT_CORRUPT, "S18: image_count %u", run->image_count);
    if (run->image_bytes < record_bytes || (run->image_count == 0) != (run->image_bytes == 0))
        return error_set(error, RESULT_CORRUPT, "S18: %llu bytes of %u images",
                         (unsigned long long)run->image_bytes, run->image_count);
    return RESULT_OK;
}

static enum result check_run(const struct submit_record *record, uint64_t slab_bytes,
                             struct error_text *error)
{
    if (record->run.flags & ~SUBMIT_FLAG_ALL)
        return error_set(error, RESULT_CORRUPT, "S2: flags 0x%x", record->run.flags);
    enum result result = submit_payload_check_counts(&record->run, error);
    if (result == RESULT_OK)
        result = check_counts(&record->run, error);
    if (result == RESULT_OK)
        result = check_forced(&record->run, error);
    if (result == RESULT_OK)
        result = check_images(&record->run, error);
    if (result == RESULT_OK)
        result = check_payload(record, submit_payload_bytes(&record->run), slab_bytes, error);
    if (result != RESULT_OK)
        return result;

    struct error_text words = {""};
    if (sampling_params_check(&record->run.sampling, &words) != RESULT_OK)
        return error_set(error, RESULT_CORRUPT, "S12: %.200s", words.text);
    if (record->run.adapter > LIMIT_ADAPTERS)
        return error_set(error, RESULT_CORRUPT, "S23: adapter %u", record->run.adapter);
    if (record->run.separator > LIMIT_VOCAB_TOKENS)
        return error_set(error, RESULT_CORRUPT, "S24: separator %u", record->run.separator);
    return speech_rules_check(&record->run.speech, error);
}

static enum result check_vocabulary(const struct submit_record *record, uint64_t slab_bytes,
                                    struct error_text *error)
{
    enum result result = token_table_check_sizes(&record->vocabulary, error);
    if (result != RESULT_OK)
        return result;
    return check_payload(record, token_table_bytes(&record->vocabulary), slab_bytes, error);
}

enum result submit_record_check(const struct submit_record *record, uint64_t slab_bytes,
                                struct error_text *error)
{
    if (record->kind == SUBMIT_DRAIN || record->kind == SUBMIT_RESET)
        return RESULT_OK;
    if (record->kind == SUBMIT_VOCABULARY)
        return check_vocabulary(record, slab_bytes, error);
    if (record->kind == SUBMIT_ADAPTER)
        return record->adapter.slot < LIMIT_ADAPTERS
                   ? RESULT_OK
                   : error_set(error, RESULT_CORRUPT, "S25: adapter slot %u", record->adapter.slot);
    if (record->kind != SUBMIT_RUN && record->kind != SUBMIT_CANCEL)
        return error_set(error, RESULT_CORRUPT, "S1: kind %u", record->kind);
    if (record->request.slot >= LIMIT_LIVE_REQUESTS)
        return error_set(error, RESULT_CORRUPT, "S3: slot %u", record->request.slot);
    if (record->kind == SUBMIT_CANCEL)
        return RESULT_OK;
    return check_run(record, slab_bytes, error);
}
