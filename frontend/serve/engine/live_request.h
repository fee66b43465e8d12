/*
 * One request from admission to its end, as a state machine that does nothing but keep the facts
 * straight: who still owes what. The engine (chat_engine.h) moves it along; what a client sees is
 * the sink's business.
 *
 *   FREE --admit--> ADMITTED --prepare--> PREPARING --queue--> WAITING <------requeue-------+
 *                      |                      |                  | |                        |
 *                      |                      |                  | +--submit--> SUBMITTED --+
 *                      |                      |                  |                | token   |
 *                      |                      |                  |                v         |
 *                      |                      |                  |             STREAMING ---+
 *                      +-------leave----------+------------------+                | leave (both)
 *                                             v                                   v
 *                                           FREE <---------worker_done-------- LEAVING
 *
 * requeue: the worker that had it died, or gave it back when it was asked to; what was generated is
 * in the journal, and the next worker goes on from there.
 *
 * leave: the client's side is over (answered, refused, failed or gone). A slot whose request is
 * with a worker stays LEAVING until the worker's last event about it (or the worker's death), so
 * that a slot never has two runs at once and no stale event can meet a new request: the generation
 * changes when the slot becomes FREE.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_LIVE_REQUEST_H
#define SHOAL_FRONTEND_SERVE_ENGINE_LIVE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/api/generation/prepared_generation.h"
#include "frontend/api/generation/reply_token.h"
#include "frontend/serve/engine/poison_policy.h"
#include "frontend/serve/metrics/serve_metrics.h"
#include "proto/token_event.h"

struct chat_engine;
struct prepare_job;

enum live_request_state {
    LIVE_REQUEST_FREE = 0,
    LIVE_REQUEST_ADMITTED,
    LIVE_REQUEST_PREPARING, /* a job of the pool refers to it */
    LIVE_REQUEST_WAITING,   /* for a worker that takes it */
    LIVE_REQUEST_SUBMITTED, /* with a worker, no token from it yet */
    LIVE_REQUEST_STREAMING,
    LIVE_REQUEST_LEAVING
};

/* Where a request's outcome goes. Called from the event loop, never from within a call about the
 * same request, except flush() and token(), from which the request may be cancelled (token: by
 * returning true). Nothing is called after finished(), failed() or a cancellation. */
struct live_request_sink {
    /* The prompt is ready. `prepared` stays valid until the request leaves, apart from its
     * request's body, which goes after this call. */
    void (*prepared)(void *context, const struct prepared_generation *prepared);
    /* More of the prompt is computed; flush() follows. NULL: of no interest. */
    void (*progress)(void *context, const struct reply_progress *progress);
    /* True: the answer is complete (a stop string); finished() follows. */
    bool (*token)(void *context, const struct reply_token *token);
    /* After the tokens and the progress of one wake-up. */
    void (*flush)(void *context);
    void (*finished)(void *context, enum finish_reason finish, struct cached_prompt cached);
    void (*failed)(void *context, const struct api_error *error);
    /* What the log calls the request; valid during the call. */
    const char *(*name)(void *context);
};

struct live_request {
    struct request_id id;
    enum live_request_state state;
    struct chat_engine *engine; /* whose table the slot is in */
    const struct live_request_sink *sink;
    void *sink_context;
    struct prepare_job *job; /* PREPARING */

    /* The journal: all that is needed to run the request again. */
    struct prepared_generation prepared;
    struct token_list generated;
    struct token_logprob alternatives[LIMIT_TOP_LOGPROBS]; /* of the next token, told so far */
    uint32_t alternative_count;
    struct cached_prompt cached; /* as its first token said */

    uint64_t fingerprint; /* poison_memory.h */
    uint64_t arrival;     /* its place in every queue, kept when it comes back */
    uint32_t worker;      /* whose it is: SUBMITTED, STREAMING, LEAVING */
    uint32_t replays;     /* workers that died while they had it */
    uint32_t prompt_done; /* tokens that the worker has computed of what it was given */
    bool recalled;        /* that worker was asked to give it back */
    bool suspect;         /* runs alone or not at all */
    struct crash_record crashes;

    struct request_timeline timeline;      /* goes on when it runs again */
    struct live_request *previous_waiting; /* neighbours in a waiting queue */
    struct live_request *next_waiting;
    /* What a batch of the worker's events said of it (worker_events.c). */
    bool dirty;    /* it said something: the request is on the engine's list */
    bool complete; /* its answer is, and the worker need not go on */
    bool ended;    /* the worker has said its last word: */
    struct worker_last_word {
        enum token_event_kind kind; /* FINISHED or FAILED */
        enum finish_reason finish;
        enum result failure;
    } last_word;
};

/* Each function is one edge of the drawing and aborts (must) on any other. */
void live_request_admit(struct live_request *request, const struct live_request_sink *sink,
                        void *sink_context, int64_t now_us);
void live_request_prepare(struct live_request *request, struct prepare_job *job);
/* Takes over `prepared`. */
void live_request_queue(struct live_request *request, const struct prepared_generation *prepared);
void live_request_submit(struct live_request *request, uint32_t worker);
void live_request_requeue(struct live_request *request);
/* Keeps alternatives of the next token. RESULT_CORRUPT when more come than were asked for, or in
 * another order than promised (rule T13). */
enum result live_request_alternatives(struct live_request *request,
                                      const struct token_logprob *alternatives,
                                      uint32_t count) RESULT_CHECKED;
/* Journals the token, whose alternatives stay until live_request_forget_alternatives().
 * RESULT_CORRUPT when `index` is not the next one (rule T5) or more come than were asked for. */
enum result live_request_token(struct live_request *request, uint32_t token, uint32_t index,
                               int64_t now_us) RESULT_CHECKED;
void live_request_forget_alternatives(struct live_request *request);
/* The sink is forgotten and the journal freed. Returns true when the slot is FREE now. */
bool live_request_leave(struct live_request *request);
void live_request_worker_done(struct live_request *request);

/* With a worker: SUBMITTED, STREAMING or LEAVING. */
bool live_request_is_with_worker(const struct live_request *request);
/* For the log: what the sink calls it, or "(gone)" when there is none any more. */
const char *live_request_name(const struct live_request *request);

#endif
