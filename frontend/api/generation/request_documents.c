/*
 * A document becomes parts before the body's messages are rendered, because its text is part of
 * them. A file's kind follows from its bytes: a PDF header, otherwise UTF-8 text without a NUL.
 * PDF files are read on a thread for images, those of other hosts on one for the network, so that
 * texts never wait for them. A request's documents share one bound of CPU time.
 *
 * Not supported: ids of uploaded files, citations, other kinds of files.
 */
#include "frontend/api/generation/request_documents.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "frontend/api/generation/request_fields.h"
#include "frontend/assets/vision_assets.h"
#include "frontend/base/utf8_stream.h"
#include "frontend/document/document_reader.h"
#include "frontend/prompt/image_form.h"

/* Of one document, while it is read. */
struct document {
    struct request_images *images;
    const struct parse_context *context;
    const char *place;
    bool must_be_pdf; /* the client says that it is one */
    cJSON *parts;
    struct api_error *error;
};

void request_documents_begin(struct request_images *images, const struct parse_context *context)
{
    const struct vision_assets *vision = context->assets->vision;
    images->taken = vision_assets_sees(vision);
    images->videos_taken = images->taken && vision->video.rule != VIDEO_RULE_NONE;
    images->sounds_taken = vision_assets_hears(vision);
    images->context = context;
    images->document_count = 0;
    images->document_cpu_left_ms = LIMIT_REQUEST_DOCUMENT_CPU_MS;
}

bool request_documents_is_type(const char *type)
{
    return strcmp(type, "document") == 0 || strcmp(type, "file") == 0 ||
           strcmp(type, "input_file") == 0;
}

/* --- parts ------------------------------------------------------------------------------------ */

static enum result part_add(struct document *document, cJSON *part)
{
    return cJSON_AddItemToArray(document->parts, part) ? RESULT_OK
                                                       : api_error_memory(document->error);
}

static enum result text_add(struct document *document, const char *text)
{
    return part_add(document, image_form_text(text));
}

static enum result image_add(struct document *document, const struct file_bytes *image)
{
    enum result result =
        request_images_add_file(document->images, image, document->place, document->error);
    return result == RESULT_OK ? part_add(document, request_images_part(NULL)) : result;
}

static enum result refuse(const struct document *document, enum result result,
                          const struct error_text *why)
{
    struct api_error *error = document->error;
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    if (result == RESULT_CANCELLED)
        return api_error_set(error, result, 503, NULL, "the request was cancelled");
    if (result == RESULT_PEER_GONE || result == RESULT_IO) {
        (void)api_error_set(error, result, 503, "document_reader_unavailable", "%s: %s",
                            document->place, why->text);
        error->retry_after_s = 1;
        return result;
    }
    (void)api_error_set(error, result, 400, "invalid_document", "%s: %s", document->place,
                        why->text);
    strcpy(error->param, document->place);
    return RESULT_INVALID;
}

static enum result lane_need(const struct document *document, enum preparation_lane needed)
{
    enum preparation_lane *lane = document->context->lane;
    if (!lane || *lane >= needed)
        return RESULT_OK;
    *lane = needed;
    return api_error_set(document->error, RESULT_CANCELLED, 503, NULL, "the request was cancelled");
}

/* --- kinds of files --------------------------------------------------------------------------- */

static enum result pages_add(struct document *document, const struct document_pages *pages,
                             bool with_images)
{
    enum result result = RESULT_OK;
    bool empty = true;
    for (uint32_t i = 0; i < pages->count && result == RESULT_OK; i++) {
        const struct document_page *page = &pages->pages[i];
        if (page->image.count > 0)
            result = image_add(document, &page->image);
        if (result == RESULT_OK && page->text[0])
            result = text_add(document, page->text);
        empty = empty && page->image.count == 0 && page->text[0] == '\0';
    }
    if (result != RESULT_OK || !empty)
        return result;
    return api_error_invalid(document->error, document->place,
                             with_images ? "the PDF file has neither text nor pages to draw"
                                         : "the PDF file has no text, and images of its pages are "
                                           "not read here");
}

