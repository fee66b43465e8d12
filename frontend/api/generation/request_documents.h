/*
 * The documents that a request has in its messages: text and PDF files, as parts or blocks.
 *
 *     {"type": "document", "source": {…}, "title": "…", "context": "…"}             Anthropic's
 *     {"type": "file", "file": {"file_data": "data:…", "filename": "…"}}            chat's
 *     {"type": "input_file", "file_data": "data:…" or "file_url": "…", "filename": "…"}   Responses'
 *
 * Readers of bodies call request_documents_read() for each and put the parts that it gives in its
 * place: texts, and images (request_images.h).
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_REQUEST_DOCUMENTS_H
#define SHOAL_FRONTEND_API_GENERATION_REQUEST_DOCUMENTS_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"

/* Before the first document or image of a body is read: what the context's model takes. */
void request_documents_begin(struct request_images *images, const struct parse_context *context);

/* True if parts of this type are documents. */
bool request_documents_is_type(const char *type);

/*
 * Reads a part of such a type. *parts is a new list, the caller's: {"type": "text", "text"} and, for
 * each image noted in *images, {"type": "image"}. An error is a 400 with the document's place.
 * RESULT_CANCELLED: reading it needs another lane than this thread's; the context's lane is set.
 */
enum result request_documents_read(struct request_images *images, const struct cJSON *part,
                                   const char *place, struct cJSON **parts,
                                   struct api_error *error) RESULT_CHECKED;

#endif
