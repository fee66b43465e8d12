/*
 * /tokenize, /detokenize and /apply-template: conversions between text, chats and token ids, with
 * the fields and replies of vLLM and of llama.cpp. The name of the field that holds the text
 * decides the shape of the reply.
 *
 *   tokenize    {"prompt"} or {"messages",…}: {"count","max_model_len","tokens","token_strs"}
 *               {"content"}: {"tokens"}, with "with_pieces" as [{"id","piece"}]
 *   detokenize  {"tokens"}: {"prompt","content"}, both the text
 *   template    {"messages",…} as a chat body: {"prompt"}
 *
 * Text of special tokens becomes these tokens, as on both servers; with "parse_special" false it
 * stays text.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_TOKENIZE_ROUTES_H
#define SHOAL_FRONTEND_API_CHAT_TOKENIZE_ROUTES_H

#include "frontend/api/generation/inspection.h"

inspection tokenize_routes_tokenize;
inspection tokenize_routes_detokenize;
inspection tokenize_routes_apply_template;

#endif
