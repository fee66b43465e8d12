/*
 * The special tokens of a vocabulary that the parsers of answers must see.
 *
 * A special token gives no text (reply_text.h). Some spell marks, or parts of marks, that delimit
 * reasoning and tool calls: <|channel>, [TOOL_CALLS], <|START_THINKING|>. These give their text
 * where an answer is parsed; all others give none.
 */
#ifndef SHOAL_FRONTEND_REPLY_MARK_TOKENS_H
#define SHOAL_FRONTEND_REPLY_MARK_TOKENS_H

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "frontend/reply/reasoning_format.h"
#include "frontend/reply/tool_format.h"

/*
 * Adds to *list, in ascending order, the special tokens whose text is part of a tag or frame of the
 * reasoning format, a mark of harmony if that is the format, or a mark of the tool format. Either
 * may be NULL. Scans the whole vocabulary: called at load, and for requests with their own tags.
 * RESULT_OUT_OF_MEMORY.
 */
enum result mark_tokens_find(const struct tokenizer *tokenizer,
                             const struct reasoning_format *reasoning,
                             const struct tool_format *tools,
                             struct token_list *list) RESULT_CHECKED;

#endif
