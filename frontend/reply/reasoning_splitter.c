/*
 * Splits off reasoning while text streams.
 *
 * The undecided text is scanned byte by byte for the marks that count in the current state: tags,
 * frames, beginnings of calls. A byte that cannot begin a mark is decided at once; if a mark may
 * begin and the text ends, the rest waits for the next piece. Each byte is therefore scanned a
 * bounded number of times, however the text is cut.
 *
 * Decided text passes three stages: the token tally, the tracker of lines and fences (which decides
 * where tags count), and the trimming of white space, which holds back white space that may precede
 * a tag.
 */
#include "frontend/reply/reasoning_splitter.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/base/text_buffer.h"
#include "frontend/reply/token_tally.h"
#include "proto/must.h"

enum mark_kind { MARK_OPENING, MARK_CLOSING, MARK_FRAME, MARK_CALL };

struct splitter_mark {
    char *text; /* own copy */
    size_t length;
    enum mark_kind kind;
    bool everywhere; /* else at a line's start only */
};

enum { SPLITTER_MARKS = 3 * REASONING_TAGS + REASONING_CALL_MARKS };

/* The position of the text's end in its line, and whether it is inside a fence. */
struct line_tracker {
    bool at_start; /* only blanks since the line began */
    bool fenced;
    uint8_t ticks; /* length of a run of ` that began the line; 3 open or close a fence */
};

