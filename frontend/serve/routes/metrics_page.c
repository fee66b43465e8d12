/*
 * One page: vLLM's names with its labels (model_name and engine), Shoal's own with model_name, the
 * process's without labels.
 *
 * All workers together are engine "0", because a gateway that compares servers takes one number
 * from each. Figures of single workers are in /v1/status.
 */
#include "frontend/serve/routes/route_replies.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "frontend/assets/adapter_set.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/http_server.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/metrics/metric_merge.h"
#include "frontend/serve/metrics/process_figures.h"
#include "frontend/serve/models/model_set.h"
#include "frontend/serve/routes/generation_route.h"
#include "frontend/serve/routes/http_metrics.h"
#include "frontend/serve/routes/response_resume.h"

struct gauge {
    const char *name;
    const char *help;
    double value;
};

static void write_gauges(struct metric_text *text, const struct gauge *gauges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        metric_text_value(text, gauges[i].name, METRIC_GAUGE, gauges[i].help, gauges[i].value);
}

static void write_server_state(const struct engine_status *status, struct metric_text *text)
{
    double cache_used = status->kv_blocks_total
                            ? (double)status->kv_blocks_used / (double)status->kv_blocks_total
                            : 0;
    const struct gauge gauges[] = {
        {"vllm:num_requests_running", "Requests that workers compute.", status->worker_running},
        {"vllm:num_requests_waiting", "Requests admitted and not yet computed.",
         (double)status->preparing + status->waiting + status->worker_waiting},
        {"vllm:kv_cache_usage_perc", "Part of the KV cache in use, 0 to 1.", cache_used},
    };
    write_gauges(text, gauges, sizeof gauges / sizeof gauges[0]);
}

/* The labels carry the information; vLLM gives it no model_name. Absent until a worker has reported
 * its cache size, because gateways calculate with it. */
static void write_cache_config(const struct engine_status *status, struct metric_text *text)
{
    char block_tokens[24];
    char blocks[24];
    if (status->kv_block_tokens == 0)
        return;
    snprintf(block_tokens, sizeof block_tokens, "%llu",
             (unsigned long long)status->kv_block_tokens);
    snprintf(blocks, sizeof blocks, "%llu", (unsigned long long)status->kv_blocks_total);
    const struct metric_label labels[] = {
        {"block_size", block_tokens},
        {"enable_prefix_caching", status->prefix_cache ? "True" : "False"},
        {"engine", "0"},
        {"num_gpu_blocks", blocks}};
    metric_text_family(text, "vllm:cache_config_info", METRIC_GAUGE,
                       "The KV cache: positions of a block, number of blocks.");
    metric_text_sample(text, labels, sizeof labels / sizeof labels[0], 1);
}

/* What vLLM tells gateways of LoRA adapters: comma-separated names, and the time as the value, because the
 * latest sample counts. An adapter that requests may name is loaded, so none waits. `loads`: further ones can be
 * loaded. */
