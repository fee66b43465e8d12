/*
 * A queue of entries, each with the positions in the decoded text where it begins and ends.
 *
 * The positions are found by a second decoder over the same bytes as in reply_text.h, so nothing
 * has to be passed from there. A token that ends within a character can be written once that
 * character's first byte is shown, so its end counts as one byte past the decoded text.
 */
#include "frontend/reply/token_log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/utf8_stream.h"
#include "proto/must.h"

/* OpenAI's value for a probability of zero; JSON has no infinity. */
#define MINIMUM_LOGPROB (-9999.0f)

struct queued {
    struct token_log_entry entry;
    uint64_t begin; /* in decoded bytes */
    uint64_t end;
    struct utf8_stream before; /* may contain a character that an earlier token began */
};

struct token_log {
    const struct tokenizer *tokenizer;
    struct utf8_stream utf8;
    struct text_buffer scratch;
    struct queued *queue; /* [capacity] of which [first, first + count) are there */
    size_t first;
    size_t count;
    size_t capacity;
    uint64_t decoded_bytes;
    uint64_t decoded_characters;
    uint64_t shown_bytes;
    bool at_start;
    bool mixed;
    bool ended;
    bool cut;
};

struct token_log *token_log_create(const struct tokenizer *tokenizer)
{
    struct token_log *log = must_alloc(1, sizeof *log);
    log->tokenizer = tokenizer;
    log->at_start = true;
    return log;
}

void token_log_destroy(struct token_log *log)
{
    if (!log)
        return;
    text_buffer_fini(&log->scratch);
    free(log->queue);
    free(log);
}

static struct queued *queue_add(struct token_log *log)
{
    if (log->first > 0 && log->first + log->count == log->capacity) {
        memmove(log->queue, log->queue + log->first, log->count * sizeof *log->queue);
        log->first = 0;
    }
    if (log->count == log->capacity) {
        size_t capacity = log->capacity ? 2 * log->capacity : 8;
        struct queued *grown = realloc(log->queue, capacity * sizeof *grown);
        must(grown != NULL); /* bounded by the context */
        log->queue = grown;
        log->capacity = capacity;
    }
    struct queued *added = &log->queue[log->first + log->count++];
    *added = (struct queued){0};
    return added;
}

void token_log_push(struct token_log *log, struct token_logprob own,
                    const struct token_logprob *alternatives, uint32_t alternative_count)
{
    must(alternative_count <= LIMIT_TOP_LOGPROBS);
    struct queued *queued = queue_add(log);
    struct token_log_entry *entry = &queued->entry;
    entry->own = own;
    entry->alternative_count = alternative_count;
    if (alternative_count > 0)
        memcpy(entry->alternatives, alternatives, alternative_count * sizeof *alternatives);
    entry->text_offset = log->decoded_characters;
    queued->begin = log->decoded_bytes;
    queued->before = log->utf8;

    const char *bytes = "";
    size_t count = 0;
    if (!tokenizer_is_special(log->tokenizer, own.token))
        tokenizer_token_bytes(log->tokenizer, own.token, &bytes, &count);
    if (log->at_start && count > 0) {
        log->at_start = false;
        if (bytes[0] == ' ' && tokenizer_strips_space(log->tokenizer))
            entry->skipped_bytes = 1;
    }
    entry->shown_bytes = count - entry->skipped_bytes;
    text_buffer_clear(&log->scratch);
    utf8_stream_push(&log->utf8, bytes + entry->skipped_bytes, entry->shown_bytes, &log->scratch);
    log->decoded_bytes += log->scratch.length;
    log->decoded_characters += utf8_characters(log->scratch.bytes, log->scratch.length);
    queued->end = log->decoded_bytes + (log->utf8.pending_bytes > 0);
}

void token_log_show(struct token_log *log, size_t bytes)
{
    log->shown_bytes += bytes;
}

void token_log_set_mixed(struct token_log *log)
{
    log->mixed = true;
}

void token_log_end(struct token_log *log, bool cut)
{
    log->ended = true;
    log->cut = cut;
}

/* The part of the token before the cut: as many bytes as the shown text was decoded from. False if
 * there is none. */
