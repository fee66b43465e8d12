/*
 * Figures are sums over the workers' gauges. A reset is a record to each worker, before every
 * request that is submitted later; a worker that is being started gets it as its first record.
 */
#include "frontend/serve/routes/route_replies.h"

#include "frontend/http/http_reply.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/routes/model_choice.h"

void cache_routes_stats(const struct route_context *context, struct http_exchange *exchange)
{
    struct chat_engine *engine = model_choice_engine(context, exchange);
    struct engine_status status;
    if (!engine)
        return;
    engine_status_read(engine, &status);
    const struct worker_totals *totals = &status.totals;
    double share = totals->prefix_query_tokens
                       ? (double)totals->prefix_hit_tokens / (double)totals->prefix_query_tokens
                       : 0;
    struct text_buffer body = {0};
    text_buffer_append_format(
        &body,
        "{\"object\":\"cache.stats\",\"prefix_cache\":{\"enabled\":%s,\"block_tokens\":%llu,"
        "\"blocks_total\":%llu,\"blocks_used\":%llu,\"blocks_cached\":%llu,\"places\":%llu,",
        status.prefix_cache ? "true" : "false", (unsigned long long)status.kv_block_tokens,
        (unsigned long long)status.kv_blocks_total, (unsigned long long)status.kv_blocks_used,
        (unsigned long long)status.kv_blocks_cached, (unsigned long long)status.prefix_places);
    text_buffer_append_format(
        &body,
        "\"queries\":%llu,\"query_tokens\":%llu,\"hit_tokens\":%llu,\"hit_share\":%.4f,"
        "\"evictions\":%llu,\"resets\":%llu},",
        (unsigned long long)totals->prefix_queries, (unsigned long long)totals->prefix_query_tokens,
        (unsigned long long)totals->prefix_hit_tokens, share,
        (unsigned long long)totals->prefix_evictions, (unsigned long long)totals->prefix_resets);
    text_buffer_append_format(
        &body,
        "\"vision_cache\":{\"images\":%llu,\"bytes_total\":%llu,\"bytes_used\":%llu,\"queries\":%"
        "llu,"
        "\"hits\":%llu,\"evictions\":%llu}}",
        (unsigned long long)status.images_cached, (unsigned long long)status.feature_bytes_total,
        (unsigned long long)status.feature_bytes_used,
        (unsigned long long)(totals->image_hits + totals->image_misses),
        (unsigned long long)totals->image_hits, (unsigned long long)totals->image_evictions);
    http_reply_json(exchange, 200, &body);
}

void cache_routes_reset(const struct route_context *context, struct http_exchange *exchange)
{
    struct text_buffer body = {0};
    uint32_t workers = 0;
    for (uint32_t i = 0; i < model_set_count(context->models); i++) {
        struct chat_engine *engine = model_engine(model_set_at(context->models, i));
        workers += engine ? chat_engine_reset_caches(engine) : 0;
    }
    text_buffer_append_format(&body, "{\"object\":\"cache.reset\",\"workers\":%u}", workers);
    http_reply_json(exchange, 200, &body);
}
