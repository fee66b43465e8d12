/*
 * The description of this server's API that it serves at /openapi.json: frontend/api/openapi.json,
 * embedded when the program is built.
 */
#ifndef SHOAL_FRONTEND_API_OPENAPI_DOCUMENT_H
#define SHOAL_FRONTEND_API_OPENAPI_DOCUMENT_H

#include <stddef.h>

/* Static. */
const char *openapi_document(size_t *bytes);

#endif
