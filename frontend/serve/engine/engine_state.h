/*
 * State shared by the parts of the engine, private to them: chat_engine.c (life, clients),
 * request_dispatch.c (to workers), worker_events.c (from workers), worker_loss.c (crashes),
 * request_end.c (ends), engine_status.c (figures).
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_ENGINE_STATE_H
#define SHOAL_FRONTEND_SERVE_ENGINE_ENGINE_STATE_H

#include "frontend/media/media_pool.h"
#include "frontend/serve/engine/adapter_changes.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/engine/checkpoint_watch.h"
#include "frontend/serve/engine/poison_memory.h"
#include "frontend/serve/engine/prompt_warming.h"
#include "frontend/serve/engine/request_table.h"
#include "frontend/serve/engine/waiting_queue.h"
#include "frontend/serve/worker/worker_pool.h"

struct chat_engine {
    struct chat_engine_config config;
    struct asset_loader *loader;
    struct keyed_hash_key image_key;         /* read by the loader's thread */
    struct model_assets *assets;             /* NULL until open */
    struct adapter_set *adapters;            /* NULL: none */
    struct adapter_changes *adapter_changes; /* NULL: there is no --lora-dir */
    struct prompt_warming *warming;          /* NULL: there is no --warm-prompts */
    struct checkpoint_watch *checkpoint;
    struct media_pool *media;
    struct field_watch *fields;
    struct grammar_cache *grammars; /* NULL: nothing is cached */
    struct prepare_pool *preparation;
    struct request_table *table;
    struct worker_pool *workers;
    struct serve_metrics metrics;
    struct waiting_queue waiting;
    struct waiting_queue suspects; /* waiting requests that run alone */
    struct waiting_queue watched;  /* suspects whose next trial is not due (poison_policy.h) */
    struct waiting_queue
        resuming; /* waiting requests whose worker is being restarted (resume_policy.h) */
    struct event
        *watch_timer; /* set to the first trial of `watched`, or the end of a wait in `resuming` */
    struct poison_memory poison;
    struct request_id *dirty; /* [slots] requests with events in the current batch */
    uint32_t dirty_count;
    uint64_t next_arrival;
    bool ready_told; /* the context length was set from the first ready worker */
    bool draining;
    bool workers_draining;
};

/* The slot of the request before it has just become free (chat_engine.c). Takes over `follow`. */
void chat_engine_start_follow(struct chat_engine *engine, struct request_follow *follow);

#endif