static bool cut_apply(struct token_log *log, struct queued *queued)
{
    const char *bytes;
    size_t count;
    size_t kept = 0;
    struct utf8_stream utf8 = queued->before;
    uint64_t decoded = queued->begin;
    tokenizer_token_bytes(log->tokenizer, queued->entry.own.token, &bytes, &count);
    for (; kept < queued->entry.shown_bytes; kept++) {
        text_buffer_clear(&log->scratch);
        utf8_stream_push(&utf8, bytes + queued->entry.skipped_bytes + kept, 1, &log->scratch);
        decoded += log->scratch.length;
        if (decoded > log->shown_bytes || (decoded == log->shown_bytes && utf8.pending_bytes > 0))
            break;
    }
    queued->entry.shown_bytes = kept;
    return kept > 0;
}

bool token_log_take(struct token_log *log, struct token_log_entry *entry)
{
    while (log->count > 0) {
        struct queued *queued = &log->queue[log->first];
        bool shown = queued->end <= log->shown_bytes;
        if (!shown && !log->mixed && !log->ended)
            return false;
        bool kept = shown || log->mixed || !log->cut || cut_apply(log, queued);
        *entry = queued->entry;
        log->first++;
        log->count--;
        if (kept)
            return true;
    }
    log->first = 0;
    return false;
}

/* --- JSON ------------------------------------------------------------------------------------ */

void token_log_write_logprob(float logprob, struct text_buffer *out)
{
    text_buffer_append_format(out, "%.6g", (double)(isfinite(logprob) ? logprob : MINIMUM_LOGPROB));
}

static void text_write(const char *bytes, size_t count, struct text_buffer *out)
{
    struct text_buffer valid = {0};
    struct utf8_stream utf8 = {0};
    utf8_stream_push(&utf8, bytes, count, &valid);
    utf8_stream_finish(&utf8, &valid);
    text_buffer_append_json_string(out, valid.bytes ? valid.bytes : "", valid.length);
    text_buffer_fini(&valid);
}

void token_log_write_text(const struct tokenizer *tokenizer, uint32_t token,
                          struct text_buffer *out)
{
    const char *bytes;
    size_t count;
    tokenizer_token_bytes(tokenizer, token, &bytes, &count);
    text_write(bytes, count, out);
}

static void bytes_write(const char *bytes, size_t count, struct text_buffer *out)
{
    text_buffer_append_text(out, "[");
    for (size_t i = 0; i < count; i++)
        text_buffer_append_format(out, "%s%u", i ? "," : "", (unsigned)(unsigned char)bytes[i]);
    text_buffer_append_text(out, "]");
}

static void entry_write(const struct token_log *log, struct token_logprob one, size_t skipped_bytes,
                        size_t shown_bytes, struct text_buffer *out)
{
    const char *bytes;
    size_t count;
    tokenizer_token_bytes(log->tokenizer, one.token, &bytes, &count);
    text_buffer_append_text(out, "{\"token\":");
    text_write(bytes + skipped_bytes, shown_bytes, out);
    text_buffer_append_text(out, ",\"logprob\":");
    token_log_write_logprob(one.logprob, out);
    text_buffer_append_text(out, ",\"bytes\":");
    bytes_write(bytes + skipped_bytes, shown_bytes, out);
}

size_t token_log_write(struct token_log *log, struct text_buffer *out)
{
    struct token_log_entry entry;
    size_t written = 0;
    while (token_log_take(log, &entry)) {
        if (written++ > 0)
            text_buffer_append_text(out, ",");
        entry_write(log, entry.own, entry.skipped_bytes, entry.shown_bytes, out);
        text_buffer_append_text(out, ",\"top_logprobs\":[");
        for (uint32_t i = 0; i < entry.alternative_count; i++) {
            const char *bytes;
            size_t count;
            tokenizer_token_bytes(log->tokenizer, entry.alternatives[i].token, &bytes, &count);
            if (i > 0)
                text_buffer_append_text(out, ",");
            entry_write(log, entry.alternatives[i], 0, count, out);
            text_buffer_append_text(out, "}");
        }
        text_buffer_append_text(out, "]}");
    }
    return written;
}
