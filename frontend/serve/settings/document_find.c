/*
 * Poppler's programs are looked for once, at the start, so that a server that cannot read PDF files
 * says so before it gets one.
 */
#include "frontend/serve/settings/document_find.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum result tool_find(const char *folder, const char *name,
                             char path[DOCUMENT_TOOL_PATH_BYTES], struct error_text *error)
{
    int length = snprintf(path, DOCUMENT_TOOL_PATH_BYTES, "%s/%s", folder, name);
    if (length < (int)DOCUMENT_TOOL_PATH_BYTES && access(path, X_OK) == 0)
        return RESULT_OK;
    path[0] = '\0';
    return error_set(error, RESULT_INVALID,
                     "--documents needs poppler's program %s (package poppler-utils), which is not "
                     "in %.100s (--poppler-path)",
                     name, folder);
}

enum result document_find(const char *asked, const char *folder, struct document_settings *settings,
                          struct error_text *error)
{
    static const char *const words[] = {
        [DOCUMENTS_OFF] = "off", [DOCUMENTS_TEXT] = "text", [DOCUMENTS_IMAGES] = "images"};
    size_t mode = 0;
    while (mode < sizeof words / sizeof words[0] && strcmp(words[mode], asked) != 0)
        mode++;
    if (mode == sizeof words / sizeof words[0])
        return error_set(error, RESULT_INVALID, "--documents: '%.40s' is not off, text or images",
                         asked);
    *settings = (struct document_settings){.mode = (enum document_mode)mode};
    enum result result = RESULT_OK;
    if (mode != DOCUMENTS_OFF)
        result = tool_find(folder, "pdftotext", settings->text_tool, error);
    if (result == RESULT_OK && mode == DOCUMENTS_IMAGES)
        result = tool_find(folder, "pdftoppm", settings->page_tool, error);
    return result;
}
