/*
 * The programs that read PDF files, for --documents.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_DOCUMENT_FIND_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_DOCUMENT_FIND_H

#include "frontend/document/document_reader.h"

/* `asked`: off, text or images. RESULT_INVALID for another word, and if a program that it needs is
 * not in `folder`. */
enum result document_find(const char *asked, const char *folder, struct document_settings *settings,
                          struct error_text *error) RESULT_CHECKED;

#endif