static void write_adapters(const struct adapter_set *adapters, bool loads, struct metric_text *text)
{
    struct text_buffer names = {0};
    char count[12];
    struct timespec now;
    for (uint32_t i = 0; i < adapter_set_count(adapters); i++) {
        text_buffer_append_text(&names, i > 0 ? "," : "");
        text_buffer_append_text(&names, adapter_set_at(adapters, i)->name);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(count, sizeof count, "%u", loads ? LIMIT_ADAPTERS : adapter_set_count(adapters));
    const struct metric_label labels[] = {
        {"max_lora", count},
        {"running_lora_adapters", names.length > 0 ? names.bytes : ""},
        {"waiting_lora_adapters", ""}};
    metric_text_family(text, "vllm:lora_requests_info", METRIC_GAUGE,
                       "The LoRA adapters; the value is the time.");
    metric_text_sample(text, labels, sizeof labels / sizeof labels[0],
                       (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    text_buffer_fini(&names);
}

static void write_own_status(const struct engine_status *status, struct metric_text *text)
{
    const struct gauge gauges[] = {
        {"shoal_live_requests", "Slots of the request table in use.", status->live},
        {"shoal_requests_preparing", "Requests being parsed and tokenized.", status->preparing},
        {"shoal_preparation_threads_busy", "Preparation threads that work on a request.",
         status->preparation.busy_threads},
        {"shoal_requests_with_worker", "Requests handed to a worker.", status->with_worker},
        {"shoal_kv_blocks_used", "KV blocks in use.", (double)status->kv_blocks_used},
        {"shoal_kv_blocks_cached", "KV blocks that only the prefix cache has.",
         (double)status->kv_blocks_cached},
        {"shoal_kv_blocks", "KV blocks.", (double)status->kv_blocks_total},
        {"shoal_images_cached", "Images whose features are there.", (double)status->images_cached},
        {"shoal_feature_used_bytes", "Memory of their features.",
         (double)status->feature_bytes_used},
        {"shoal_feature_bytes", "Memory for features.", (double)status->feature_bytes_total},
        {"shoal_state_bytes", "Memory of recurrent state.", (double)status->state_bytes},
        {"shoal_slab_used_bytes", "Shared memory that holds prompts.",
         (double)status->slab_used_bytes},
        {"shoal_weights_bytes", "Memory of the weights.", (double)status->weights_bytes},
        {"shoal_weights_changed", "1 if a file of the checkpoint was changed since the start.",
         status->checkpoint_changed},
        {"shoal_load_progress", "How far the model is loaded, 0 to 1.", status->load_progress},
    };
    write_gauges(text, gauges, sizeof gauges / sizeof gauges[0]);
    metric_text_value(text, "shoal_preparations_cancelled_total", METRIC_COUNTER,
                      "Preparations whose client left before their end.",
                      (double)status->preparation.cancelled_total);
    metric_text_value(text, "shoal_preparations_timed_out_total", METRIC_COUNTER,
                      "Preparations that exceeded --prepare-deadline.",
                      (double)status->preparation.timed_out_total);
}

static void write_grammars(const struct grammar_cache_counts *grammars, struct metric_text *text)
{
    const struct gauge gauges[] = {
        {"shoal_grammars_cached", "Compiled grammars in the cache.", (double)grammars->entries},
        {"shoal_grammar_cache_bytes", "Memory of the grammar cache.", (double)grammars->bytes},
    };
    write_gauges(text, gauges, sizeof gauges / sizeof gauges[0]);
    metric_text_value(text, "shoal_grammar_cache_hits_total", METRIC_COUNTER,
                      "Grammars of requests that the cache had.", (double)grammars->hits);
    metric_text_value(text, "shoal_grammar_cache_misses_total", METRIC_COUNTER,
                      "Grammars of requests that were compiled.", (double)grammars->misses);
    metric_text_value(text, "shoal_grammar_cache_dropped_total", METRIC_COUNTER,
                      "Grammars dropped to make room for others.", (double)grammars->dropped);
}

static void write_media(const struct media_figures *media, struct metric_text *text)
{
    const struct {
        const char *name;
        enum metric_type type;
        const char *help;
        double value;
    } values[] = {
        {"shoal_media_processes", METRIC_GAUGE, "Processes that decode images.", media->processes},
        {"shoal_media_restarts_total", METRIC_COUNTER, "Media processes started again.",
         (double)media->restarts},
        {"shoal_media_crashes_total", METRIC_COUNTER, "Media processes that an image crashed.",
         (double)media->crashes},
        {"shoal_media_budget_kills_total", METRIC_COUNTER,
         "Media processes killed because an image took too much CPU time.",
         (double)media->budget_kills},
        {"shoal_media_cancel_kills_total", METRIC_COUNTER,
         "Media processes killed because the client had left.", (double)media->cancel_kills},
        {"shoal_media_cpu_seconds_total", METRIC_COUNTER, "CPU time of media processes.",
         media->cpu_s},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        metric_text_value(text, values[i].name, values[i].type, values[i].help, values[i].value);
}

static void write_responses(struct response_resume *resume, struct metric_text *text)
{
    const struct response_resume_figures figures = response_resume_figures(resume);
    const struct gauge gauges[] = {
        {"shoal_state_file_bytes", "Files of stored responses.", (double)figures.file_bytes},
        {"shoal_responses_to_resume", "Answers of an earlier process that wait to be made.",
         (double)figures.waiting},
    };
    write_gauges(text, gauges, sizeof gauges / sizeof gauges[0]);
    metric_text_value(text, "shoal_responses_resumed_total", METRIC_COUNTER,
                      "Answers that an earlier process began and this one makes.",
                      (double)figures.resumed);
    metric_text_value(text, "shoal_state_files_written_total", METRIC_COUNTER,
                      "Files of stored responses written.", (double)figures.files_written);
    metric_text_value(text, "shoal_state_file_failures_total", METRIC_COUNTER,
                      "Files that could not be written; their responses are in memory only.",
                      (double)figures.file_failures);
}

/* What each device of each worker has; a device may be there more than once, hence `place`. */
static void write_devices(const struct chat_engine *engine, uint32_t workers,
                          struct metric_text *text)
{
    static const struct {
        const char *name;
        const char *help;
        size_t offset;
    } families[] = {
        {"shoal_device_weights_bytes", "Weights on a device of a worker.",
         offsetof(struct worker_device_status, weights_bytes)},
        {"shoal_device_kv_cache_bytes", "KV cache and recurrent state on it.",
         offsetof(struct worker_device_status, kv_bytes)},
        {"shoal_device_memory_bytes", "Memory of the device.",
         offsetof(struct worker_device_status, memory_bytes)},
    };
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        metric_text_family(text, families[f].name, METRIC_GAUGE, families[f].help);
        for (uint32_t w = 0; w < workers; w++) {
            struct worker_status worker;
            engine_status_read_worker(engine, w, &worker);
            for (uint32_t i = 0; i < worker.devices.count; i++) {
                char index[12], place[12], device[DEVICE_NAME_BYTES];
                uint64_t bytes;
                memcpy(&bytes, (const char *)&worker.shares[i] + families[f].offset, sizeof bytes);
                snprintf(index, sizeof index, "%u", w);
                snprintf(place, sizeof place, "%u", i);
                device_name_write(worker.devices.devices[i], device);
                const struct metric_label labels[] = {
                    {"worker", index}, {"place", place}, {"device", device}};
                metric_text_sample(text, labels, 3, (double)bytes);
            }
        }
    }
}

/* A model that is loaded. */
static void write_engine(struct chat_engine *engine, const char *name, struct text_buffer *out)
{
    struct engine_status status;
    engine_status_read(engine, &status);
    const struct serve_metrics *metrics = engine_status_metrics(engine);
    const struct model_assets *assets = chat_engine_assets(engine);
    const struct metric_label labels[] = {{"model_name", name}, {"engine", "0"}};
    struct metric_text text = {.out = out, .common = labels, .common_count = 2};
    write_server_state(&status, &text);
    serve_metrics_write(metrics, &status.totals, &text);
    text.common_count = 0;
    write_cache_config(&status, &text);
    write_adapters(assets ? assets->adapters : NULL, chat_engine_adapter_changes(engine) != NULL,
                   &text);
    text.common_count = 1;
    write_own_status(&status, &text);
    write_devices(engine, engine_status_workers(engine), &text);
    write_media(&status.media, &text);
    write_grammars(&status.grammars, &text);
    serve_metrics_write_own(metrics, &status.totals, &text);
}

static void write_models(const struct model_set *models, struct metric_text *text)
{
    metric_text_family(text, "shoal_model_loaded", METRIC_GAUGE,
                       "1 if the model is loaded, otherwise 0.");
    for (uint32_t i = 0; i < model_set_count(models); i++) {
        const struct model *model = model_set_at(models, i);
        const struct metric_label label = {"model_name", model_name(model)};
        metric_text_sample(text, &label, 1, model_state(model) == MODEL_READY);
    }
    metric_text_family(text, "shoal_model_waiting", METRIC_GAUGE,
                       "Requests that wait until the model is loaded.");
    for (uint32_t i = 0; i < model_set_count(models); i++) {
        const struct model *model = model_set_at(models, i);
        const struct metric_label label = {"model_name", model_name(model)};
        metric_text_sample(text, &label, 1, model_waiting(model));
    }
}

/* What all models share. `name`: of the one model, or NULL. */
static void write_server(const struct route_context *context, const char *name,
                         struct text_buffer *out)
{
    const struct http_figures http = {.connections = http_server_connections(context->server),
                                      .unsent_bytes = http_server_unsent_bytes(context->server),
                                      .http = http_server_counters(context->server),
                                      .chat = generation_route_counters(context->generation)};
    const struct metric_label label = {"model_name", name ? name : ""};
    struct metric_text text = {.out = out, .common = &label, .common_count = name ? 1 : 0};
    struct process_figures process;
    http_metrics_write(&http, &text);
    write_responses(context->resume, &text);
    text.common_count = 0;
    if (!name)
        write_models(context->models, &text);
    process_figures_read(&process);
    process_figures_write(&process, &text);
}

/* The name of the one model; "" until its assets are open. */
static const char *single_name(const struct model_set *models)
{
    const struct model_assets *assets = chat_engine_assets(model_engine(model_set_at(models, 0)));
    return assets ? assets->model_id : "";
}

void metrics_page_reply(const struct route_context *context, struct http_exchange *exchange)
{
    const struct model_set *models = context->models;
    struct text_buffer pages[LIMIT_MODELS] = {0};
    struct text_buffer body = {0};
    bool directory = model_set_is_directory(models);
    bool failed = false;
    for (uint32_t i = 0; i < model_set_count(models); i++) {
        const struct model *model = model_set_at(models, i);
        if (model_engine(model))
            write_engine(model_engine(model), directory ? model_name(model) : single_name(models),
                         &pages[i]);
        failed |= pages[i].failed;
    }
    if (!failed)
        metric_merge(pages, model_set_count(models), &body);
    write_server(context, directory ? NULL : single_name(models), &body);
    if (failed || body.failed)
        http_reply_abort(exchange);
    else
        http_reply_whole(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", body.bytes,
                         body.length);
    for (uint32_t i = 0; i < model_set_count(models); i++)
        text_buffer_fini(&pages[i]);
    text_buffer_fini(&body);
}
