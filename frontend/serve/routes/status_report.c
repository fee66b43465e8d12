/*
 * GET /v1/status.
 *
 * What the frontend knows (processes, crashes, queues, journals) is reported as fact; what only a
 * worker knows (its sequences, its blocks) comes from its gauges and is under "says". No worker is
 * asked, so the report works while one hangs, and tells for how long it has made no progress. It
 * contains no prompt and no text.
 */
#include "frontend/serve/routes/status_report.h"

#include <string.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/base/utf8_stream.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/routes/quarantine_routes.h"

/* A dead worker's last message is untrusted bytes. */
static void append_words(struct text_buffer *out, const char *words)
{
    struct text_buffer valid = {0};
    struct utf8_stream stream = {0};
    utf8_stream_push(&stream, words, strlen(words), &valid);
    utf8_stream_finish(&stream, &valid);
    text_buffer_append_json_string(out, valid.bytes ? valid.bytes : "", valid.length);
    out->failed = out->failed || valid.failed;
    text_buffer_fini(&valid);
}

static double seconds(int64_t duration_ms)
{
    return (double)duration_ms / 1000.0;
}

/* What each device of the worker has; an array. */
static void write_devices(const struct worker_status *worker, struct text_buffer *out)
{
    text_buffer_append_text(out, ",\"devices\":[");
    for (uint32_t i = 0; i < worker->devices.count; i++) {
        const struct worker_device_status *share = &worker->shares[i];
        char name[DEVICE_NAME_BYTES];
        device_name_write(worker->devices.devices[i], name);
        text_buffer_append_format(
            out,
            "%s{\"device\":\"%s\",\"first_layer\":%u,\"layers\":%u,\"weights_bytes\":%llu,"
            "\"kv_cache_bytes\":%llu,\"memory_bytes\":%llu}",
            i > 0 ? "," : "", name, share->first_layer, share->layers,
            (unsigned long long)share->weights_bytes, (unsigned long long)share->kv_bytes,
            (unsigned long long)share->memory_bytes);
    }
    text_buffer_append_text(out, "]");
}

static void write_worker(const struct chat_engine *engine, uint32_t index, struct text_buffer *out)
{
    struct worker_status worker;
    engine_status_read_worker(engine, index, &worker);
    text_buffer_append_format(out, "{\"index\":%u,\"pid\":", index);
    if (worker.pid > 0)
        text_buffer_append_format(out, "%d", worker.pid);
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_text(out, ",\"device\":");
    append_words(out, worker.device);
    write_devices(&worker, out);
    text_buffer_append_text(out, ",\"backend\":");
    if (worker.backend)
        append_words(out, worker.backend);
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_format(out,
                              ",\"state\":\"%s\",\"load_progress\":%.3f,\"restarts\":%u,"
                              "\"takeovers\":%u,\"standby\":{\"state\":\"%s\",\"pid\":",
                              worker.state, worker.load_progress, worker.restarts, worker.takeovers,
                              worker.standby);
    if (worker.standby_pid > 0)
        text_buffer_append_format(out, "%d", worker.standby_pid);
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_format(out, "},\"failed_starts\":%u,\"last_death\":", worker.failed_starts);
    if (worker.last_death) {
        text_buffer_append_text(out, "{\"reason\":");
        append_words(out, worker.last_death);
        text_buffer_append_format(out, ",\"seconds_ago\":%.3f}", seconds(worker.last_death_ms));
    } else {
        text_buffer_append_text(out, "null");
    }
    text_buffer_append_format(
        out,
        ",\"next_start_s\":%.3f,\"stalled_s\":%.3f,\"requests\":%u,\"slab_used_bytes\":%llu,"
        "\"says\":{\"running\":%u,\"waiting\":%u,\"steps\":%llu,\"kv_blocks_used\":%llu,"
        "\"kv_blocks_total\":%llu}}",
        seconds(worker.next_start_ms), seconds(worker.stalled_ms), worker.requests,
        (unsigned long long)worker.slab_used_bytes, worker.running, worker.waiting,
        (unsigned long long)worker.steps, (unsigned long long)worker.kv_blocks_used,
        (unsigned long long)worker.kv_blocks_total);
}

