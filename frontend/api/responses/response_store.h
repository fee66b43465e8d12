/*
 * The store of OpenAI's Responses API: requests and answers by id, so that a response can be
 * fetched, continued, listed, deleted, and watched while it is made.
 *
 * A record is created when a request is read (on a preparation thread), published under its id when
 * its answer begins (on the loop), and finished with its outcome; after that it does not change. It
 * refers to the record that it continues, so a conversation is a chain and no part is stored twice.
 * A reference to a record keeps the whole chain, even if parts of it are deleted or evicted and can
 * no longer be found.
 *
 * With --state-dir each record has a file, written before a client gets the id of an answer in
 * progress and after it ended, and removed with the record; so files are bounded like records.
 *
 * The store is limited in bytes and in records. Finished records are evicted, the least recently
 * used first. Records of answers in progress are never evicted; if they alone fill the store, it
 * accepts no more.
 *
 * Every function may be called from any thread.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_STORE_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_STORE_H

#include <stdint.h>

#include "frontend/api/responses/response_items.h"
#include "frontend/api/responses/response_script.h"
#include "frontend/api/responses/response_status.h"
#include "frontend/base/client_key.h"
#include "proto/result.h"

struct response_store;
struct response_record;

struct response_journal;
struct api_error;
struct response_file;

/* Set by the request. */
struct response_draft {
    struct client_key client_key;
    bool kept; /* false: not counted and never published (store: false) */
    struct response_record
        *previous;               /* the record it continues, or NULL; a reference, taken over */
    struct response_items input; /* its own, without the chain's; taken over */
    struct text_buffer fields; /* members of the response object, as `,"model":"…"…`; taken over */
};

/* The outcome. */
struct response_outcome {
    enum response_status status;
    struct response_items output; /* taken over */
    struct text_buffer fields;    /* members: error, incomplete_details, usage; taken over */
};

struct response_store *response_store_create(uint64_t max_bytes, uint32_t max_records);
/* Call after every reference to its records was released. */
void response_store_destroy(struct response_store *store);
/* From now on the store keeps files of its records, whose bytes the same maximum bounds. NULL: the
 * files stay as they are. The journal outlives its use. */
void response_store_set_journal(struct response_store *store, struct response_journal *journal);

/* The caller gets a reference. RESULT_TOO_LARGE: larger than the whole store; RESULT_FULL: answers
 * in progress leave no room for it; RESULT_OUT_OF_MEMORY. The draft is taken over in any case. */
enum result response_record_create(struct response_store *store, struct response_draft *draft,
                                   struct response_record **record) RESULT_CHECKED;
struct response_record *response_record_hold(struct response_record *record);
void response_record_release(struct response_record *record); /* NULL is allowed */

/* Makes the record findable, if it is kept. `id` starts with RESPONSE_ID_PREFIX, has less than
 * RESPONSE_ID_BYTES and is unique. */
void response_record_publish(struct response_record *record, const char *id,
                             int64_t created_unix_s);
/* Before publish: writes a file from which the answer can be made after a crash. `job` has its id,
 * status and what its answer is made from; the rest is the record's. Waits for the disk. */
void response_record_file(struct response_record *record, const struct response_file *job);
/* A published record as it is in `file`, which is taken over like the reference to `previous` (NULL:
 * none). `shown` false: it is not findable. The caller gets a reference, and restores finished
 * records in the order of their last use. */
struct response_record *response_record_restore(struct response_store *store,
                                                struct response_file *file,
                                                struct response_record *previous, bool shown,
                                                uint64_t file_bytes);
/* QUEUED or IN_PROGRESS. */
void response_record_set_status(struct response_record *record, enum response_status status);
/* Call once. A record that was withdrawn before stays withdrawn. */
void response_record_finish(struct response_record *record, struct response_outcome *outcome);
/* The same with what another process made of it: script, outcome and time of `file`, which is taken over.
 * Without effect on a record that is final. */
void response_record_finish_as(struct response_record *record, struct response_file *file);
/* Makes the record unfindable. */
void response_record_withdraw(struct response_record *record);

/* A reference; NULL: no such id, or another client's. */
struct response_record *response_store_find(struct response_store *store,
                                            const struct client_key *client_key, const char *id);

/* The same of any client, for a file that names the response that it continues. */
struct response_record *response_store_find_any(struct response_store *store, const char *id);
/* Sets the error for a response that was not found: RESULT_NOT_FOUND with `status` and `code`, or 503 if a
 * successor has the stored responses, which may have it. */
enum result response_store_refuse(struct response_store *store, int status, const char *code,
                                  const char *id, struct api_error *error);

/* Writes the response object in its present state. */
void response_record_write(struct response_record *record, struct text_buffer *out);
/* Writes it as it was when its status was `status`, which is not final. */
void response_record_write_unfinished(struct response_record *record, enum response_status status,
                                      struct text_buffer *out);
/* Adds a step of the answer, unless the record is not kept. The last one comes before
 * response_record_finish(). */
void response_record_add_step(struct response_record *record, const struct response_step *step);
/* Copies the step at *offset to `bytes`, where *step then points, and moves *offset behind it.
 * False: it is not known yet. */
bool response_record_read_step(struct response_record *record, size_t *offset,
                               struct text_buffer *bytes, struct response_step *step);
enum response_status response_record_status(struct response_record *record);
const char *response_record_id(const struct response_record *record); /* "" before publish */
const struct client_key *response_record_client(const struct response_record *record);

/* Of a finished record, or the input of any record: these do not change. */
const struct response_record *response_record_previous(const struct response_record *record);
const struct response_items *response_record_input(const struct response_record *record);
const struct response_items *response_record_output(const struct response_record *record);

/* A reference to the record that it continues, or NULL. */
struct response_record *response_record_hold_previous(struct response_record *record);

/* For tests and metrics. */
uint64_t response_store_file_bytes(struct response_store *store);
uint64_t response_store_bytes(struct response_store *store);
uint32_t response_store_records(struct response_store *store); /* in the table */

#endif
