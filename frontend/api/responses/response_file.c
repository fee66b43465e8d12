/*
 * Files are read after a crash and may be cut, damaged or made by another program: the checksum is
 * compared first, and then each length, span and text is checked as well, because a checksum
 * without a secret proves nothing about the author.
 */
#include "frontend/api/responses/response_file.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/api/responses/response_script.h"
#include "proto/keyed_hash.h"
#include "proto/utf8.h"

#define VERSION 1u

enum response_file_section {
    SECTION_INPUT,
    SECTION_INPUT_SPANS, /* struct file_span for each item */
    SECTION_FIELDS,
    SECTION_OUTPUT,
    SECTION_OUTPUT_SPANS,
    SECTION_OUTCOME,
    SECTION_SCRIPT,
    SECTION_BODY,
    SECTION_MODEL_ID,
    SECTIONS
};

struct file_head {
    char magic[8];
    uint32_t version;
    uint32_t head_bytes;
    uint64_t file_bytes;
    uint64_t checksum[2];
    char id[RESPONSE_ID_BYTES];
    char previous_id[RESPONSE_ID_BYTES];
    struct client_key client_key;
    uint32_t status;
    uint32_t zero;
    int64_t created_unix_s;
    int64_t ended_unix_s;
    int64_t asked_unix_s;
    uint64_t random_seed;
    struct cache_salt cache_salt;
    uint64_t section_bytes[SECTIONS];
};

#define CHECKED_FROM 40u /* the checksum covers the rest of the file */

_Static_assert(offsetof(struct file_head, id) == CHECKED_FROM, "byte map");
_Static_assert(offsetof(struct file_head, status) == 200, "byte map");
_Static_assert(offsetof(struct file_head, cache_salt) == 240, "byte map");
_Static_assert(sizeof(struct file_head) == 328, "byte map");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they are");

struct file_span {
    uint64_t start;
    uint64_t bytes;
    char prefix[8]; /* "": the item's text has an id */
};

static const char magic[8] = {'s', 'h', 'o', 'a', 'l', 'r', 's', 'p'};

/* The texts, in the order of the sections; NULL for spans. */
static void texts_list(struct response_file *file, struct text_buffer *texts[SECTIONS])
{
    memset(texts, 0, SECTIONS * sizeof texts[0]);
    texts[SECTION_INPUT] = &file->input.text;
    texts[SECTION_FIELDS] = &file->fields;
    texts[SECTION_OUTPUT] = &file->output.text;
    texts[SECTION_OUTCOME] = &file->outcome;
    texts[SECTION_SCRIPT] = &file->script;
    texts[SECTION_BODY] = &file->body;
    texts[SECTION_MODEL_ID] = &file->model_id;
}

static void sections_measure(const struct response_file *file, uint64_t bytes[SECTIONS])
{
    struct response_file copy = *file;
    struct text_buffer *texts[SECTIONS];
    texts_list(&copy, texts);
    for (int i = 0; i < SECTIONS; i++)
        bytes[i] = texts[i] ? texts[i]->length : 0;
    bytes[SECTION_INPUT_SPANS] = file->input.count * sizeof(struct file_span);
    bytes[SECTION_OUTPUT_SPANS] = file->output.count * sizeof(struct file_span);
}

static void checksum_make(const char *bytes, const struct file_head *head, uint64_t checksum[2])
{
    const struct keyed_hash_key key = {{0x73686f616c727370u ^ head->file_bytes, head->version}};
    keyed_hash_wide(&key, bytes + CHECKED_FROM, head->file_bytes - CHECKED_FROM, checksum);
}

void response_file_fini(struct response_file *file)
{
    response_items_fini(&file->input);
    response_items_fini(&file->output);
    text_buffer_fini(&file->fields);
    text_buffer_fini(&file->outcome);
    text_buffer_fini(&file->script);
    text_buffer_fini(&file->body);
    text_buffer_fini(&file->model_id);
    *file = (struct response_file){0};
}

/* --- writing --------------------------------------------------------------------------------- */

uint64_t response_file_bytes(const struct response_file *file)
{
    uint64_t section_bytes[SECTIONS], bytes = sizeof(struct file_head);
    sections_measure(file, section_bytes);
    for (int i = 0; i < SECTIONS; i++)
        bytes += section_bytes[i];
    return bytes;
}

static void spans_encode(const struct response_items *items, struct text_buffer *out)
{
    for (size_t i = 0; i < items->count; i++) {
        struct file_span span = {.start = items->spans[i].start, .bytes = items->spans[i].bytes};
        if (items->spans[i].prefix)
            memcpy(span.prefix, items->spans[i].prefix, strlen(items->spans[i].prefix));
        text_buffer_append(out, (const char *)&span, sizeof span);
    }
}

