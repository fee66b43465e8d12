/*
 * The memory of OpenAI's Responses API: what was asked and answered, by id, so that a response can
 * be fetched, continued, listed, deleted, and watched while it is made.
 *
 * A record is made when a request is read (on a preparation thread), published under its id when
 * its answer begins (on the loop), and finished with its outcome; from then on it does not change.
 * It refers to the record that it continues, so that a conversation is a chain and nothing of it is
 * kept twice; who holds a record holds the whole chain, also when parts of it were deleted or
 * evicted meanwhile: then they are found no more, by nobody.
 *
 * The store has one bound in bytes and one in records. Finished records make room, those first that
 * were not looked at for longest; records of answers in the making are never thrown away, and when
 * they alone fill the store, it takes no more.
 *
 * Every function may be called from any thread.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_STORE_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_STORE_H

#include <stdint.h>

#include "frontend/api/responses/response_items.h"
#include "frontend/base/client_key.h"
#include "proto/result.h"

struct response_store;
struct response_record;

enum response_status {
    RESPONSE_QUEUED = 0,
    RESPONSE_IN_PROGRESS,
    RESPONSE_COMPLETED, /* this and what follows is final */
    RESPONSE_INCOMPLETE,
    RESPONSE_FAILED,
    RESPONSE_CANCELLED
};

/* "queued", … */
const char *response_status_name(enum response_status status);
bool response_status_is_final(enum response_status status);

/* What the request decides. */
struct response_draft {
    struct client_key client_key;
    bool kept; /* false: counted nowhere and never published (store: false) */
    struct response_record *previous; /* what it continues, or NULL; a reference, taken over */
    struct response_items input;      /* its own, not the chain's; taken over */
    struct text_buffer fields; /* members of the response object, as `,"model":"…"…`; taken over */
};

/* What came of it. */
struct response_outcome {
    enum response_status status;
    struct response_items output; /* taken over */
    struct text_buffer fields;    /* members: error, incomplete_details, usage; taken over */
};

struct response_store *response_store_create(uint64_t max_bytes, uint32_t max_records);
/* After every reference to a record of it was released. */
void response_store_destroy(struct response_store *store);

/* The caller gets a reference. RESULT_TOO_LARGE: it alone is more than the store may hold;
 * RESULT_FULL: answers in the making leave no room for it; RESULT_OUT_OF_MEMORY. The draft is taken
 * over in any case. */
enum result response_record_create(struct response_store *store, struct response_draft *draft,
                                   struct response_record **record) RESULT_CHECKED;
struct response_record *response_record_hold(struct response_record *record);
void response_record_release(struct response_record *record); /* NULL is fine */

/* From here on it is found, if it is kept. `id` begins with RESPONSE_ID_PREFIX and has less than
 * RESPONSE_ID_BYTES; nothing else has it. */
void response_record_publish(struct response_record *record, const char *id,
                             int64_t created_unix_s);
/* QUEUED or IN_PROGRESS. */
void response_record_set_status(struct response_record *record, enum response_status status);
/* Once. A record that was withdrawn meanwhile is not found again. */
void response_record_finish(struct response_record *record, struct response_outcome *outcome);
/* It is found no more. */
void response_record_withdraw(struct response_record *record);

/* A reference, or NULL: no such id, or another client's. */
struct response_record *response_store_find(struct response_store *store,
                                            const struct client_key *client_key, const char *id);

/* The response object as it is now. */
void response_record_write(struct response_record *record, struct text_buffer *out);
enum response_status response_record_status(struct response_record *record);
const char *response_record_id(const struct response_record *record); /* after publish */

/* Of a finished record, or of any for its input: they do not change. */
const struct response_record *response_record_previous(const struct response_record *record);
const struct response_items *response_record_input(const struct response_record *record);
const struct response_items *response_record_output(const struct response_record *record);

/* For tests and metrics. */
uint64_t response_store_bytes(struct response_store *store);
uint32_t response_store_records(struct response_store *store); /* that are found */

#endif
