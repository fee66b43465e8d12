/*
 * The stages of an answer's text, in order:
 *
 *     text -> reasoning_splitter -> tool_call_parser -> stop_matcher -> events
 *     text -> harmony_parser -------------------------> stop_matcher -> events
 *
 * A stage that the answer does not need is left out. This file connects the stages: content goes to
 * the next stage, other events skip the later stages; text held back as the possible beginning of a
 * stop string is emitted before any event that is not content; after a stop string nothing is
 * emitted.
 */
#include "frontend/reply/reply_parser.h"

#include <stdlib.h>

#include "frontend/reply/harmony_parser.h"
#include "frontend/reply/reasoning_splitter.h"
#include "frontend/reply/tool_call_parser.h"
#include "proto/must.h"

struct reply_parser {
    struct reply_event_sink sink;
    struct reasoning_splitter *splitter; /* NULL: no reasoning is split off, or harmony does it */
    struct tool_call_parser *calls;      /* NULL: calls are content, or harmony reads them */
    struct harmony_parser *harmony;
    struct stop_matcher stops;
    struct text_buffer content;       /* scratch */
    struct reply_token_counts counts; /* used without a splitter */
    uint32_t undecided_headers;       /* harmony: tokens of headers whose kind is not known yet */
};

/* --- between the stages ----------------------------------------------------------------------- */

static void emit_content(struct reply_parser *parser)
{
    if (parser->content.length > 0)
        parser->sink.event(parser->sink.context,
                           &(struct reply_event){.kind = REPLY_CONTENT,
                                                 .bytes = parser->content.bytes,
                                                 .length = parser->content.length});
    text_buffer_clear(&parser->content);
}

/* The last stage: stop strings. */
static void stage_stops(void *context, const struct reply_event *event)
{
    struct reply_parser *parser = context;
    if (parser->stops.found >= 0)
        return;
    if (event->kind == REPLY_CONTENT) {
        (void)stop_matcher_push(&parser->stops, event->bytes, event->length, &parser->content);
        emit_content(parser);
        return;
    }
    stop_matcher_release(&parser->stops, &parser->content);
    emit_content(parser);
    parser->sink.event(parser->sink.context, event);
}

/* An event of the splitter. */
static void stage_split(void *context, const struct reply_event *event)
{
    struct reply_parser *parser = context;
    if (event->kind == REPLY_CONTENT && parser->calls && parser->stops.found < 0)
        tool_call_parser_push(parser->calls, event->bytes, event->length);
    else
        stage_stops(parser, event);
}

static bool split_in_call(void *context)
{
    const struct reply_parser *parser = context;
    return tool_call_parser_in_call(parser->calls);
}

/* --- create and destroy ----------------------------------------------------------------------- */

static void parser_make_stages(struct reply_parser *parser,
                               const struct reply_parser_config *config)
{
    const struct reasoning_format *reasoning = config->reasoning;
    const struct reply_event_sink last = {parser, stage_stops};
    if (reasoning && reasoning->joint) {
        parser->harmony = harmony_parser_create(config->tools != NULL, last);
        must(parser->harmony);
        return;
    }
    if (config->tools && !tool_format_is_harmony(config->tools)) {
        parser->calls = tool_call_parser_create(config->tools, config->offered_tools, last);
        must(parser->calls);
    }
    if (reasoning) {
        const char *marks[REASONING_CALL_MARKS];
        size_t count = 0;
        while (parser->calls && count < REASONING_CALL_MARKS &&
               (marks[count] = tool_format_opening(config->tools, count)))
            count++;
        const struct reasoning_splitter_config splitter = {
            .format = reasoning,
            .open = config->reasoning_open,
            .call_marks = marks,
            .call_mark_count = count,
            .sink = {parser, stage_split},
            .in_call = parser->calls ? split_in_call : NULL,
        };
        parser->splitter = reasoning_splitter_create(&splitter);
    }
}

