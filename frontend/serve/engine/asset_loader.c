/*
 * A tokenizer of 262,000 tokens takes most of a second to open. One thread opens it, writes to an
 * eventfd and ends; the loop then joins it and calls back. Nothing else is shared, so no lock is
 * needed.
 */
#include "frontend/serve/engine/asset_loader.h"

#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "proto/must.h"

#define JOIN_PATIENCE_S 10 /* the largest vocabulary takes a second */

struct asset_loader {
    struct asset_loader_config config;
    pthread_t thread;
    bool joined;
    int done_fd;
    struct event *done_event;
    enum result result;
    struct error_text error;
    struct model_assets assets;
};

static void *thread_main(void *context)
{
    struct asset_loader *loader = context;
    loader->result = model_assets_open(&loader->config.assets, &loader->assets, &loader->error);
    const uint64_t one = 1;
    must(write(loader->done_fd, &one, sizeof one) == sizeof one);
    return NULL;
}

/* False: the thread has not ended within `patience_s`. */
static bool join(struct asset_loader *loader, int patience_s)
{
    struct timespec until;
    if (loader->joined)
        return true;
    must(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    until.tv_sec += patience_s;
    loader->joined = pthread_clockjoin_np(loader->thread, NULL, CLOCK_MONOTONIC, &until) == 0;
    return loader->joined;
}

static void on_done(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct asset_loader *loader = context;
    must(join(loader, JOIN_PATIENCE_S)); /* the thread has finished its work */
    loader->config.done(loader->config.context, loader->result, &loader->assets, &loader->error);
}

struct asset_loader *asset_loader_create(const struct asset_loader_config *config)
{
    struct asset_loader *loader = must_alloc(1, sizeof *loader);
    loader->config = *config;
    loader->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    must(loader->done_fd >= 0);
    loader->done_event = event_new(config->base, loader->done_fd, EV_READ, on_done, loader);
    must(loader->done_event && event_add(loader->done_event, NULL) == 0);
    must(pthread_create(&loader->thread, NULL, thread_main, loader) == 0);
    return loader;
}

void asset_loader_destroy(struct asset_loader *loader)
{
    if (!loader || !join(loader, JOIN_PATIENCE_S))
        return;
    event_free(loader->done_event);
    close(loader->done_fd);
    model_assets_close(&loader->assets);
    free(loader);
}
