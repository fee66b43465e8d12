/*
 * Repeats the stream of a stored response, from any of its events, while it is made or afterwards.
 * The events are those that a client of the first stream gets, with the same numbers.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_REPLAY_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_REPLAY_H

#include "frontend/api/responses/response_store.h"

struct responses_replay;

enum responses_replay_state {
    RESPONSES_REPLAY_WAITS, /* until the answer goes on */
    RESPONSES_REPLAY_MORE,  /* more events are known */
    RESPONSES_REPLAY_ENDED
};

/* Holds a reference to the record until it is destroyed. Events before `first_sequence` are left
 * out. */
struct responses_replay *responses_replay_create(struct response_record *record,
                                                 uint64_t first_sequence);
void responses_replay_destroy(struct responses_replay *replay);
const struct response_record *responses_replay_record(const struct responses_replay *replay);

/* Appends the next events, until `out` holds `enough_bytes` or all known events are written. */
enum responses_replay_state responses_replay_advance(struct responses_replay *replay,
                                                     size_t enough_bytes, struct text_buffer *out);

#endif
