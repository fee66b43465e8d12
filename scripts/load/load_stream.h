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

/* How the tool misbehaves in this request, if at all. */
enum load_disconnect {
    LOAD_DISCONNECT_NEVER = 0,
    LOAD_DISCONNECT_IN_REQUEST,    /* after some bytes of it */
    LOAD_DISCONNECT_AFTER_REQUEST, /* some time after all of it */
    LOAD_DISCONNECT_IN_ANSWER      /* after some pieces of text */
};

struct load_stream_plan {
    bool bad; /* the server must refuse the request */
    enum load_disconnect disconnect;
    bool reset;                  /* disconnect with a reset instead of an orderly end */
    uint32_t disconnect_bytes;   /* IN_REQUEST */
    uint32_t disconnect_pieces;  /* IN_ANSWER */
    int64_t disconnect_delay_us; /* IN_REQUEST, AFTER_REQUEST */
};

struct load_stream_config {
    struct event_base *base;
    const struct sockaddr *address;
    socklen_t address_bytes;
    int64_t timeout_us;
    int64_t begin_us; /* of the run, on the monotonic clock */
    void *context;
    /* The request has ended; `stream` is freed after the call. Takes ownership of *record. Not
     * called from within load_stream_start(). */
    void (*done)(void *context, struct load_stream *stream, struct load_record *record);
};

/* `request` is copied; `config` must outlive the stream. `tag` is for the caller. */
struct load_stream *load_stream_start(const struct load_stream_config *config,
                                      const struct text_buffer *request,
                                      const struct load_stream_plan *plan, uint64_t tag);
uint64_t load_stream_tag(const struct load_stream *stream);
/* Ends it now, as LOAD_STOPPED; done() is called before this returns. */
void load_stream_stop(struct load_stream *stream);

int64_t load_clock_us(void);

#endif
