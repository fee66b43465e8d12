/*
 * The rules of generation_end.h: a stop id first, then the length.
 */
#include "proto/generation_end.h"

enum finish_reason generation_end_find(const struct generation_end_rules *rules, uint32_t token,
                                       uint32_t total_tokens)
{
    for (uint32_t i = 0; !rules->ignore_end && i < rules->stop_id_count; i++) {
        if (rules->stop_ids[i] == token)
            return FINISH_STOP_TOKEN;
    }
    return total_tokens >= rules->max_total_tokens ? FINISH_LENGTH : FINISH_NONE;
}