static enum result pdf_read(struct document *document, const struct file_bytes *file)
{
    const struct document_settings *settings = &document->context->assets->documents;
    struct document_pages pages;
    struct error_text why;
    if (settings->mode == DOCUMENTS_OFF)
        return api_error_invalid(document->error, document->place,
                                 "PDF files are not read by this server (--documents)");
    enum result result = lane_need(document, PREPARATION_IMAGES);
    if (result != RESULT_OK)
        return result;
    bool with_images = settings->mode == DOCUMENTS_IMAGES && document->images->taken;
    result = document_read_pdf(settings, file->bytes, file->count, with_images,
                               document->context->cancelled,
                               &document->images->document_cpu_left_ms, &pages, &why);
    if (result != RESULT_OK)
        return refuse(document, result, &why);
    result = pages_add(document, &pages, with_images);
    document_pages_fini(&pages);
    return result;
}

static enum result plain_read(struct document *document, const struct file_bytes *file)
{
    struct text_buffer text = {0};
    struct utf8_stream stream = {0};
    const char *bytes = (const char *)file->bytes;
    size_t count = file->count;
    if (document->must_be_pdf)
        return api_error_invalid(document->error, document->place,
                                 "it is not a PDF file: it has no PDF header");
    if (count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        bytes += 3;
        count -= 3;
    }
    if (count > LIMIT_DOCUMENT_TEXT_BYTES)
        return api_error_invalid(document->error, document->place,
                                 "a text file has more than %u bytes", LIMIT_DOCUMENT_TEXT_BYTES);
    utf8_stream_push(&stream, bytes, count, &text);
    utf8_stream_finish(&stream, &text);
    text_buffer_append(&text, "", 0);
    enum result result;
    if (text.failed)
        result = api_error_memory(document->error);
    else if (text.length != count || memchr(text.bytes, '\0', count) ||
             (count > 0 && memcmp(text.bytes, bytes, count) != 0))
        result = api_error_invalid(document->error, document->place,
                                   "the file is neither a PDF file nor text in UTF-8");
    else
        result = text_add(document, text.bytes);
    text_buffer_fini(&text);
    return result;
}

static enum result file_read(struct document *document, enum image_naming naming, const char *name)
{
    struct file_bytes file;
    struct error_text why;
    enum result result = RESULT_OK;
    if (image_source_is_remote(naming, name))
        result = lane_need(document, PREPARATION_NETWORK);
    if (result != RESULT_OK)
        return result;
    result = image_source_read(&document->context->assets->media, naming, name,
                               document->context->cancelled, &file, &why);
    if (result != RESULT_OK)
        return refuse(document, result, &why);
    result = document_is_pdf(file.bytes, file.count) ? pdf_read(document, &file)
                                                     : plain_read(document, &file);
    file_bytes_fini(&file);
    return result;
}

/* --- Anthropic's blocks ----------------------------------------------------------------------- */

static const char *text_of(const cJSON *object, const char *member)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, member));
}

static enum result text_source_read(struct document *document, const cJSON *source)
{
    const char *media = text_of(source, "media_type");
    const char *data = text_of(source, "data");
    if (media && strcmp(media, "text/plain") != 0)
        return api_error_invalid(document->error, document->place,
                                 "a source of type text has the media_type text/plain");
    if (!data)
        return api_error_invalid(document->error, document->place,
                                 "a source of type text needs a string 'data'");
    return text_add(document, data);
}

static enum result base64_source_read(struct document *document, const cJSON *source)
{
    const char *media = text_of(source, "media_type");
    const char *data = text_of(source, "data");
    if (!media || strcmp(media, "application/pdf") != 0)
        return api_error_invalid(document->error, document->place,
                                 "a source of type base64 has the media_type application/pdf");
    if (!data)
        return api_error_invalid(document->error, document->place,
                                 "a source of type base64 needs a string 'data'");
    document->must_be_pdf = true;
    return file_read(document, IMAGE_NAMED_BY_BASE64, data);
}

static enum result url_source_read(struct document *document, const cJSON *source)
{
    const char *url = text_of(source, "url");
    if (!url)
        return api_error_invalid(document->error, document->place,
                                 "a source of type url needs a string 'url'");
    return file_read(document, IMAGE_NAMED_BY_URI, url);
}

