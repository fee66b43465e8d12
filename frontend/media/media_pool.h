/*
 * The media processes of this server, and the image reader that decodes in them. Threads that prepare
 * images take turns; nothing else waits for them.
 */
#ifndef SHOAL_FRONTEND_MEDIA_MEDIA_POOL_H
#define SHOAL_FRONTEND_MEDIA_MEDIA_POOL_H

#include "frontend/image/image_reader.h"

struct media_pool;

/* Up to `processes` (1..LIMIT_MEDIA_PROCESSES) at a time, each started when all others are busy, and as
 * many of shoal-av for files of videos, where that program is. */
struct media_pool *media_pool_create(uint32_t processes);
/* No thread may use the pool or a reader of it any longer. Kills the processes. */
void media_pool_destroy(struct media_pool *pool);

/* Starts the first process and logs what confines it. Failure is logged: every image then tries
 * again and is answered with RESULT_PEER_GONE. Called once, from the thread that lives as long as
 * this process. */
void media_pool_start(struct media_pool *pool);

/* Any thread; threads that start processes must outlive the pool's use (media_child_open()). Valid
 * as long as the pool. */
const struct image_reader *media_pool_reader(const struct media_pool *pool);

struct media_figures {
    uint32_t processes; /* alive */
    uint64_t restarts;  /* processes started in place of one that was killed or died */
    uint64_t crashes;   /* of processes, by images */
    uint64_t budget_kills;
    uint64_t cancel_kills;
    double cpu_s; /* of all, also of those that have ended */
};
/* Any thread. */
void media_pool_read(struct media_pool *pool, struct media_figures *figures);

#endif
