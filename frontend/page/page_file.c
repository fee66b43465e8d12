/*
 * The assembler copies each file into the program's constants. A new file is a row here.
 */
#include "frontend/page/page_file.h"

#include <string.h>

/* symbol, file below frontend/page/, name below /page/, content type */
#define PAGE_FILES(ROW)                                                                            \
    ROW(index, "index.html", "index.html", "text/html; charset=utf-8")                             \
    ROW(style, "page.css", "page.css", "text/css; charset=utf-8")                                  \
    ROW(main, "main.js", "main.js", "text/javascript; charset=utf-8")                              \
    ROW(server, "server.js", "server.js", "text/javascript; charset=utf-8")                        \
    ROW(elements, "elements.js", "elements.js", "text/javascript; charset=utf-8")                  \
    ROW(conversation, "conversation.js", "conversation.js", "text/javascript; charset=utf-8")      \
    ROW(storage, "storage.js", "storage.js", "text/javascript; charset=utf-8")                     \
    ROW(settings, "settings.js", "settings.js", "text/javascript; charset=utf-8")                  \
    ROW(markdown, "markdown.js", "markdown.js", "text/javascript; charset=utf-8")                  \
    ROW(chat, "chat.js", "chat.js", "text/javascript; charset=utf-8")                              \
    ROW(message, "message.js", "message.js", "text/javascript; charset=utf-8")                     \
    ROW(request_code, "request_code.js", "request_code.js", "text/javascript; charset=utf-8")      \
    ROW(dashboard, "dashboard.js", "dashboard.js", "text/javascript; charset=utf-8")               \
    ROW(trace, "trace.js", "trace.js", "text/javascript; charset=utf-8")                           \
    ROW(libraries, "vendor/libraries.js.gz", "libraries.js", "text/javascript; charset=utf-8")     \
    ROW(chart_style, "vendor/uplot.css", "uplot.css", "text/css; charset=utf-8")                   \
    ROW(licences, "vendor/licences.txt", "licences.txt", "text/plain; charset=utf-8")

#define EMBED(symbol, path, name, content_type)                                                    \
    __asm__(".section .rodata\n"                                                                   \
            "page_" #symbol "_begin:\n"                                                            \
            ".incbin \"frontend/page/" path "\"\n"                                                 \
            "page_" #symbol "_end:\n"                                                              \
            ".previous\n");                                                                        \
    extern const char page_##symbol##_begin[];                                                     \
    extern const char page_##symbol##_end[];
PAGE_FILES(EMBED)

const struct page_file *page_file_find(const char *name)
{
#define TRY(symbol, path, file_name, type)                                                         \
    if (strcmp(name, file_name) == 0) {                                                            \
        static struct page_file file = {.name = file_name, .content_type = type};                  \
        file.gzip = strstr(path, ".gz") != NULL;                                                   \
        file.bytes = page_##symbol##_begin;                                                        \
        file.count = (size_t)(page_##symbol##_end - page_##symbol##_begin);                        \
        return &file;                                                                              \
    }
    PAGE_FILES(TRY)
    return NULL;
}
