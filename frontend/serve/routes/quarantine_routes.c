/*
 * A conviction is named by the fingerprint of its request: 16 hexadecimal digits of a keyed hash,
 * from which nothing about the prompt can be computed.
 */
#include "frontend/serve/routes/quarantine_routes.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_reply.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/models/model_set.h"
#include "frontend/serve/routes/route_replies.h"

#define ID_DIGITS 16u

/* True if a client may see and revoke the conviction. `viewer`: its API key; NULL: an
 * administrator. */
static bool may_access(const struct client_key *viewer, const struct poison_conviction *conviction)
{
    return !viewer || memcmp(viewer, &conviction->owner, sizeof *viewer) == 0;
}

void quarantine_routes_write(struct chat_engine *engine, const struct client_key *viewer,
                             struct text_buffer *out)
{
    int64_t now_ms = monotonic_clock_ms();
    uint32_t count = engine_status_convictions(engine);
    bool any = false;
    text_buffer_append_text(out, "[");
    for (uint32_t i = 0; i < count; i++) {
        const struct poison_conviction *conviction = engine_status_conviction(engine, i);
        if (!may_access(viewer, conviction))
            continue;
        char id[POISON_ID_BYTES];
        poison_memory_write_id(conviction->fingerprint, id);
        text_buffer_append_format(out,
                                  "%s{\"id\":\"%s\",\"cause\":\"%s\",\"deaths\":%u,"
                                  "\"age_s\":%.3f,\"left_s\":%.3f}",
                                  any ? "," : "", id, death_cause_name(conviction->cause),
                                  conviction->deaths,
                                  (double)(now_ms - conviction->since_ms) / 1000,
                                  (double)(conviction->until_ms - now_ms) / 1000);
        any = true;
    }
    text_buffer_append_text(out, "]");
}

/* Reads the id after "/quarantine/". */
static bool id_read(const char *path, uint64_t *id)
{
    const char *text = strrchr(path, '/') + 1;
    if (strlen(text) != ID_DIGITS || strspn(text, "0123456789abcdef") != ID_DIGITS)
        return false;
    *id = strtoull(text, NULL, 16);
    return true;
}

static bool revoke(struct chat_engine *engine, const struct client_key *viewer, uint64_t id)
{
    const struct poison_conviction *conviction =
        engine ? engine_status_find_conviction(engine, id) : NULL;
    return conviction && may_access(viewer, conviction) && chat_engine_revoke(engine, id);
}

void quarantine_routes_delete(const struct route_context *context, struct http_exchange *exchange)
{
    const struct client_key *viewer = exchange->rights.admin ? NULL : &exchange->client_key;
    uint64_t id = 0;
    bool revoked = false;
    bool named = id_read(exchange->request->path, &id);
    for (uint32_t i = 0; named && !revoked && i < model_set_count(context->models); i++)
        revoked = revoke(model_engine(model_set_at(context->models, i)), viewer, id);
    if (!revoked) {
        struct api_error error;
        (void)api_error_set(&error, RESULT_NOT_FOUND, 404, "conviction_not_found",
                            "no conviction has this id");
        http_reply_error(exchange, &error);
        return;
    }
    char text[POISON_ID_BYTES];
    struct text_buffer body = {0};
    poison_memory_write_id(id, text);
    text_buffer_append_format(&body, "{\"id\":\"%s\",\"object\":\"quarantine\",\"deleted\":true}",
                              text);
    http_reply_json(exchange, 200, &body);
}
