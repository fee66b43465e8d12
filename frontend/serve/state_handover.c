/*
 * Reads messages from the stream as they are complete (contract in state_handover.h). They come from a
 * process of the same user and program, so a wrong one is a bug or another version: the stream is
 * closed then, and what it did not send is made again from the files.
 */
#include "frontend/serve/state_handover.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>

#include "frontend/api/responses/response_journal.h"
#include "frontend/serve/server_handover.h"
#include "proto/log.h"
#include "proto/must.h"

struct state_handover {
    struct state_handover_config config;
    struct bufferevent *stream; /* NULL: it has ended */
    bool left;
};

static void stream_end(struct state_handover *handover, const char *why)
{
    if (why)
        log_warn("the server before this one sent %s; nothing more is taken from it", why);
    bufferevent_free(handover->stream);
    handover->stream = NULL;
    handover->config.ended(handover->config.context);
}

/* False: there is no whole message, or the stream has ended. */
static bool message_take(struct state_handover *handover)
{
    struct evbuffer *input = bufferevent_get_input(handover->stream);
    unsigned char head[RESPONSE_MESSAGE_HEAD];
    if (evbuffer_copyout(input, head, sizeof head) != sizeof head)
        return false;
    size_t bytes =
        (size_t)head[1] | (size_t)head[2] << 8 | (size_t)head[3] << 16 | (size_t)head[4] << 24;
    char kind = (char)head[0];
    if (bytes > handover->config.most_bytes) {
        stream_end(handover, "a message that is too long");
        return false;
    }
    if (evbuffer_get_length(input) < sizeof head + bytes)
        return false;
    if ((kind == RESPONSE_MESSAGE_LEAVE) == handover->left) {
        stream_end(handover, "a message out of order");
        return false;
    }
    evbuffer_drain(input, sizeof head);
    if (kind == RESPONSE_MESSAGE_LEAVE) {
        handover->left = true;
        handover->config.left(handover->config.context);
    } else {
        const char *whole =
            bytes > 0 ? (const char *)evbuffer_pullup(input, (ev_ssize_t)bytes) : "";
        must(whole != NULL);
        handover->config.message(handover->config.context, kind, whole, bytes);
    }
    evbuffer_drain(input, bytes);
    return handover->stream != NULL;
}

static void on_read(struct bufferevent *stream, void *context)
{
    struct state_handover *handover = context;
    (void)stream;
    while (message_take(handover))
        ;
}

static void on_event(struct bufferevent *stream, short what, void *context)
{
    (void)stream;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        stream_end(context, NULL);
}

struct state_handover *state_handover_create(const struct state_handover_config *config)
{
    struct state_handover *handover = must_alloc(1, sizeof *handover);
    handover->config = *config;
    must(evutil_make_socket_nonblocking(config->channel) == 0);
    handover->stream = bufferevent_socket_new(config->base, config->channel, BEV_OPT_CLOSE_ON_FREE);
    must(handover->stream != NULL);
    bufferevent_setcb(handover->stream, on_read, NULL, on_event, handover);
    must(bufferevent_enable(handover->stream, EV_READ | EV_WRITE) == 0);
    return handover;
}

void state_handover_destroy(struct state_handover *handover)
{
    if (!handover)
        return;
    if (handover->stream)
        bufferevent_free(handover->stream);
    free(handover);
}

static void byte_send(struct state_handover *handover, char byte)
{
    if (handover->stream)
        must(bufferevent_write(handover->stream, &byte, 1) == 0);
}

void state_handover_ask(struct state_handover *handover)
{
    byte_send(handover, SERVER_HANDOVER_ASK);
}

void state_handover_report(struct state_handover *handover)
{
    byte_send(handover, SERVER_HANDOVER_READY);
}
