/*
 * The bodies of POST /rerank (Jina's and TEI's shapes) and of POST /score (vLLM's): pairs of a
 * query and a document, each of which the model judges.
 */
#ifndef SHOAL_FRONTEND_API_POOLING_RERANK_REQUEST_H
#define SHOAL_FRONTEND_API_POOLING_RERANK_REQUEST_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"

/* What the replies need besides; the state of a request (generation_request.own). */
struct rerank_state {
    bool scores;           /* /score */
    bool tei;              /* TEI's shape: `texts` instead of `documents` */
    bool return_documents; /* repeat them */
    bool raw;              /* TEI's raw_scores: the difference of the logits, or the logit */
    bool classifies;       /* a cross-encoder: one answer for each pair, its logit */
    uint32_t top_n;        /* results to return; 0: all */
    struct cJSON *texts;   /* owned; of the documents */
};

/* On failure *request is empty. */
enum result rerank_request_parse(const struct parse_context *context, const char *json,
                                 size_t json_bytes, struct generation_request *request,
                                 struct api_error *error) RESULT_CHECKED;
enum result rerank_request_parse_score(const struct parse_context *context, const char *json,
                                       size_t json_bytes, struct generation_request *request,
                                       struct api_error *error) RESULT_CHECKED;

#endif
