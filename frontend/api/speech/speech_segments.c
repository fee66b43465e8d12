/*
 * Two timestamps in a row end one segment and begin the next. What follows the last pair is cut off by the window's
 * end, so it is dropped and the next window begins there, unless a single timestamp at the end says that there is no
 * more speech. A window without pairs is one segment.
 *
 * A window that would not move (its last pair is at 0) moves by all of its rows, where transformers' code would not end.
 */
#include "frontend/api/speech/speech_segments.h"

#define ROWS_PER_STAMP 2u

static bool is_stamp(const struct speech_window_tokens *window, uint32_t at)
{
    return at < window->count && window->ids[at] >= window->first_stamp;
}

static uint32_t stamp_at(const struct speech_window_tokens *window, uint32_t at)
{
    return is_stamp(window, at) ? window->ids[at] - window->first_stamp : 0;
}

static uint32_t whole(const struct speech_window_tokens *window, struct speech_segment *segment,
                      uint32_t *advance)
{
    *advance = window->rows;
    *segment = (struct speech_segment){0, window->count, 0, window->rows / ROWS_PER_STAMP};
    for (uint32_t i = window->count; i-- > 0;)
        if (is_stamp(window, i)) {
            if (stamp_at(window, i) > 0)
                segment->end_stamp = stamp_at(window, i);
            break;
        }
    return 1;
}

uint32_t speech_segments_find(const struct speech_window_tokens *window,
                              struct speech_segment *segments, uint32_t *advance)
{
    uint32_t found = 0, from = 0, last = window->count;
    bool single = last >= 2 && is_stamp(window, last - 1) && !is_stamp(window, last - 2);
    for (uint32_t i = 1; i < window->count; i++) {
        if (!is_stamp(window, i - 1) || !is_stamp(window, i))
            continue;
        segments[found++] =
            (struct speech_segment){from, i, stamp_at(window, from), stamp_at(window, i - 1)};
        from = i;
    }
    if (found == 0)
        return whole(window, segments, advance);
    *advance = window->rows;
    if (single) {
        segments[found++] =
            (struct speech_segment){from, last, stamp_at(window, from), stamp_at(window, last - 1)};
        return found;
    }
    uint32_t rows = stamp_at(window, from - 1) * ROWS_PER_STAMP;
    if (rows > 0 && rows < window->rows)
        *advance = rows;
    return found;
}
