/*
 * Any text as an answer in any format of reasoning and of tool calls. Must hold: the result is the
 * same for the whole text, byte by byte and in pieces of other lengths; events keep the rules of
 * reply_event.h, with whole characters (event_log.c); calls that ended have JSON for arguments;
 * every token is counted once; the output is no longer than the escaped input.
 *
 * Input: a letter for the format of reasoning, one for that of calls ('a': none), one whose bits
 * are switches, then the text.
 */
#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/utf8_stream.h"
#include "frontend/reply/reply_parser.h"
#include "proto/must.h"
#include "tests/support/event_log.h"

enum { SWITCH_OPEN = 1, SWITCH_TRUNCATED = 2, SWITCH_STOPS = 4, SWITCH_CUSTOM = 8 };

static const char *const reasoning_names[] = {
    NULL,         "think",   "harmony", "gemma4",      "cohere", "mistral",    "seed_oss",
    "minimax_m3", "kimi_vl", "granite", "exaone_deep", "glm_v",  "deepseek_r1"};
enum { REASONING_NAMES_COUNT = sizeof reasoning_names / sizeof *reasoning_names };

static struct reply_parser_config config_from(const uint8_t head[3], const cJSON *tools,
                                              struct reasoning_format *custom)
{
    static const struct stop_string stops[] = {{"END", 3}, {"\n\n", 2}, {"ND", 2}};
    size_t tool_formats = 0;
    while (tool_format_at(tool_formats))
        tool_formats++;
    const char *name = reasoning_names[(uint8_t)(head[0] - 'a') % REASONING_NAMES_COUNT];
    size_t format = (uint8_t)(head[1] - 'a') % (tool_formats + 1);
    bool has_stops = (head[2] & SWITCH_STOPS) != 0;
    struct reply_parser_config config = {
        .reasoning = name ? reasoning_format_find(name) : NULL,
        .reasoning_open = (head[2] & SWITCH_OPEN) != 0,
        .tools = format ? tool_format_at(format - 1) : NULL,
        .offered_tools = tools,
        .stops = stops,
        .stop_count = has_stops ? sizeof stops / sizeof *stops : 0,
    };
    if ((head[2] & SWITCH_CUSTOM) != 0 &&
        reasoning_format_set_custom(custom, config.reasoning, "<t", "\n<t>\n") == RESULT_OK)
        config.reasoning = custom;
    return config;
}

/* Pieces of `piece` bytes; 0: of lengths that follow from the text. */
static void parse(struct reply_parser_config config, bool truncated, const struct text_buffer *text,
                  size_t piece, struct event_log *log)
{
    config.sink = event_log_sink(log);
    struct reply_parser *parser = reply_parser_create(&config);
    struct utf8_stream utf8 = {0};
    struct text_buffer whole = {0};
    uint32_t random = (uint32_t)text->length;
    uint32_t tokens = 0;
    bool stopped = false;
    for (size_t at = 0; at < text->length && !stopped; tokens++) {
        random = random * 1664525u + 1013904223u + (uint8_t)text->bytes[at];
        size_t length = piece ? piece : (random >> 24) % 12;
        if (length > text->length - at)
            length = text->length - at;
        text_buffer_clear(&whole);
        utf8_stream_push(&utf8, text->bytes + at, length, &whole);
        stopped = reply_parser_push(parser, whole.bytes, whole.length);
        at += length;
    }
    reply_parser_finish(parser, truncated);
    must(!reply_parser_failed(parser));
    must(stopped == (reply_parser_stop_string(parser) != NULL) || !stopped);
    must(reply_parser_calls(parser) == log->calls || reply_parser_stop_string(parser));
    struct reply_token_counts counts = reply_parser_counts(parser);
    must(counts.reasoning + counts.tags + counts.rest == tokens);
    reply_parser_destroy(parser);
    text_buffer_fini(&whole);
}

static void check_calls(const struct event_log *log, bool truncated)
{
    for (size_t i = 0; i < log->count; i++) {
        const struct event_log_entry *entry = &log->entries[i];
        if (entry->kind != REPLY_CALL_BEGIN)
            continue;
        must(entry->ended || (truncated && i + 1 == log->count));
        if (!entry->ended)
            continue;
        must(entry->text.length > 0);
        cJSON *arguments = cJSON_ParseWithLength(entry->text.bytes, entry->text.length);
        must(cJSON_IsObject(arguments));
        cJSON_Delete(arguments);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    static cJSON *tools;
    if (!tools)
        tools = cJSON_Parse(
            "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"
            "\"object\",\"properties\":{\"x\":{\"type\":\"integer\"},\"text\":{\"type\":\"string\"}"
            ","
            "\"list\":{\"type\":\"array\"}}}}}]");
    if (count < 3)
        return 0;
    struct utf8_stream utf8 = {0};
    struct text_buffer text = {0};
    utf8_stream_push(&utf8, (const char *)data + 3, count - 3, &text);
    utf8_stream_finish(&utf8, &text);
    struct reasoning_format custom;
    const struct reply_parser_config config = config_from(data, tools, &custom);
    bool truncated = (data[2] & SWITCH_TRUNCATED) != 0;
    struct event_log whole = {0};
    parse(config, truncated, &text, text.length, &whole);
    must(whole.bytes <= 8 * text.length + 64);
    check_calls(&whole, truncated);
    for (size_t piece = 0; piece < 2; piece++) {
        struct event_log pieces = {0};
        parse(config, truncated, &text, piece, &pieces);
        must(event_log_equal(&whole, &pieces));
        event_log_fini(&pieces);
    }
    event_log_fini(&whole);
    text_buffer_fini(&text);
    return 0;
}
