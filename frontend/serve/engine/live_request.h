/*
 * One request from admission to its end, as a state machine that only keeps facts. The engine
 * (chat_engine.h) moves it; the sink decides what a client sees.
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
 * requeue: its worker died, or returned it on request; the generated tokens are in the journal, and
 * the next worker continues from there.
 *
 * leave: the client's side is over (answered, refused, failed or gone). If a worker has the
 * request, its slot stays LEAVING until the worker's last event about it (or the worker's death),
 * so that a slot never has two runs at once and no stale event reaches a new request: the
 * generation changes when the slot becomes FREE.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_LIVE_REQUEST_H
#define SHOAL_FRONTEND_SERVE_ENGINE_LIVE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/api/generation/prepared_generation.h"
#include "frontend/api/generation/reply_token.h"
#include "frontend/base/client_key.h"
#include "frontend/serve/engine/poison_policy.h"
#include "frontend/serve/metrics/serve_metrics.h"
#include "proto/token_event.h"

struct chat_engine;
struct dense_layers;
struct prepare_job;

enum live_request_state {
    LIVE_REQUEST_FREE = 0,
    LIVE_REQUEST_ADMITTED,
    LIVE_REQUEST_PREPARING, /* a job of the pool refers to it */
    LIVE_REQUEST_WAITING,   /* for a worker with room */
    LIVE_REQUEST_SUBMITTED, /* with a worker, no token from it yet */
    LIVE_REQUEST_STREAMING,
    LIVE_REQUEST_LEAVING
};

/* Receives a request's outcome. Called from the event loop, never within a call about the same
 * request, except flush() and token(), in which the request may be cancelled (token: by returning
 * true). Not called after finished(), failed() or a cancellation. */
struct live_request;
struct live_request_sink {
    /* The prompt is ready. `prepared` stays valid until the request leaves, except its request's
     * body, which is freed after this call. */
    void (*prepared)(void *context, const struct prepared_generation *prepared);
    /* More of the prompt is computed; flush() follows. NULL: ignored. */
    void (*progress)(void *context, const struct reply_progress *progress);
    /* The next prompt token's log-probability. NULL: ignored. */
    void (*prompt_token)(void *context, const struct reply_token *token);
    /* Returns true if the answer is complete (a stop string); finished() follows. */
    bool (*token)(void *context, const struct reply_token *token);
    /* After the tokens and progress of one wake-up. */
    void (*flush)(void *context);
    void (*finished)(void *context, enum finish_reason finish, struct cached_prompt cached);
    void (*failed)(void *context, const struct api_error *error);
    /* The request that chat_engine_follow() asked for is live. NULL: it is never called. */
    void (*follows)(void *context, struct live_request *request);
    /* The request's name in the log; valid during the call. */
    const char *(*name)(void *context);
};

/* A request that takes the place of one that has finished (chat_engine_follow()). */
struct request_follow {
    struct prepared_generation prepared;
    const struct live_request_sink *sink;
    void *sink_context;
    struct client_key client_key;
    int64_t arrived_us;
};

struct live_request {
    struct request_id id;
    enum live_request_state state;
    struct chat_engine *engine; /* the engine whose table has the slot */
    const struct live_request_sink *sink;
    void *sink_context;
    struct prepare_job *job;       /* PREPARING */
    struct request_follow *follow; /* owned; starts when the slot is free; NULL: nothing follows */

    /* The journal: everything needed to run the request again. */
    struct prepared_generation prepared;
    struct token_list generated;
    struct token_logprob alternatives[LIMIT_TOP_LOGPROBS]; /* of the next token, received so far */
    uint32_t alternative_count;
    float *vector; /* [vector_count] of vector_capacity, owned; received so far */
    size_t vector_count;
    size_t vector_capacity;
    uint32_t scored_tokens; /* prompt tokens after the first one whose log-probability arrived */
    struct cached_prompt cached; /* as reported with its first token */

    struct client_key client_key; /* whose it is */
    uint64_t fingerprint;         /* poison_memory.h */
    uint64_t arrival;             /* its place in every queue; kept on a requeue */
    uint32_t worker;              /* SUBMITTED, STREAMING, LEAVING, resumes: index of its worker */
    uint32_t replays;             /* number of workers that died with it */
    uint32_t prompt_done;         /* prompt tokens that the worker has computed */
    bool recalled;                /* the worker was asked to return it */
    bool suspect;                 /* runs alone or not at all */
    bool watched;                 /* a suspect that does not run before trial_at_ms */
    int64_t trial_at_ms;
    bool
        resumes; /* waits until resume_by_ms for the restart of its worker, which has its KV cache */
    int64_t resume_by_ms;
    struct crash_record crashes;

    struct request_timeline timeline;      /* continues on a replay */
    struct live_request *previous_waiting; /* neighbours in a waiting queue */
    struct live_request *next_waiting;
    /* Events of the current batch (worker_events.c). */
    bool dirty;    /* on the engine's list of requests with events */
    bool complete; /* the answer is complete; the worker need not continue */
    bool ended;    /* the worker's last event arrived: */
    struct worker_last_word {
        enum token_event_kind kind; /* FINISHED or FAILED */
        enum finish_reason finish;
        enum result failure;
    } last_word;
};

/* Each function is one edge of the diagram and aborts (must) on any other. */
void live_request_admit(struct live_request *request, const struct live_request_sink *sink,
                        void *sink_context, int64_t now_us);
void live_request_prepare(struct live_request *request, struct prepare_job *job);
/* Takes over `prepared`. */
void live_request_queue(struct live_request *request, const struct prepared_generation *prepared);
void live_request_submit(struct live_request *request, uint32_t worker);
void live_request_requeue(struct live_request *request);
/* Keeps alternatives of the next token. RESULT_CORRUPT if there are more than requested, or in the
 * wrong order (rule T13). */
enum result live_request_alternatives(struct live_request *request,
                                      const struct token_logprob *alternatives,
                                      uint32_t count) RESULT_CHECKED;
/* Keeps numbers of the request's vector. RESULT_CORRUPT if it has none or they are too many. */
enum result live_request_vector(struct live_request *request, const float *values,
                                uint32_t count) RESULT_CHECKED;
/* Puts the vector through the layers. RESULT_CORRUPT if it has other columns than they read. */
enum result live_request_project(struct live_request *request,
                                 const struct dense_layers *layers) RESULT_CHECKED;
/* Journals the token; its alternatives stay until live_request_forget_alternatives().
 * RESULT_CORRUPT if `index` is not the next one (rule T5) or there are more tokens than requested.
 */
enum result live_request_token(struct live_request *request, uint32_t token, uint32_t index,
                               int64_t now_us) RESULT_CHECKED;
/* Notes the log-probability of a prompt token; its alternatives stay likewise. RESULT_CORRUPT if it
 * was not asked for or is not the next one. */
enum result live_request_prompt_token(struct live_request *request, uint32_t token,
                                      uint32_t index) RESULT_CHECKED;
/* Of a token that was handled, or of a worker that died: also the vector. */
void live_request_forget_alternatives(struct live_request *request);
/* Drops the sink and frees the journal. Returns true if the slot is FREE now. */
bool live_request_leave(struct live_request *request);
void live_request_worker_done(struct live_request *request);

/* True in SUBMITTED, STREAMING or LEAVING. */
bool live_request_is_with_worker(const struct live_request *request);
/* The sink's name for the log, or "(gone)" without a sink. */
const char *live_request_name(const struct live_request *request);

#endif