static void write_request(const struct request_status *request, int64_t now_us,
                          struct text_buffer *out)
{
    text_buffer_append_format(out, "{\"id\":\"%u.%u\",\"request_id\":", request->id.slot,
                              request->id.generation);
    if (request->name)
        append_words(out, request->name);
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_format(out, ",\"phase\":\"%s\",\"worker\":", request->phase);
    if (request->has_worker)
        text_buffer_append_format(out, "%u", request->worker);
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_format(out,
                              ",\"prompt_tokens\":%llu,\"computed_tokens\":%llu,"
                              "\"generated_tokens\":%llu,\"replays\":%u,\"age_s\":%.3f}",
                              (unsigned long long)request->prompt_tokens,
                              (unsigned long long)request->prompt_done,
                              (unsigned long long)request->generated_tokens, request->replays,
                              (double)(now_us - request->arrived_us) / 1e6);
}

/* Writes the viewer's requests (NULL: all) with a worker, or those without one. */
static void write_requests(const struct chat_engine *engine, const struct client_key *viewer,
                           bool with_worker, struct text_buffer *out)
{
    int64_t now_us = monotonic_clock_us();
    bool any = false;
    for (uint32_t slot = 0; slot < engine_status_slots(engine); slot++) {
        struct request_status request;
        if (!engine_status_read_request(engine, slot, &request) ||
            request.has_worker != with_worker ||
            (viewer && memcmp(viewer, &request.client_key, sizeof *viewer) != 0))
            continue;
        if (any)
            text_buffer_append_text(out, ",");
        write_request(&request, now_us, out);
        any = true;
    }
}

void status_report_write(struct chat_engine *engine, const struct client_key *viewer,
                         struct text_buffer *out)
{
    struct engine_status status;
    const struct serve_metrics *metrics = engine_status_metrics(engine);
    engine_status_read(engine, &status);
    text_buffer_append_format(
        out,
        "{\"status\":\"%s\",\"load_progress\":%.3f,\"worker_restarts\":%u,"
        "\"requests_replayed\":%llu,\"requests_quarantined\":%llu,\"changed_weights\":",
        status.state, status.load_progress, status.worker_restarts,
        (unsigned long long)metrics->requests_replayed,
        (unsigned long long)metrics->requests_quarantined);
    if (status.checkpoint_changed)
        append_words(out, status.changed_file);
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_text(out, ",\"workers\":[");
    for (uint32_t i = 0; i < engine_status_workers(engine); i++) {
        if (i > 0)
            text_buffer_append_text(out, ",");
        write_worker(engine, i, out);
    }
    text_buffer_append_text(out, "],\"requests\":{\"running\":[");
    write_requests(engine, viewer, true, out);
    text_buffer_append_text(out, "],\"waiting\":[");
    write_requests(engine, viewer, false, out);
    text_buffer_append_text(out, "]},\"quarantine\":");
    quarantine_routes_write(engine, viewer, out);
    text_buffer_append_text(out, "}");
}

/* The begin of an object. */
static void write_model_state(const struct model *model, struct text_buffer *out)
{
    const struct model_assets *assets =
        model_engine(model) ? chat_engine_assets(model_engine(model)) : NULL;
    text_buffer_append_text(out, "{\"id\":");
    append_words(out, assets ? assets->model_id : model_name(model));
    text_buffer_append_format(out, ",\"state\":\"%s\",\"bytes\":%llu,\"waiting\":%u,\"failure\":",
                              model_state_name(model_state(model)),
                              (unsigned long long)model_bytes(model), model_waiting(model));
    if (model_failure(model)[0])
        append_words(out, model_failure(model));
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_format(out, ",\"reloading\":%s",
                              model_is_reloading(model) ? "true" : "false");
}

static void write_model(const struct model *model, const struct client_key *viewer,
                        struct text_buffer *out)
{
    write_model_state(model, out);
    text_buffer_append_text(out, ",\"report\":");
    if (model_engine(model))
        status_report_write(model_engine(model), viewer, out);
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_text(out, "}");
}

void status_report_write_models(const struct model_set *models, const struct client_key *viewer,
                                struct text_buffer *out)
{
    text_buffer_append_text(out, "{\"models\":[");
    for (uint32_t i = 0; i < model_set_count(models); i++) {
        if (i > 0)
            text_buffer_append_text(out, ",");
        write_model(model_set_at(models, i), viewer, out);
    }
    text_buffer_append_text(out, "]}");
}

void status_report_write_states(const struct model_set *models, struct text_buffer *out)
{
    text_buffer_append_text(out, "[");
    for (uint32_t i = 0; i < model_set_count(models); i++) {
        if (i > 0)
            text_buffer_append_text(out, ",");
        write_model_state(model_set_at(models, i), out);
        text_buffer_append_text(out, "}");
    }
    text_buffer_append_text(out, "]");
}
