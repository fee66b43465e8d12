/*
 * POST /v1/messages/count_tokens: {"input_tokens": …} of the prompt that POST /v1/messages would
 * make of the same body.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_MESSAGES_COUNT_H
#define SHOAL_FRONTEND_API_MESSAGES_MESSAGES_COUNT_H

#include "frontend/api/generation/inspection.h"

inspection messages_count_tokens;

#endif
