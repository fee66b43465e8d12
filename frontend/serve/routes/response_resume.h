/*
 * Stored responses that an earlier process left unfinished: their answers are made again, with the
 * same id, seed and date, so they are the same. Streams of them are continued with
 * GET /v1/responses/{id}?stream=true&starting_after=N.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_RESPONSE_RESUME_H
#define SHOAL_FRONTEND_SERVE_ROUTES_RESPONSE_RESUME_H

#include "frontend/api/responses/response_journal.h"
#include "frontend/api/responses/response_store.h"
#include "frontend/serve/models/model_set.h"

struct event_base;
struct generation_route;
struct response_resume;
struct response_watches;

struct response_resume_config {
    struct event_base *base;
    struct model_set *models;
    struct generation_route *generation;
    struct response_watches *watches;
    struct response_store *store;
    struct response_journal *journal; /* NULL: there is none */
    uint64_t max_bytes;               /* of all files */
};

/* Loads nothing yet. */
struct response_resume *response_resume_create(const struct response_resume_config *config);
/* Call before the route is destroyed. What is unfinished stays so. */
void response_resume_destroy(struct response_resume *resume);
/* Loads the journal's responses, which this process owns. Call it once. With `held` the unfinished ones are still
 * made by the process before this one. */
void response_resume_load(struct response_resume *resume, bool held);
/* The engine is ready: begins to make the answers, unless they are held. May be called again. */
void response_resume_start(struct response_resume *resume);
/* While held: a message of the process before this one (response_journal.h). A damaged one is logged. */
void response_resume_receive(struct response_resume *resume, char kind, const char *bytes,
                             size_t byte_count);
/* That process sends no more: what it left unfinished is made here. */
void response_resume_release(struct response_resume *resume);
/* Cancels an answer that has not begun in this process; the record is then final. */
void response_resume_cancel(struct response_resume *resume, struct response_record *record);

struct response_resume_figures {
    uint64_t resumed; /* answers that were begun again */
    uint64_t waiting; /* to be made */
    uint64_t files_written;
    uint64_t file_failures;
    uint64_t file_bytes;
};

struct response_resume_figures response_resume_figures(struct response_resume *resume);

#endif