void response_file_encode(const struct response_file *file, struct text_buffer *out)
{
    struct file_head head = {.version = VERSION,
                             .head_bytes = sizeof head,
                             .file_bytes = response_file_bytes(file),
                             .client_key = file->client_key,
                             .status = file->status,
                             .created_unix_s = file->created_unix_s,
                             .ended_unix_s = file->ended_unix_s,
                             .asked_unix_s = file->asked_unix_s,
                             .random_seed = file->random_seed,
                             .cache_salt = file->cache_salt};
    struct response_file copy = *file;
    struct text_buffer *texts[SECTIONS];
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.id, file->id, strlen(file->id));
    memcpy(head.previous_id, file->previous_id, strlen(file->previous_id));
    sections_measure(file, head.section_bytes);
    texts_list(&copy, texts);
    size_t start = out->length;
    text_buffer_append(out, (const char *)&head, sizeof head);
    for (int i = 0; i < SECTIONS; i++) {
        if (i == SECTION_INPUT_SPANS)
            spans_encode(&file->input, out);
        else if (i == SECTION_OUTPUT_SPANS)
            spans_encode(&file->output, out);
        else if (texts[i]->length > 0)
            text_buffer_append(out, texts[i]->bytes, texts[i]->length);
    }
    if (out->failed)
        return;
    checksum_make(out->bytes + start, &head, head.checksum);
    memcpy(out->bytes + start, &head, sizeof head);
}

/* --- reading --------------------------------------------------------------------------------- */

/* The head, if the file is whole. */
static enum result head_read(const char *bytes, size_t count, struct file_head *head,
                             struct error_text *error)
{
    uint64_t checksum[2];
    if (count < sizeof *head)
        return error_set(error, RESULT_CORRUPT, "it is shorter than a head");
    memcpy(head, bytes, sizeof *head);
    if (memcmp(head->magic, magic, sizeof magic) != 0)
        return error_set(error, RESULT_CORRUPT, "it is not a file of a stored response");
    if (head->version != VERSION)
        return error_set(error, RESULT_UNSUPPORTED, "its version is %u; this program reads %u",
                         head->version, VERSION);
    if (head->head_bytes != sizeof *head || head->file_bytes != count)
        return error_set(error, RESULT_CORRUPT, "it has %zu bytes instead of %llu", count,
                         (unsigned long long)head->file_bytes);
    checksum_make(bytes, head, checksum);
    if (memcmp(checksum, head->checksum, sizeof checksum) != 0)
        return error_set(error, RESULT_CORRUPT, "its checksum is wrong");
    uint64_t left = count - sizeof *head;
    for (int i = 0; i < SECTIONS; i++) {
        if (head->section_bytes[i] > left)
            return error_set(error, RESULT_CORRUPT, "a section ends after the file");
        left -= head->section_bytes[i];
    }
    if (left > 0)
        return error_set(error, RESULT_CORRUPT, "bytes follow its last section");
    return RESULT_OK;
}

/* `id` has RESPONSE_ID_BYTES. */
static bool id_is_valid(const char *id)
{
    const size_t prefix = sizeof RESPONSE_ID_PREFIX - 1;
    if (!memchr(id, '\0', RESPONSE_ID_BYTES) || strncmp(id, RESPONSE_ID_PREFIX, prefix) != 0)
        return false;
    size_t digits = strspn(id + prefix, "0123456789abcdef");
    return digits > 0 && id[prefix + digits] == '\0';
}

static bool facts_read(const struct file_head *head, struct response_file *file)
{
    if (!id_is_valid(head->id) || (head->previous_id[0] && !id_is_valid(head->previous_id)) ||
        head->status > RESPONSE_CANCELLED || head->zero != 0)
        return false;
    strcpy(file->id, head->id);
    strcpy(file->previous_id, head->previous_id);
    file->client_key = head->client_key;
    file->status = (enum response_status)head->status;
    file->created_unix_s = head->created_unix_s;
    file->ended_unix_s = head->ended_unix_s;
    file->asked_unix_s = head->asked_unix_s;
    file->random_seed = head->random_seed;
    file->cache_salt = head->cache_salt;
    return true;
}

