/*
 * What a text, a chat or token ids are to the model: /tokenize, /detokenize and /apply-template,
 * with the fields and answers of vLLM and of llama.cpp. Whichever field a body has for its text
 * decides whose shape the answer is in.
 *
 *   tokenize    {"prompt"} or {"messages",…}: {"count","max_model_len","tokens","token_strs"}
 *               {"content"}: {"tokens"}, with "with_pieces" as [{"id","piece"}]
 *   detokenize  {"tokens"}: {"prompt","content"}, both the text
 *   template    {"messages",…} as a chat body: {"prompt"}
 *
 * In texts the text of special tokens becomes these tokens, as both servers do it; "parse_special"
 * false leaves it text.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_TOKENIZE_ROUTES_H
#define SHOAL_FRONTEND_API_CHAT_TOKENIZE_ROUTES_H

#include "frontend/api/generation/inspection.h"

inspection tokenize_routes_tokenize;
inspection tokenize_routes_detokenize;
inspection tokenize_routes_apply_template;

#endif
