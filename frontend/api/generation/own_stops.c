/*
 * Both processes end an answer at the same ids: the worker gets the collected list, and the frontend
 * collects it again for an answer that is replayed.
 */
#include "frontend/api/generation/own_stops.h"

#include <string.h>

#include "frontend/api/generation/generation_request.h"
#include "frontend/assets/model_assets.h"

static bool has(const uint32_t *ids, uint32_t count, uint32_t id)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == id)
            return true;
    }
    return false;
}

void stop_ids_collect(const struct generation_request *request, const struct model_assets *assets,
                      struct stop_ids *stops)
{
    *stops = (struct stop_ids){.ignored = request->ignore_end && request->stop_token_count == 0};
    if (!request->ignore_end || stops->ignored) {
        memcpy(stops->ids, assets->stop_ids, assets->stop_id_count * sizeof *stops->ids);
        stops->count = assets->stop_id_count;
    }
    for (uint32_t i = 0; i < request->stop_token_count; i++) {
        uint32_t id = request->stop_tokens[i];
        if (!has(stops->ids, stops->count, id) && stops->count < LIMIT_STOP_TOKENS)
            stops->ids[stops->count++] = id;
    }
}

void own_stops_init(struct own_stops *stops, const struct generation_request *request)
{
    *stops =
        (struct own_stops){.count = request->stop_token_count, .include = request->include_stop};
    memcpy(stops->ids, request->stop_tokens, stops->count * sizeof *stops->ids);
}

bool own_stops_note(struct own_stops *stops, const struct reply_token *token)
{
    if (!token->is_stop)
        return true;
    if (!has(stops->ids, stops->count, token->id))
        return false;
    stops->found = true;
    stops->token = token->id;
    return stops->include;
}

void own_stops_write(const struct own_stops *stops, const char *string, struct text_buffer *out)
{
    text_buffer_append_text(out, ",\"stop_reason\":");
    if (string)
        text_buffer_append_json_string(out, string, strlen(string));
    else if (stops->found)
        text_buffer_append_whole(out, stops->token, 1);
    else
        text_buffer_append_text(out, "null");
}
