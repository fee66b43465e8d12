/*
 * Routes below /responses/.
 *
 * Input items of a response are everything it was made from: the conversation that it continues,
 * then its own input. They are listed from the chain of records, newest first by default, in pages;
 * a cursor is an item's id, so that pages stay stable.
 */
#include "frontend/serve/routes/route_replies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/responses/response_store.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/query_text.h"
#include "frontend/serve/routes/generation_route.h"
#include "frontend/serve/routes/response_resume.h"
#include "frontend/serve/routes/response_watches.h"
#include "proto/must.h"

#define USUAL_PAGE_ITEMS 20u

/* Copies the id out of the path. Returns what follows it ("", "/cancel", …), or NULL. */
static const char *path_split(const struct http_exchange *exchange, char id[RESPONSE_ID_BYTES])
{
    static const char folder[] = "/responses/";
    const char *start = strstr(exchange->request->path, folder) + sizeof folder - 1;
    size_t bytes = strcspn(start, "/");
    if (bytes == 0 || bytes >= RESPONSE_ID_BYTES)
        return NULL;
    memcpy(id, start, bytes);
    id[bytes] = '\0';
    return start + bytes;
}

static void reply_unknown(struct http_exchange *exchange)
{
    struct api_error error;
    (void)api_error_set(&error, RESULT_NOT_FOUND, 404, "unknown_url", "unknown request URL: %s %s",
                        exchange->request->method_name, exchange->request->path);
    http_reply_error(exchange, &error);
}

/* A reference, or NULL with the exchange answered. */
static struct response_record *record_find(struct response_store *store,
                                           struct http_exchange *exchange, const char *id)
{
    struct response_record *record = response_store_find(store, &exchange->client_key, id);
    struct api_error error;
    if (record)
        return record;
    (void)response_store_refuse(store, 404, NULL, id, &error);
    http_reply_error(exchange, &error);
    return NULL;
}

/* --- input items ----------------------------------------------------------------------------- */

struct listed_item {
    const struct response_record *record;
    enum response_item_side side;
    size_t index;
};

struct page {
    uint32_t limit;
    bool ascending;
    char after[RESPONSE_ID_BYTES]; /* "": from the start */
};

static const struct response_items *items_of(const struct response_record *record,
                                             enum response_item_side side)
{
    return side == RESPONSE_INPUT ? response_record_input(record) : response_record_output(record);
}

static void item_id_write(const struct listed_item *item, struct text_buffer *out)
{
    response_items_write_id(items_of(item->record, item->side), item->index,
                            response_record_id(item->record), item->side, out);
}

/* All items from which `record` was made, newest first; the caller frees. */
static struct listed_item *items_collect(const struct response_record *record, size_t *count)
{
    size_t most = 0;
    for (const struct response_record *at = record; at; at = response_record_previous(at))
        most += response_record_input(at)->count + response_record_output(at)->count;
    struct listed_item *list = must_alloc(most + 1, sizeof *list);
    *count = 0;
    for (const struct response_record *at = record; at; at = response_record_previous(at)) {
        for (size_t i = at == record ? 0 : response_record_output(at)->count; i-- > 0;)
            list[(*count)++] = (struct listed_item){at, RESPONSE_OUTPUT, i};
        for (size_t i = response_record_input(at)->count; i-- > 0;)
            list[(*count)++] = (struct listed_item){at, RESPONSE_INPUT, i};
    }
    return list;
}

static void items_reverse(struct listed_item list[], size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        struct listed_item item = list[i];
        list[i] = list[count - 1 - i];
        list[count - 1 - i] = item;
    }
}

/* Index of the item with this id; `count` if there is none. */
static size_t items_find(const struct listed_item list[], size_t count, const char *id)
{
    struct text_buffer text = {0};
    size_t at = 0;
    for (; at < count; at++) {
        text_buffer_clear(&text);
        item_id_write(&list[at], &text);
        if (!text.failed && strcmp(text.bytes, id) == 0)
            break;
    }
    text_buffer_fini(&text);
    return at;
}

static void member_write_id(const char *name, const struct listed_item *item,
                            struct text_buffer *out)
{
    text_buffer_append_format(out, ",\"%s\":", name);
    if (!item) {
        text_buffer_append_text(out, "null");
        return;
    }
    text_buffer_append_text(out, "\"");
    item_id_write(item, out);
    text_buffer_append_text(out, "\"");
}

static void page_write(const struct listed_item list[], size_t begin, size_t end, bool more,
                       struct text_buffer *out)
{
    text_buffer_append_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = begin; i < end; i++) {
        if (i > begin)
            text_buffer_append_text(out, ",");
        response_items_write(items_of(list[i].record, list[i].side), list[i].index,
                             response_record_id(list[i].record), list[i].side, out);
    }
    text_buffer_append_text(out, "]");
    member_write_id("first_id", end > begin ? &list[begin] : NULL, out);
    member_write_id("last_id", end > begin ? &list[end - 1] : NULL, out);
    text_buffer_append_format(out, ",\"has_more\":%s}", more ? "true" : "false");
}

static enum result page_read(const char *query, struct page *page, struct api_error *error)
{
    char word[RESPONSE_ID_BYTES];
    char *end;
    *page = (struct page){.limit = USUAL_PAGE_ITEMS};
    if (query_text_find(query, "limit", word, sizeof word)) {
        unsigned long limit = strtoul(word, &end, 10);
        if (word[0] < '0' || word[0] > '9' || *end || limit < 1 || limit > LIMIT_LISTED_ITEMS)
            return api_error_invalid(error, "limit", "limit must be an integer between 1 and %u",
                                     LIMIT_LISTED_ITEMS);
        page->limit = (uint32_t)limit;
    }
    if (query_text_find(query, "order", word, sizeof word)) {
        page->ascending = strcmp(word, "asc") == 0;
        if (!page->ascending && strcmp(word, "desc") != 0)
            return api_error_invalid(error, "order", "order must be 'asc' or 'desc'");
    }
    if (query_text_find(query, "before", word, sizeof word))
        return api_error_invalid(error, "before", "before is not supported: use after and order");
    (void)query_text_find(query, "after", page->after, sizeof page->after);
    return RESULT_OK;
}

