/*
 * A successor's side of the state directory's hand-over (server_handover.h): the messages of
 * response_journal.h that the server before this one sends, until it ends.
 */
#ifndef SHOAL_FRONTEND_SERVE_STATE_HANDOVER_H
#define SHOAL_FRONTEND_SERVE_STATE_HANDOVER_H

#include <stddef.h>
#include <stdint.h>

struct event_base;
struct state_handover;

struct state_handover_config {
    struct event_base *base;
    int channel;         /* taken over */
    uint64_t most_bytes; /* of a message; a longer one ends the stream */
    void *context;
    void (*left)(void *context); /* the directory is this process's */
    /* RESPONSE or WITHDRAW, after left(). */
    void (*message)(void *context, char kind, const char *bytes, size_t byte_count);
    /* No message follows. After this the hand-over may be destroyed, not before. Without left() the other server
     * has failed. */
    void (*ended)(void *context);
};

struct state_handover *state_handover_create(const struct state_handover_config *config);
void state_handover_destroy(struct state_handover *handover); /* NULL is allowed */
/* Asks for the directory: the model is loaded. */
void state_handover_ask(struct state_handover *handover);
/* This process accepts connections. */
void state_handover_report(struct state_handover *handover);

#endif