/* True if the item's text is an object that shows the id it has, if it has one. */
static bool item_is_valid(const char *text, size_t bytes, bool has_id)
{
    static const char before[] = "{\"id\":\"";
    const size_t start = sizeof before - 1;
    if (bytes < 2 || text[0] != '{' || text[bytes - 1] != '}')
        return false;
    return !has_id || (bytes > start && memcmp(text, before, start) == 0 &&
                       memchr(text + start, '"', bytes - start) != NULL);
}

/* Items are separated by one comma and fill the text. */
static enum result spans_read(const char *bytes, size_t count, struct response_items *items)
{
    size_t expected = 0;
    if (count % sizeof(struct file_span) != 0)
        return RESULT_CORRUPT;
    items->count = items->capacity = count / sizeof(struct file_span);
    items->spans = calloc(items->count + 1, sizeof items->spans[0]);
    if (!items->spans) {
        items->count = items->capacity = 0;
        return RESULT_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < items->count; i++) {
        struct file_span span;
        memcpy(&span, bytes + i * sizeof span, sizeof span);
        if (span.prefix[sizeof span.prefix - 1])
            return RESULT_CORRUPT;
        const char *prefix = span.prefix[0] ? response_item_prefix_known(span.prefix) : NULL;
        if ((span.prefix[0] && !prefix) || span.start != expected ||
            span.start > items->text.length || span.bytes > items->text.length - span.start ||
            !item_is_valid(items->text.bytes + span.start, span.bytes, !prefix))
            return RESULT_CORRUPT;
        items->spans[i] = (struct response_item_span){span.start, span.bytes, prefix};
        expected = span.start + span.bytes + 1;
        if (i + 1 < items->count &&
            (expected > items->text.length || items->text.bytes[expected - 1] != ','))
            return RESULT_CORRUPT;
    }
    return expected == (items->count ? items->text.length + 1 : 0) &&
                   (items->count > 0 || items->text.length == 0)
               ? RESULT_OK
               : RESULT_CORRUPT;
}

static bool script_is_valid(const struct text_buffer *script)
{
    struct response_step step;
    size_t offset = 0;
    while (offset < script->length) {
        if (!response_script_read(script->bytes, script->length, &offset, &step) ||
            (step.text && !utf8_is_valid(step.text, step.text_bytes)) ||
            (step.more && !utf8_is_valid(step.more, step.more_bytes)))
            return false;
    }
    return true;
}

static bool texts_are_valid(const struct response_file *file)
{
    const struct text_buffer *texts[] = {&file->input.text, &file->fields, &file->output.text,
                                         &file->outcome, &file->model_id};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i]->length > 0 && (memchr(texts[i]->bytes, '\0', texts[i]->length) ||
                                     !utf8_is_valid(texts[i]->bytes, texts[i]->length)))
            return false;
    }
    bool final = response_status_is_final(file->status);
    return script_is_valid(&file->script) && final == (file->body.length == 0) &&
           (final ||
            (file->output.count == 0 && file->outcome.length == 0 && file->script.length == 0));
}

static enum result sections_read(const char *bytes, const struct file_head *head,
                                 struct response_file *file)
{
    struct text_buffer *texts[SECTIONS];
    const char *starts[SECTIONS];
    texts_list(file, texts);
    for (int i = 0; i < SECTIONS; i++) {
        starts[i] = bytes;
        if (texts[i] && head->section_bytes[i] > 0)
            text_buffer_append(texts[i], bytes, head->section_bytes[i]);
        if (texts[i] && texts[i]->failed)
            return RESULT_OUT_OF_MEMORY;
        bytes += head->section_bytes[i];
    }
    enum result result = spans_read(starts[SECTION_INPUT_SPANS],
                                    head->section_bytes[SECTION_INPUT_SPANS], &file->input);
    if (result == RESULT_OK)
        result = spans_read(starts[SECTION_OUTPUT_SPANS], head->section_bytes[SECTION_OUTPUT_SPANS],
                            &file->output);
    if (result == RESULT_OK && !texts_are_valid(file))
        result = RESULT_CORRUPT;
    return result;
}

enum result response_file_decode(const char *bytes, size_t count, struct response_file *file,
                                 struct error_text *error)
{
    struct file_head head;
    *file = (struct response_file){0};
    enum result result = head_read(bytes, count, &head, error);
    if (result != RESULT_OK)
        return result;
    result =
        facts_read(&head, file) ? sections_read(bytes + sizeof head, &head, file) : RESULT_CORRUPT;
    if (result != RESULT_OK) {
        response_file_fini(file);
        return error_set(error, result, result == RESULT_CORRUPT ? "it contradicts itself" : "%s",
                         result_name(result));
    }
    return RESULT_OK;
}