static void input_items_reply(const struct response_record *record, struct http_exchange *exchange)
{
    struct api_error error;
    struct page page;
    struct text_buffer body = {0};
    size_t count, begin = 0;
    if (page_read(exchange->request->query, &page, &error) != RESULT_OK) {
        http_reply_error(exchange, &error);
        return;
    }
    struct listed_item *list = items_collect(record, &count);
    if (page.ascending)
        items_reverse(list, count);
    if (page.after[0])
        begin = items_find(list, count, page.after) + 1;
    if (begin > count) {
        (void)api_error_invalid(&error, "after", "there is no item with id '%s'", page.after);
        http_reply_error(exchange, &error);
    } else {
        size_t end = count - begin > page.limit ? begin + page.limit : count;
        page_write(list, begin, end, end < count, &body);
        http_reply_json(exchange, 200, &body);
    }
    free(list);
}

/* --- routes ---------------------------------------------------------------------------------- */

/* How a response is retrieved. */
struct retrieval {
    bool stream;
    uint64_t first_sequence; /* of the events */
};

/* `word` is the number of an event; the stream continues after it. */
static bool last_event_read(const char *word, struct retrieval *retrieval)
{
    size_t digits = strspn(word, "0123456789");
    if (digits == 0 || digits > 18 || word[digits])
        return false;
    retrieval->first_sequence = strtoull(word, NULL, 10) + 1;
    return true;
}

/* The query `starting_after` precedes the header Last-Event-ID, which browsers send when they
 * connect again. */
static enum result retrieval_read(const struct http_parser *request, struct retrieval *retrieval,
                                  struct api_error *error)
{
    char word[32];
    *retrieval = (struct retrieval){0};
    if (query_text_find(request->query, "stream", word, sizeof word)) {
        retrieval->stream = strcmp(word, "true") == 0;
        if (!retrieval->stream && strcmp(word, "false") != 0)
            return api_error_invalid(error, "stream", "stream must be 'true' or 'false'");
    }
    if (query_text_find(request->query, "starting_after", word, sizeof word)) {
        if (!retrieval->stream)
            return api_error_invalid(error, "starting_after", "starting_after needs stream=true");
        if (!last_event_read(word, retrieval))
            return api_error_invalid(error, "starting_after",
                                     "starting_after must be the sequence_number of an event");
        return RESULT_OK;
    }
    const char *last = http_parser_header(request, "last-event-id");
    if (retrieval->stream && last && !last_event_read(last, retrieval))
        return api_error_invalid(error, "Last-Event-ID",
                                 "Last-Event-ID must be the id of an event of this stream");
    return RESULT_OK;
}

static void record_reply(struct response_record *record, struct http_exchange *exchange)
{
    struct text_buffer body = {0};
    response_record_write(record, &body);
    http_reply_json(exchange, 200, &body);
}

void responses_routes_get(const struct route_context *context, struct http_exchange *exchange)
{
    char id[RESPONSE_ID_BYTES];
    struct api_error error;
    struct retrieval retrieval;
    const char *rest = path_split(exchange, id);
    bool items = rest && strcmp(rest, "/input_items") == 0;
    if (!rest || (rest[0] && !items)) {
        reply_unknown(exchange);
        return;
    }
    struct response_record *record = record_find(context->responses, exchange, id);
    if (!record)
        return;
    if (items)
        input_items_reply(record, exchange);
    else if (retrieval_read(exchange->request, &retrieval, &error) != RESULT_OK)
        http_reply_error(exchange, &error);
    else if (retrieval.stream)
        response_watches_open(context->watches, exchange, record, retrieval.first_sequence);
    else
        record_reply(record, exchange);
    response_record_release(record);
}

/* Cancels an answer in progress; the record is final after this. */
static void record_cancel(struct response_record *record, const struct route_context *context,
                          const struct http_exchange *exchange)
{
    if (response_status_is_final(response_record_status(record)))
        return;
    if (generation_route_cancel(context->generation, &exchange->client_key,
                                response_record_id(record)) == RESULT_OK)
        return;
    response_resume_cancel(context->resume, record);
    response_watches_advance(context->watches, response_record_id(record));
}

void responses_routes_delete(const struct route_context *context, struct http_exchange *exchange)
{
    char id[RESPONSE_ID_BYTES];
    const char *rest = path_split(exchange, id);
    if (!rest || rest[0]) {
        reply_unknown(exchange);
        return;
    }
    struct response_record *record = record_find(context->responses, exchange, id);
    if (!record)
        return;
    struct text_buffer body = {0};
    record_cancel(record, context, exchange);
    response_record_withdraw(record);
    response_record_release(record);
    text_buffer_append_format(&body, "{\"id\":\"%s\",\"object\":\"response\",\"deleted\":true}",
                              id);
    http_reply_json(exchange, 200, &body);
}

void responses_routes_post(const struct route_context *context, struct http_exchange *exchange)
{
    char id[RESPONSE_ID_BYTES];
    const char *rest = path_split(exchange, id);
    if (!rest || strcmp(rest, "/cancel") != 0) {
        reply_unknown(exchange);
        return;
    }
    struct response_record *record = record_find(context->responses, exchange, id);
    if (!record)
        return;
    record_cancel(record, context, exchange);
    record_reply(record, exchange);
    response_record_release(record);
}