/* Text and images that the client chose. */
static enum result content_source_read(struct document *document, const cJSON *source)
{
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(source, "content");
    const cJSON *block;
    if (cJSON_IsString(content))
        return text_add(document, content->valuestring);
    if (!cJSON_IsArray(content))
        return api_error_invalid(document->error, document->place,
                                 "a source of type content needs 'content', a string or a list");
    cJSON_ArrayForEach(block, content)
    {
        const char *type = text_of(block, "type");
        const char *text = text_of(block, "text");
        enum result result;
        if (type && strcmp(type, "image") == 0) {
            result = request_images_add(document->images, block, document->place, document->error);
            if (result == RESULT_OK)
                result = part_add(document, request_images_part(NULL));
        } else if (type && strcmp(type, "text") == 0 && text) {
            result = text_add(document, text);
        } else {
            result = api_error_invalid(document->error, document->place,
                                       "a document's content has blocks of type text and image");
        }
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

/* The title and the context of a block, before its text. */
static enum result heads_read(struct document *document, const cJSON *block)
{
    static const char *const heads[] = {"title", "context"};
    for (size_t i = 0; i < 2; i++) {
        const cJSON *head = request_fields_member(block, heads[i]);
        if (head && !cJSON_IsString(head))
            return api_error_invalid(document->error, document->place, "%s must be a string",
                                     heads[i]);
        enum result result =
            head && head->valuestring[0] ? text_add(document, head->valuestring) : RESULT_OK;
        if (result != RESULT_OK)
            return result;
    }
    const cJSON *citations = request_fields_member(block, "citations");
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(citations, "enabled")))
        return api_error_invalid(document->error, document->place, "citations are not supported");
    return RESULT_OK;
}

static enum result block_read(struct document *document, const cJSON *block)
{
    static const struct {
        const char *type;
        enum result (*read)(struct document *document, const cJSON *source);
    } sources[] = {{"text", text_source_read},
                   {"base64", base64_source_read},
                   {"url", url_source_read},
                   {"content", content_source_read}};
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(block, "source");
    const char *type = text_of(source, "type");
    enum result result = heads_read(document, block);
    if (result != RESULT_OK)
        return result;
    for (size_t i = 0; type && i < sizeof sources / sizeof sources[0]; i++) {
        if (strcmp(sources[i].type, type) == 0)
            return sources[i].read(document, source);
    }
    return api_error_invalid(document->error, document->place,
                             "a document's source must be of type text, base64, content or url: "
                             "uploaded files are not supported");
}

/* --- OpenAI's parts --------------------------------------------------------------------------- */

static enum result file_part_read(struct document *document, const cJSON *part)
{
    const cJSON *file = cJSON_GetObjectItemCaseSensitive(part, "file");
    file = cJSON_IsObject(file) ? file : part;
    const char *name = text_of(file, "filename");
    const char *data = text_of(file, "file_data");
    const char *url = text_of(file, "file_url");
    if (request_fields_member(file, "file_id"))
        return api_error_invalid(document->error, document->place,
                                 "uploaded files are not supported: send the file itself in "
                                 "file_data");
    if (!data == !url)
        return api_error_invalid(document->error, document->place,
                                 "a file needs either a string 'file_data' or, in Responses, a "
                                 "string 'file_url'");
    enum result result = name && name[0] ? text_add(document, name) : RESULT_OK;
    if (result != RESULT_OK)
        return result;
    bool is_uri = url || strncasecmp(data, "data:", 5) == 0;
    document->must_be_pdf = data && strncasecmp(data, "data:application/pdf", 20) == 0;
    return file_read(document, is_uri ? IMAGE_NAMED_BY_URI : IMAGE_NAMED_BY_BASE64,
                     url ? url : data);
}

enum result request_documents_read(struct request_images *images, const cJSON *part,
                                   const char *place, cJSON **parts, struct api_error *error)
{
    struct document document = {
        .images = images, .context = images->context, .place = place, .error = error};
    *parts = NULL;
    if (images->document_count++ == LIMIT_REQUEST_DOCUMENTS)
        return api_error_invalid(error, place, "more than %u documents", LIMIT_REQUEST_DOCUMENTS);
    document.parts = cJSON_CreateArray();
    if (!document.parts)
        return api_error_memory(error);
    const char *type = text_of(part, "type");
    enum result result = strcmp(type, "document") == 0 ? block_read(&document, part)
                                                       : file_part_read(&document, part);
    if (result == RESULT_OK)
        *parts = document.parts;
    else
        cJSON_Delete(document.parts);
    return result;
}
