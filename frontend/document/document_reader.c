/*
 * Both programs write all pages to one stream: pdftotext ends each page with a form feed, pdftoppm
 * writes one PNG after the other. The stream may say anything, so it is only cut: texts become valid
 * UTF-8, and images are files like those that clients send, decoded where those are decoded.
 *
 * One page more than allowed is asked for, which shows that there are too many.
 */
#include "frontend/document/document_reader.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/base/utf8_stream.h"
#include "proto/limits.h"

#define LAST_PAGE "257"  /* LIMIT_DOCUMENT_PAGES + 1 */
#define PAGE_SIDE "1168" /* LIMIT_DOCUMENT_PAGE_SIDE */
_Static_assert(LIMIT_DOCUMENT_PAGES == 256 && LIMIT_DOCUMENT_PAGE_SIDE == 1168, "arguments");

#define HEADER_WITHIN 1024u

void document_pages_fini(struct document_pages *pages)
{
    for (uint32_t i = 0; i < pages->count; i++) {
        free(pages->pages[i].text);
        file_bytes_fini(&pages->pages[i].image);
    }
    free(pages->pages);
    *pages = (struct document_pages){0};
}

bool document_is_pdf(const uint8_t *bytes, size_t byte_count)
{
    size_t within = byte_count < HEADER_WITHIN ? byte_count : HEADER_WITHIN;
    return within > 0 && memmem(bytes, within, "%PDF-", 5) != NULL;
}

/* Appends an empty page. */
static enum result page_add(struct document_pages *pages, struct error_text *error)
{
    if (pages->count == LIMIT_DOCUMENT_PAGES)
        return error_set(error, RESULT_TOO_LARGE, "it has more than %u pages",
                         LIMIT_DOCUMENT_PAGES);
    char *text = calloc(1, 1);
    if (!text)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    pages->pages[pages->count++] = (struct document_page){.text = text};
    return RESULT_OK;
}

/* The page's text as UTF-8 without NUL and without the line ends at its end. */
static enum result text_take(const uint8_t *bytes, size_t count, char **text,
                             struct error_text *error)
{
    struct text_buffer clean = {0};
    struct utf8_stream stream = {0};
    utf8_stream_push(&stream, (const char *)bytes, count, &clean);
    utf8_stream_finish(&stream, &clean);
    text_buffer_append(&clean, "", 0);
    if (clean.failed)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i < clean.length; i++) {
        if (clean.bytes[i] == '\0')
            clean.bytes[i] = ' ';
    }
    while (clean.length > 0 && clean.bytes[clean.length - 1] == '\n')
        clean.bytes[--clean.length] = '\0';
    free(*text);
    *text = clean.bytes;
    return RESULT_OK;
}

static enum result texts_split(const struct file_bytes *output, struct document_pages *pages,
                               struct error_text *error)
{
    enum result result = RESULT_OK;
    for (size_t at = 0; result == RESULT_OK && at < output->count;) {
        const uint8_t *start = output->bytes + at;
        const uint8_t *end = memchr(start, '\f', output->count - at);
        size_t bytes = end ? (size_t)(end - start) : output->count - at;
        result = page_add(pages, error);
        if (result == RESULT_OK)
            result = text_take(start, bytes, &pages->pages[pages->count - 1].text, error);
        at += bytes + 1;
    }
    return result;
}

/* Bytes of the PNG file at the start of these; 0: none is whole. */
static size_t png_bytes(const uint8_t *bytes, size_t count)
{
    static const uint8_t signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    size_t at = sizeof signature;
    if (count < at || memcmp(bytes, signature, at) != 0)
        return 0;
    while (count - at >= 12) {
        const uint8_t *chunk = bytes + at;
        size_t data = (size_t)chunk[0] << 24 | (size_t)chunk[1] << 16 | (size_t)chunk[2] << 8 |
                      (size_t)chunk[3];
        if (data > count - at - 12)
            return 0;
        at += data + 12;
        if (memcmp(chunk + 4, "IEND", 4) == 0)
            return at;
    }
    return 0;
}

static enum result images_split(const struct file_bytes *output, struct document_pages *pages,
                                struct error_text *error)
{
    uint32_t page = 0;
    for (size_t at = 0; at < output->count; page++) {
        size_t bytes = png_bytes(output->bytes + at, output->count - at);
        if (bytes == 0)
            return error_set(error, RESULT_INVALID, "a page cannot be drawn");
        enum result result = page == pages->count ? page_add(pages, error) : RESULT_OK;
        if (result != RESULT_OK)
            return result;
        struct file_bytes *image = &pages->pages[page].image;
        image->bytes = malloc(bytes);
        if (!image->bytes)
            return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
        memcpy(image->bytes, output->bytes + at, bytes);
        image->count = bytes;
        at += bytes;
    }
    return RESULT_OK;
}

typedef enum result output_splitter(const struct file_bytes *output, struct document_pages *pages,
                                    struct error_text *error);

static enum result tool_run(const struct document_run *run, int64_t *cpu_left_ms,
                            output_splitter *split, struct document_pages *pages,
                            struct error_text *error)
{
    struct file_bytes output;
    enum result result = document_child_run(run, cpu_left_ms, &output, error);
    if (result == RESULT_OK)
        result = split(&output, pages, error);
    file_bytes_fini(&output);
    return result;
}

enum result document_read_pdf(const struct document_settings *settings, const uint8_t *bytes,
                              size_t byte_count, bool with_images, const atomic_bool *cancelled,
                              int64_t *cpu_left_ms, struct document_pages *pages,
                              struct error_text *error)
{
    static const char *const text_arguments[] = {"-enc",    "UTF-8", "-eol", "unix", "-l",
                                                 LAST_PAGE, "-",     "-",    NULL};
    static const char *const page_arguments[] = {"-png",    "-scale-to", PAGE_SIDE, "-l",
                                                 LAST_PAGE, "-",         NULL};
    struct document_run run = {.tool = settings->text_tool,
                               .arguments = text_arguments,
                               .bytes = bytes,
                               .byte_count = byte_count,
                               .most_output = LIMIT_DOCUMENT_TEXT_BYTES,
                               .cancelled = cancelled};
    *pages = (struct document_pages){.pages = calloc(LIMIT_DOCUMENT_PAGES, sizeof pages->pages[0])};
    if (!pages->pages)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    enum result result = tool_run(&run, cpu_left_ms, texts_split, pages, error);
    if (result == RESULT_OK && with_images) {
        run.tool = settings->page_tool;
        run.arguments = page_arguments;
        run.most_output = LIMIT_DOCUMENT_IMAGE_BYTES;
        result = tool_run(&run, cpu_left_ms, images_split, pages, error);
    }
    if (result == RESULT_OK && pages->count == 0)
        result = error_set(error, RESULT_INVALID, "it has no pages");
    if (result != RESULT_OK)
        document_pages_fini(pages);
    return result;
}
