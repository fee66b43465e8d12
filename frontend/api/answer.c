/*
 * The chain of an answer: detokenizer with stop strings (reply_text), then the sink.
 *
 * Bytes that a token made certain are handed on at once; what is held back (half a character, the
 * beginning of a stop string) comes with a later token or at the end.
 */
#include "frontend/api/answer.h"

#include <stdlib.h>

#include "frontend/api/generation_prepare.h"
#include "frontend/reply/reply_text.h"
#include "proto/must.h"

struct answer {
    struct reply_event_sink sink;
    struct reply_text *text;
    struct text_buffer piece; /* scratch */
    struct answer_usage usage;
};

struct answer *answer_create(const struct reply_config *config, const struct reply_event_sink *sink)
{
    const struct generation_request *request = &config->prepared->request;
    struct answer *answer = must_alloc(1, sizeof *answer);
    answer->sink = *sink;
    answer->text =
        reply_text_create(config->assets->tokenizer, request->stops, request->stop_count);
    answer->usage.prompt_tokens = (uint32_t)config->prepared->prompt.count;
    return answer;
}

void answer_destroy(struct answer *answer)
{
    if (!answer)
        return;
    reply_text_destroy(answer->text);
    text_buffer_fini(&answer->piece);
    free(answer);
}

static void piece_tell(struct answer *answer)
{
    must(!answer->piece.failed);
    if (answer->piece.length > 0)
        answer->sink.event(answer->sink.context,
                           &(struct reply_event){.kind = REPLY_CONTENT,
                                                 .bytes = answer->piece.bytes,
                                                 .length = answer->piece.length});
    text_buffer_clear(&answer->piece);
}

bool answer_push(struct answer *answer, const struct reply_token *token)
{
    answer->usage.completion_tokens++;
    if (token->is_stop)
        return false;
    bool stopped = reply_text_push(answer->text, token->id, &answer->piece);
    piece_tell(answer);
    return stopped;
}

enum answer_end answer_finish(struct answer *answer, enum finish_reason finish,
                              uint32_t cached_tokens)
{
    answer->usage.cached_tokens = cached_tokens;
    reply_text_finish(answer->text, &answer->piece);
    piece_tell(answer);
    if (answer_stop_string(answer))
        return ANSWER_STOP_STRING;
    return finish == FINISH_LENGTH ? ANSWER_LENGTH : ANSWER_STOP;
}

const struct answer_usage *answer_usage(const struct answer *answer)
{
    return &answer->usage;
}

const char *answer_stop_string(const struct answer *answer)
{
    return reply_text_stop_string(answer->text);
}