struct reasoning_splitter {
    struct reply_event_sink sink;
    bool (*in_call)(void *sink_context);
    struct splitter_mark marks[SPLITTER_MARKS];
    size_t mark_count;
    bool begins_mark[256]; /* by first byte */
    struct text_buffer undecided;
    struct token_tally tally;
    struct line_tracker line;
    bool inside;
    bool has_text; /* any non-space text since the current section, or the text between sections,
                    * began
                    */
    bool trim;     /* white space that comes now is dropped */
    bool glued;    /* the last byte of content so far is not white space */
    uint8_t space_bytes;
    char space[REASONING_SPACE_BYTES]; /* decided, but may be trimmed */
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void line_track(struct line_tracker *line, char c)
{
    if (c == '\n') {
        line->at_start = true;
        line->ticks = 0;
    } else if (c == '`' && (line->at_start || line->ticks > 0)) {
        line->at_start = false;
        if (line->ticks < 3 && ++line->ticks == 3)
            line->fenced = !line->fenced;
    } else if (!is_space(c) || line->ticks > 0) {
        line->at_start = false;
        line->ticks = 0;
    }
}

/* --- create and destroy ----------------------------------------------------------------------- */

static void add_mark(struct reasoning_splitter *splitter, enum mark_kind kind, const char *text,
                     bool everywhere)
{
    size_t length = strlen(text);
    must(length > 0 && length <= LIMIT_REASONING_TAG_BYTES &&
         splitter->mark_count < SPLITTER_MARKS);
    splitter->marks[splitter->mark_count++] =
        (struct splitter_mark){must_strdup(text), length, kind, everywhere};
    splitter->begins_mark[(unsigned char)text[0]] = true;
}

static void add_tags(struct reasoning_splitter *splitter, enum mark_kind kind,
                     const char *const texts[], bool everywhere)
{
    for (size_t i = 0; i < REASONING_TAGS && texts[i]; i++)
        add_mark(splitter, kind, texts[i], everywhere);
}

/* Control tokens are spelled <|like this|> or with the full-width bar. */
static bool looks_like_control(const char *text)
{
    return strchr(text, '|') || strstr(text, "\uff5c");
}

static void state_begin(struct reasoning_splitter *splitter, bool inside, bool trim)
{
    splitter->inside = inside;
    splitter->has_text = false;
    splitter->trim = trim;
    splitter->space_bytes = 0;
    splitter->line = (struct line_tracker){.at_start = true};
}

struct reasoning_splitter *reasoning_splitter_create(const struct reasoning_splitter_config *config)
{
    const struct reasoning_format *format = config->format;
    struct reasoning_splitter *splitter = must_alloc(1, sizeof *splitter);
    splitter->sink = config->sink;
    splitter->in_call = config->in_call;
    add_tags(splitter, MARK_OPENING, format->opening, format->control_tags);
    add_tags(splitter, MARK_CLOSING, format->closing, true);
    add_tags(splitter, MARK_FRAME, format->frames, true);
    for (size_t i = 0; i < config->call_mark_count; i++)
        add_mark(splitter, MARK_CALL, config->call_marks[i],
                 format->control_tags || looks_like_control(config->call_marks[i]));
    state_begin(splitter, config->open, config->open);
    return splitter;
}

void reasoning_splitter_destroy(struct reasoning_splitter *splitter)
{
    if (!splitter)
        return;
    for (size_t i = 0; i < splitter->mark_count; i++)
        free(splitter->marks[i].text);
    text_buffer_fini(&splitter->undecided);
    free(splitter);
}

/* --- decided text ----------------------------------------------------------------------------- */

static void send_certain(struct reasoning_splitter *splitter, const char *bytes, size_t length)
{
    if (length == 0)
        return;
    if (!splitter->inside)
        splitter->glued = !is_space(bytes[length - 1]);
    splitter->sink.event(
        splitter->sink.context,
        &(struct reply_event){.kind = splitter->inside ? REPLY_REASONING : REPLY_CONTENT,
                              .bytes = bytes,
                              .length = length});
}

static void emit_space(struct reasoning_splitter *splitter)
{
    send_certain(splitter, splitter->space, splitter->space_bytes);
    splitter->space_bytes = 0;
}

/* Holds white space back; if it exceeds the bound, the oldest is emitted. */
static void hold_space(struct reasoning_splitter *splitter, const char *bytes, size_t length)
{
    if (length == 0)
        return;
    if (length > REASONING_SPACE_BYTES) {
        emit_space(splitter);
        send_certain(splitter, bytes, length - REASONING_SPACE_BYTES);
        bytes += length - REASONING_SPACE_BYTES;
        length = REASONING_SPACE_BYTES;
    }
    size_t room = REASONING_SPACE_BYTES - splitter->space_bytes;
    size_t over = length > room ? length - room : 0;
    send_certain(splitter, splitter->space, over);
    memmove(splitter->space, splitter->space + over, splitter->space_bytes - over);
    memcpy(splitter->space + splitter->space_bytes - over, bytes, length);
    splitter->space_bytes = (uint8_t)(splitter->space_bytes - over + length);
}

/* Emits text of the current state. */
static void emit_decided(struct reasoning_splitter *splitter, const char *bytes, size_t length)
{
    if (length == 0)
        return;
    token_tally_decide(&splitter->tally, length, splitter->inside ? TOKEN_REASONING : TOKEN_REST);
    for (size_t i = 0; i < length; i++)
        line_track(&splitter->line, bytes[i]);
    while (splitter->trim && length > 0 && is_space(*bytes)) {
        bytes++;
        length--;
    }
    size_t spoken = length; /* without the white space at its end */
    while (spoken > 0 && is_space(bytes[spoken - 1]))
        spoken--;
    if (spoken > 0) {
        splitter->trim = false;
        splitter->has_text = true;
        emit_space(splitter);
        send_certain(splitter, bytes, spoken);
    }
    if (splitter->inside || !splitter->has_text)
        hold_space(splitter, bytes + spoken, length - spoken);
    else
        send_certain(splitter, bytes + spoken, length - spoken);
}

/* --- marks ------------------------------------------------------------------------------------ */

static bool mark_counts(const struct reasoning_splitter *splitter, const struct splitter_mark *mark)
{
    bool placed = mark->everywhere || (splitter->line.at_start && !splitter->line.fenced);
    switch (mark->kind) {
    case MARK_OPENING: return splitter->inside ? !splitter->has_text : placed;
    case MARK_CLOSING: return splitter->inside || !splitter->has_text;
    case MARK_FRAME: return !splitter->inside;
    case MARK_CALL: return splitter->inside && placed;
    }
    return false;
}

/* True if some mark, in any state, begins with the text so far. */
static bool may_be_mark(const struct reasoning_splitter *splitter, const char *text, size_t length)
{
    if (!splitter->begins_mark[(unsigned char)*text])
        return false;
    for (size_t i = 0; i < splitter->mark_count; i++) {
        const struct splitter_mark *mark = &splitter->marks[i];
        if (memcmp(mark->text, text, mark->length < length ? mark->length : length) == 0)
            return true;
    }
    return false;
}

/* The longest mark at the text's beginning, or NULL. *more: a longer one is still possible. */
static const struct splitter_mark *mark_at(const struct reasoning_splitter *splitter,
                                           const char *text, size_t length, bool *more)
{
    const struct splitter_mark *longest = NULL;
    *more = false;
    for (size_t i = 0; i < splitter->mark_count; i++) {
        const struct splitter_mark *mark = &splitter->marks[i];
        size_t common = mark->length < length ? mark->length : length;
        if (memcmp(mark->text, text, common) != 0 || !mark_counts(splitter, mark))
            continue;
        if (common < mark->length)
            *more = true;
        else if (!longest || mark->length > longest->length)
            longest = mark;
    }
    return longest;
}

/* Applies a mark that counts; returns how many of its bytes are removed. */
static size_t mark_pass(struct reasoning_splitter *splitter, const struct splitter_mark *mark)
{
    if (mark->kind == MARK_CALL) {
        state_begin(splitter, false, false);
        return 0;
    }
    token_tally_decide(&splitter->tally, mark->length, TOKEN_TAG);
    if (mark->kind == MARK_OPENING)
        state_begin(splitter, true, true);
    else if (mark->kind == MARK_CLOSING)
        state_begin(splitter, false, !splitter->glued);
    return mark->length;
}

/* Decides as much of the undecided text as possible; all of it at the end. */
static void scan(struct reasoning_splitter *splitter, bool at_end)
{
    const char *text = splitter->undecided.bytes;
    size_t length = splitter->undecided.length;
    size_t plain = 0; /* start of the text that is decided but not emitted */
    size_t at = 0;
    if (length == 0)
        return;
    while (at < length) {
        if (!may_be_mark(splitter, text + at, length - at)) {
            at++;
            continue;
        }
        /* Whether a mark counts depends on the text before it. */
        emit_decided(splitter, text + plain, at - plain);
        plain = at;
        bool more;
        const struct splitter_mark *mark = mark_at(splitter, text + at, length - at, &more);
        if ((mark || more) && !splitter->inside && splitter->in_call &&
            splitter->in_call(splitter->sink.context)) {
            at++;
            continue;
        }
        if (more && !at_end)
            break;
        if (mark)
            plain = at += mark_pass(splitter, mark);
        else
            at++;
    }
    emit_decided(splitter, text + plain, at - plain);
    text_buffer_consume(&splitter->undecided, at);
}

void reasoning_splitter_push(struct reasoning_splitter *splitter, const char *bytes, size_t length,
                             bool is_token)
{
    if (length == 0) {
        splitter->tally.counts[splitter->inside ? TOKEN_REASONING : TOKEN_REST] += is_token;
        return;
    }
    token_tally_arrive(&splitter->tally, length, is_token);
    text_buffer_append(&splitter->undecided, bytes, length);
    if (!splitter->undecided.failed)
        scan(splitter, false);
}

void reasoning_splitter_finish(struct reasoning_splitter *splitter)
{
    if (splitter->undecided.failed)
        return;
    scan(splitter, true);
    emit_space(splitter);
}

struct reply_token_counts reasoning_splitter_counts(const struct reasoning_splitter *splitter)
{
    const uint32_t *counts = splitter->tally.counts;
    return (struct reply_token_counts){.reasoning = counts[TOKEN_REASONING],
                                       .tags = counts[TOKEN_TAG],
                                       .rest = counts[TOKEN_REST]};
}

bool reasoning_splitter_failed(const struct reasoning_splitter *splitter)
{
    return splitter->undecided.failed;
}
