/*
 * Replies of POST /rerank and POST /score.
 */
#ifndef SHOAL_FRONTEND_API_POOLING_RERANK_FORMAT_H
#define SHOAL_FRONTEND_API_POOLING_RERANK_FORMAT_H

#include "frontend/api/generation/api_format.h"

extern const struct api_format rerank_format;
extern const struct api_format score_format;

#endif
