/*
 * One request over one connection: connect, send, read the stream, measure.
 */
#ifndef SHOAL_SCRIPTS_LOAD_LOAD_STREAM_H
#define SHOAL_SCRIPTS_LOAD_LOAD_STREAM_H

#include <sys/socket.h>

#include "frontend/base/text_buffer.h"
#include "scripts/load/load_record.h"

#define LOAD_STREAM_BODY_BYTES (256u << 20) /* of one reply; a million chunks of 250 bytes */

struct event_base;
struct load_stream;

/* How the tool misbehaves with this request, if it does. */
enum load_leave {
    LOAD_LEAVE_NEVER = 0,
    LOAD_LEAVE_IN_REQUEST,    /* after some bytes of it */
    LOAD_LEAVE_AFTER_REQUEST, /* some time after all of it */
    LOAD_LEAVE_IN_ANSWER      /* after some pieces of text */
};

struct load_stream_plan {
    bool bad; /* the request must be refused */
    enum load_leave leave;
    bool reset;             /* leave with a reset instead of an end */
    uint32_t leave_bytes;   /* IN_REQUEST */
    uint32_t leave_pieces;  /* IN_ANSWER */
    int64_t leave_delay_us; /* IN_REQUEST, AFTER_REQUEST */
};

struct load_stream_config {
    struct event_base *base;
    const struct sockaddr *address;
    socklen_t address_bytes;
    int64_t timeout_us;
    int64_t begin_us; /* of the run, on the monotonic clock */
    void *context;
    /* It is over; `stream` is gone after the call. Takes over *record. Never called from within
     * load_stream_start(). */
    void (*done)(void *context, struct load_stream *stream, struct load_record *record);
};

/* `request` is copied; `config` outlives the stream. `tag` is the caller's. */
struct load_stream *load_stream_start(const struct load_stream_config *config,
                                      const struct text_buffer *request,
                                      const struct load_stream_plan *plan, uint64_t tag);
uint64_t load_stream_tag(const struct load_stream *stream);
/* Ends it now, as LOAD_STOPPED; done() is called before this returns. */
void load_stream_stop(struct load_stream *stream);

int64_t load_clock_us(void);

#endif
