/*
 * The OpenAPI description served at /openapi.json: frontend/api/openapi.json, embedded at build
 * time.
 */
#ifndef SHOAL_FRONTEND_API_OPENAPI_DOCUMENT_H
#define SHOAL_FRONTEND_API_OPENAPI_DOCUMENT_H

#include <stddef.h>

/* Static. */
const char *openapi_document(size_t *bytes);

#endif
