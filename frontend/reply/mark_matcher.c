/*
 * Patterns matched in parallel on one run of bytes.
 *
 * Marks arrive in pieces and share beginnings (`<tool_call>` followed by JSON, or by `<function=`),
 * so each pattern keeps its own position while it may still match. There is no backtracking within
 * a pattern: a placeholder takes as many bytes as it can, and the text after it starts with a byte
 * that it cannot take. Patterns begin with plain text (except those that are tried only at the
 * beginning of an answer), so a failed match is short and rereading it costs a constant factor.
 */
#include "frontend/reply/mark_matcher.h"

#include <string.h>

#include "proto/must.h"

void mark_matcher_init(struct mark_matcher *matcher, const char *const *patterns, size_t count)
{
    *matcher = (struct mark_matcher){0};
    for (size_t i = 0; i < count && patterns[i]; i++) {
        must(i < MARK_PATTERNS);
        matcher->patterns[i] = patterns[i];
        matcher->pattern_count = i + 1;
        unsigned char first = (unsigned char)patterns[i][0];
        if (first == '%')
            memset(matcher->first, 0xff, sizeof matcher->first);
        matcher->first[first / 8] |= (uint8_t)(1u << first % 8);
    }
}

void mark_matcher_reset(struct mark_matcher *matcher)
{
    matcher->held_bytes = 0;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static bool placeholder_takes(char symbol, char byte)
{
    unsigned char c = (unsigned char)byte;
    if (symbol == 'k')
        return c >= 0x20 && c != 0x7f && !strchr("<>\"", byte);
    return c > 0x20 && c != 0x7f && !strchr("\"'`<>()[]{},;=\\", byte);
}

/* One pattern and one byte, the at-th held byte. *unread: the mark ended before this byte. */
static enum mark_result trial_push(struct mark_trial *trial, char byte, size_t at, size_t *unread)
{
    *unread = 0;
    for (;;) {
        char symbol = *trial->rest;
        if (symbol == ' ' && is_blank(byte)) {
            return ++trial->run <= MARK_BLANKS ? MARK_MORE : MARK_NONE;
        } else if (symbol == ' ') {
            trial->rest++;
        } else if (symbol == '%' && placeholder_takes(trial->rest[1], byte)) {
            struct mark_span *span = trial->rest[1] == 'i' ? &trial->id : &trial->name;
            if (trial->run == 0)
                span->begin = (uint16_t)at;
            span->end = (uint16_t)(at + 1);
            return ++trial->run <= LIMIT_TOOL_NAME_BYTES ? MARK_MORE : MARK_NONE;
        } else if (symbol == '%') {
            if (trial->run == 0)
                return MARK_NONE;
            trial->rest += 2;
            if (*trial->rest == '\0') {
                *unread = 1;
                return MARK_FOUND;
            }
        } else {
            if (byte != symbol)
                return MARK_NONE;
            return *++trial->rest == '\0' ? MARK_FOUND : MARK_MORE;
        }
        trial->run = 0;
    }
}

enum mark_result mark_matcher_push(struct mark_matcher *matcher, uint32_t enabled, char byte)
{
    if (matcher->held_bytes == 0) {
        unsigned char first = (unsigned char)byte;
        if ((matcher->first[first / 8] >> first % 8 & 1) == 0) { /* the usual case in text */
            matcher->held[0] = byte;
            matcher->held_bytes = 1;
            return MARK_NONE;
        }
        for (size_t i = 0; i < matcher->pattern_count; i++)
            matcher->trials[i] =
                (struct mark_trial){.rest = (enabled >> i & 1) != 0 ? matcher->patterns[i] : NULL};
    }
    size_t at = matcher->held_bytes;
    must(at < MARK_BYTES);
    matcher->held[matcher->held_bytes++] = byte;
    bool is_alive = false;
    for (size_t i = 0; i < matcher->pattern_count; i++) {
        struct mark_trial *trial = &matcher->trials[i];
        if (!trial->rest)
            continue;
        enum mark_result result = trial_push(trial, byte, at, &matcher->unread);
        if (result == MARK_FOUND) {
            matcher->found = i;
            return MARK_FOUND;
        }
        if (result == MARK_NONE)
            trial->rest = NULL;
        else
            is_alive = true;
    }
    return is_alive ? MARK_MORE : MARK_NONE;
}

uint32_t mark_matcher_alive(const struct mark_matcher *matcher)
{
    uint32_t alive = 0;
    for (size_t i = 0; matcher->held_bytes > 0 && i < matcher->pattern_count; i++)
        alive |= matcher->trials[i].rest ? (uint32_t)1 << i : 0;
    return alive;
}

bool mark_list_contains(const char *const marks[], size_t count, const char *text, size_t length)
{
    for (size_t i = 0; i < count && marks[i]; i++) {
        if (memmem(marks[i], strlen(marks[i]), text, length))
            return true;
    }
    return false;
}
