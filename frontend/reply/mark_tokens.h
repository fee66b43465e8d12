/*
 * The special tokens of a vocabulary that parsers of answers must see.
 *
 * A special token gives no text (reply_text.h). Some spell marks, or parts of marks, by which
 * reasoning and tool calls are told from the rest: <|channel>, [TOOL_CALLS], <|START_THINKING|>.
 * These give their text where an answer is parsed; all others stay without.
 */
#ifndef SHOAL_FRONTEND_REPLY_MARK_TOKENS_H
#define SHOAL_FRONTEND_REPLY_MARK_TOKENS_H

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "frontend/reply/reasoning_format.h"
#include "frontend/reply/tool_format.h"

/*
 * Adds to *list, in ascending order, the special tokens whose text is part of a tag or frame of the
 * reasoning format, a mark of harmony where that is the format, or a mark of the tool format.
 * Either may be NULL. Looks at the whole vocabulary once: for the time of loading, and for requests
 * with tags of their own. RESULT_OUT_OF_MEMORY.
 */
enum result mark_tokens_find(const struct tokenizer *tokenizer,
                             const struct reasoning_format *reasoning,
                             const struct tool_format *tools,
                             struct token_list *list) RESULT_CHECKED;

#endif
