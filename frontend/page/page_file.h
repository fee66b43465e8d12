/*
 * The files of the page at "/", embedded in the program.
 */
#ifndef SHOAL_FRONTEND_PAGE_PAGE_FILE_H
#define SHOAL_FRONTEND_PAGE_PAGE_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct page_file {
    const char *name; /* below /page/ */
    const char *content_type;
    bool gzip;         /* the bytes are compressed */
    const char *bytes; /* not NUL-terminated */
    size_t count;
};

/* NULL: no file has this name. The result is static. */
const struct page_file *page_file_find(const char *name);

#endif
