/*
 * Text and page images of PDF files, by poppler's pdftotext and pdftoppm.
 */
#ifndef SHOAL_FRONTEND_DOCUMENT_DOCUMENT_READER_H
#define SHOAL_FRONTEND_DOCUMENT_DOCUMENT_READER_H

#include <stdbool.h>

#include "frontend/document/document_child.h"

#define DOCUMENT_TOOL_PATH_BYTES 256u

enum document_mode {
    DOCUMENTS_OFF = 0, /* PDF files are refused */
    DOCUMENTS_TEXT,    /* their text is read */
    DOCUMENTS_IMAGES   /* and their pages become images, if the model takes images */
};

struct document_settings {
    enum document_mode mode;
    char text_tool[DOCUMENT_TOOL_PATH_BYTES]; /* pdftotext; "" if off */
    char page_tool[DOCUMENT_TOOL_PATH_BYTES]; /* pdftoppm; "" unless DOCUMENTS_IMAGES */
};

struct document_page {
    char *text;              /* owned UTF-8, without a NUL inside; "" if there is none */
    struct file_bytes image; /* PNG; empty if not asked for */
};
struct document_pages {
    struct document_page *pages; /* [count] */
    uint32_t count;              /* <= LIMIT_DOCUMENT_PAGES */
};
void document_pages_fini(struct document_pages *pages);

/* True if a PDF header is among the first 1024 bytes, where readers accept it. */
bool document_is_pdf(const uint8_t *bytes, size_t byte_count);

/* A page's text is what pdftotext prints; its image has LIMIT_DOCUMENT_PAGE_SIDE pixels on the longer
 * side. The results are those of document_child_run(); also RESULT_TOO_LARGE over
 * LIMIT_DOCUMENT_PAGES. On failure *pages is empty. */
enum result document_read_pdf(const struct document_settings *settings, const uint8_t *bytes,
                              size_t byte_count, bool with_images, const atomic_bool *cancelled,
                              int64_t *cpu_left_ms, struct document_pages *pages,
                              struct error_text *error) RESULT_CHECKED;

#endif
