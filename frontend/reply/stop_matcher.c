/*
 * Stop strings, found wherever pieces end.
 *
 * Text goes to `held`. After each piece the matcher looks for the stop string that is complete
 * first: with "bcd" and "abcde" a text is cut at "bcd", as it is when it arrives byte by byte. If
 * there is one, the text before it is final. Otherwise all text is released except its longest tail
 * that is a proper prefix of some stop string, so at most LIMIT_STOP_BYTES - 1 bytes are held and
 * each push costs O(new bytes * stops) plus that bound.
 */
#include "frontend/reply/stop_matcher.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

void stop_matcher_init(struct stop_matcher *matcher, const struct stop_string *stops, size_t count)
{
    must(count <= LIMIT_STOP_STRINGS);
    *matcher = (struct stop_matcher){.stop_count = count, .found = -1};
    for (size_t i = 0; i < count; i++) {
        must(stops[i].length >= 1 && stops[i].length <= LIMIT_STOP_BYTES);
        char *copy = must_alloc(stops[i].length + 1, 1);
        memcpy(copy, stops[i].bytes, stops[i].length);
        matcher->stops[i] = (struct stop_string){.bytes = copy, .length = stops[i].length};
    }
}

void stop_matcher_fini(struct stop_matcher *matcher)
{
    for (size_t i = 0; i < matcher->stop_count; i++)
        free((char *)(uintptr_t)matcher->stops[i].bytes);
    text_buffer_fini(&matcher->held);
}

/* The beginning of the stop string that is complete first, or SIZE_MAX; *index is its index. */
static size_t first_stop(const struct stop_matcher *matcher, int *index)
{
    size_t start = SIZE_MAX;
    size_t end = SIZE_MAX;
    for (size_t i = 0; i < matcher->stop_count; i++) {
        const struct stop_string *stop = &matcher->stops[i];
        const char *found =
            memmem(matcher->held.bytes, matcher->held.length, stop->bytes, stop->length);
        if (!found)
            continue;
        size_t at = (size_t)(found - matcher->held.bytes);
        if (at + stop->length < end || (at + stop->length == end && at < start)) {
            start = at;
            end = at + stop->length;
            *index = (int)i;
        }
    }
    return start;
}

/* Length of the longest tail of the held text that begins some stop string. */
static size_t open_tail(const struct stop_matcher *matcher)
{
    size_t longest = 0;
    for (size_t i = 0; i < matcher->stop_count; i++) {
        const struct stop_string *stop = &matcher->stops[i];
        size_t limit = stop->length - 1;
        if (limit > matcher->held.length)
            limit = matcher->held.length;
        for (size_t tail = limit; tail > longest; tail--) {
            if (memcmp(matcher->held.bytes + matcher->held.length - tail, stop->bytes, tail) == 0) {
                longest = tail;
                break;
            }
        }
    }
    return longest;
}

bool stop_matcher_push(struct stop_matcher *matcher, const char *bytes, size_t length,
                       struct text_buffer *out)
{
    if (matcher->found >= 0)
        return true;
    if (matcher->stop_count == 0) {
        text_buffer_append(out, bytes, length);
        return false;
    }
    text_buffer_append(&matcher->held, bytes, length);
    out->failed |= matcher->held.failed;
    if (matcher->held.length == 0)
        return false;
    size_t stop = first_stop(matcher, &matcher->found);
    size_t certain = stop != SIZE_MAX ? stop : matcher->held.length - open_tail(matcher);
    if (stop != SIZE_MAX && matcher->include)
        certain += matcher->stops[matcher->found].length;
    text_buffer_append(out, matcher->held.bytes, certain);
    text_buffer_consume(&matcher->held, stop != SIZE_MAX ? matcher->held.length : certain);
    return stop != SIZE_MAX;
}

void stop_matcher_release(struct stop_matcher *matcher, struct text_buffer *out)
{
    if (matcher->found >= 0)
        return;
    text_buffer_append(out, matcher->held.bytes, matcher->held.length);
    text_buffer_clear(&matcher->held);
}

const char *stop_matcher_string(const struct stop_matcher *matcher)
{
    return matcher->found >= 0 ? matcher->stops[matcher->found].bytes : NULL;
}
