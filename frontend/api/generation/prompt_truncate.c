/*
 * How many tokens a message has is not known before the template is rendered. It is estimated by its
 * share of the text; the caller renders again and, if that is still too long, calls again.
 */
#include "frontend/api/generation/prompt_truncate.h"

#include <cjson/cJSON.h>
#include <string.h>

static bool has_role(const cJSON *message, const char *role)
{
    const char *own = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role"));
    return own && strcmp(own, role) == 0;
}

static bool is_kept(const cJSON *message)
{
    return has_role(message, "system") || has_role(message, "developer");
}

/* Bytes of all strings in the value, to a depth that no body exceeds (LIMIT_BODY_DEPTH). */
static double text_bytes(const cJSON *value)
{
    double bytes = 8 + (value->valuestring ? (double)strlen(value->valuestring) : 0);
    for (const cJSON *child = value->child; child; child = child->next)
        bytes += text_bytes(child);
    return bytes;
}

/* The first message after `first`, the beginning of a turn, that begins another; NULL: none. */
static cJSON *turn_next(cJSON *first)
{
    cJSON *at = first->next;
    while (at && !has_role(at, "user"))
        at = at->next;
    return at;
}

bool prompt_truncate(cJSON *messages, const struct context_overflow *overflow,
                     uint32_t answer_tokens)
{
    double room = (double)overflow->most_tokens - answer_tokens - 1;
    double share = 1 - (room > 0 ? room : 0) / ((double)overflow->prompt_tokens + 1);
    double wanted = text_bytes(messages) * share, dropped = 0;
    bool any = false;
    while (!any || dropped < wanted) {
        cJSON *first = messages->child;
        while (first && is_kept(first))
            first = first->next;
        cJSON *end = first ? turn_next(first) : NULL;
        if (!end)
            return any;
        for (cJSON *at = first, *next; at != end; at = next) {
            next = at->next;
            if (is_kept(at))
                continue;
            dropped += text_bytes(at);
            cJSON_Delete(cJSON_DetachItemViaPointer(messages, at));
        }
        any = true;
    }
    return true;
}