struct reply_parser *reply_parser_create(const struct reply_parser_config *config)
{
    struct reply_parser *parser = must_alloc(1, sizeof *parser);
    parser->sink = config->sink;
    stop_matcher_init(&parser->stops, config->stops, config->stop_count);
    parser->stops.include = config->include_stop;
    parser_make_stages(parser, config);
    return parser;
}

void reply_parser_destroy(struct reply_parser *parser)
{
    if (!parser)
        return;
    reasoning_splitter_destroy(parser->splitter);
    tool_call_parser_destroy(parser->calls);
    harmony_parser_destroy(parser->harmony);
    stop_matcher_fini(&parser->stops);
    text_buffer_fini(&parser->content);
    free(parser);
}

/* --- text ------------------------------------------------------------------------------------- */

/* Headers of messages other than calls are tags; a header's end decides. */
static void headers_decide(struct reply_parser *parser, enum harmony_place place)
{
    if (place == HARMONY_MARKS)
        return;
    if (place == HARMONY_CALL)
        parser->counts.rest += parser->undecided_headers;
    else
        parser->counts.tags += parser->undecided_headers;
    parser->undecided_headers = 0;
}

/* A harmony mark is one token, so the places before and after a token give its kind. */
static void harmony_count(struct reply_parser *parser, enum harmony_place before)
{
    enum harmony_place after = harmony_parser_place(parser->harmony);
    if (before == HARMONY_CALL) /* its last brace ended it, which is not a mark */
        parser->counts.rest++;
    else if (before == HARMONY_MARKS || after == HARMONY_MARKS)
        parser->undecided_headers++;
    else if (after == HARMONY_REASONING)
        parser->counts.reasoning++;
    else
        parser->counts.rest++;
    headers_decide(parser, after);
}

static void push_text(struct reply_parser *parser, const char *bytes, size_t length, bool is_token)
{
    if (parser->splitter) {
        reasoning_splitter_push(parser->splitter, bytes, length, is_token);
    } else if (parser->harmony) {
        enum harmony_place before = harmony_parser_place(parser->harmony);
        harmony_parser_push(parser->harmony, bytes, length);
        if (is_token)
            harmony_count(parser, before);
    } else {
        parser->counts.rest += is_token;
        if (length > 0)
            stage_split(parser, &(struct reply_event){
                                    .kind = REPLY_CONTENT, .bytes = bytes, .length = length});
    }
}

bool reply_parser_push(struct reply_parser *parser, const char *bytes, size_t length)
{
    push_text(parser, bytes, length, true);
    return parser->stops.found >= 0;
}

bool reply_parser_push_rest(struct reply_parser *parser, const char *bytes, size_t length)
{
    push_text(parser, bytes, length, false);
    return parser->stops.found >= 0;
}

void reply_parser_finish(struct reply_parser *parser, bool truncated)
{
    if (parser->splitter)
        reasoning_splitter_finish(parser->splitter);
    if (parser->calls)
        tool_call_parser_finish(parser->calls, truncated);
    if (parser->harmony) {
        harmony_parser_finish(parser->harmony, truncated);
        headers_decide(parser, HARMONY_CONTENT);
    }
    stop_matcher_release(&parser->stops, &parser->content);
    emit_content(parser);
}

/* --- queries ---------------------------------------------------------------------------------- */

const char *reply_parser_stop_string(const struct reply_parser *parser)
{
    return stop_matcher_string(&parser->stops);
}

uint32_t reply_parser_calls(const struct reply_parser *parser)
{
    if (parser->harmony)
        return harmony_parser_count(parser->harmony);
    return parser->calls ? tool_call_parser_count(parser->calls) : 0;
}

bool reply_parser_failed(const struct reply_parser *parser)
{
    return parser->content.failed ||
           (parser->splitter && reasoning_splitter_failed(parser->splitter)) ||
           (parser->calls && tool_call_parser_failed(parser->calls)) ||
           (parser->harmony && harmony_parser_failed(parser->harmony));
}

struct reply_token_counts reply_parser_counts(const struct reply_parser *parser)
{
    return parser->splitter ? reasoning_splitter_counts(parser->splitter) : parser->counts;
}
