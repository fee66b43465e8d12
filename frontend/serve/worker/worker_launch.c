#include "frontend/serve/worker/worker_launch.h"

void worker_run_clear(struct worker_run *run)
{
    worker_link_destroy(run->link);
    worker_lifeline_destroy(run->lifeline);
    run->link = NULL;
    run->lifeline = NULL;
}

enum result worker_launch(const struct worker_settings *settings,
                          const struct worker_launch *launch, struct worker_run *run,
                          struct error_text *error)
{
    const struct options *options = settings->options;
    const struct worker_link_config link = {.base = settings->base,
                                            .worker = settings->index,
                                            .generation = launch->generation,
                                            .live_requests = settings->live_requests,
                                            .slab_bytes = options->slab_bytes,
                                            .owner = launch->owner};
    enum result result = worker_link_create(&link, &run->link, error);
    if (result != RESULT_OK)
        return result;
    struct child_process_config child = {.options = options,
                                         .link = worker_link_fds(run->link),
                                         .weights = vault_holder_fds(settings->weights),
                                         .kv_memory = -1,
                                         .kv_device = {-1, -1},
                                         .adapters = settings->adapter_memory,
                                         .prefix_load = launch->prefix_load,
                                         .prefix_save = launch->prefix_save,
                                         .standby = launch->standby_fd,
                                         .lifeline = {-1, -1},
                                         .worker_index = settings->index,
                                         .device_workers = settings->device_workers,
                                         .pipeline_cache = settings->pipeline_cache,
                                         .checkpoint_files = settings->checkpoint_files,
                                         .checkpoint_opened = settings->checkpoint_opened};
    if (settings->kv_memory)
        child.kv_memory = vault_holder_fds(settings->kv_memory).vault;
    run->lifeline = NULL;
    if (settings->kv_device) {
        child.kv_device = vault_holder_fds(settings->kv_device);
        result = worker_lifeline_create(settings->base, &run->lifeline, error);
        if (result == RESULT_OK)
            child.lifeline = worker_lifeline_fds(run->lifeline);
    }
    if (result == RESULT_OK)
        result = child_process_spawn(&child, &run->process, error);
    if (result == RESULT_OK && run->lifeline)
        worker_lifeline_begin(run->lifeline);
    if (result != RESULT_OK)
        worker_run_clear(run);
    return result;
}
