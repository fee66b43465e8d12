/*
 * Every token is listed when it arrives, also one whose text is held back: an event's tokens and
 * its text need not be of the same tokens.
 */
#include "frontend/api/llama/llama_choice.h"

#include <math.h>
#include <string.h>

#include "frontend/base/utf8_stream.h"
#include "frontend/reply/token_log.h"

void llama_choice_init(struct llama_choice *choice, const struct tokenizer *tokenizer,
                       const struct generation_request *request, const struct llama_state *state)
{
    *choice = (struct llama_choice){.tokenizer = tokenizer, .state = state};
    choice->decoder = reply_text_create(tokenizer);
    stop_matcher_init(&choice->stops, request->stops, request->stop_count);
}

void llama_choice_fini(struct llama_choice *choice)
{
    reply_text_destroy(choice->decoder);
    stop_matcher_fini(&choice->stops);
    text_buffer_fini(&choice->text);
    text_buffer_fini(&choice->ids);
    text_buffer_fini(&choice->probs);
    text_buffer_fini(&choice->piece);
    text_buffer_fini(&choice->prompt);
}

/* --- probabilities --------------------------------------------------------------------------- */

/* {"id":1,"token":"a","bytes":[97],"logprob":-0.1 */
static void entry_open(const struct llama_choice *choice, struct token_logprob one, double prob,
                       struct text_buffer *out)
{
    const char *bytes;
    size_t count;
    tokenizer_token_bytes(choice->tokenizer, one.token, &bytes, &count);
    text_buffer_append_format(out, "{\"id\":%u,\"token\":", one.token);
    token_log_write_text(choice->tokenizer, one.token, out);
    text_buffer_append_text(out, ",\"bytes\":[");
    for (size_t i = 0; i < count; i++)
        text_buffer_append_format(out, i > 0 ? ",%u" : "%u", (unsigned)(unsigned char)bytes[i]);
    if (choice->state->after_sampling) {
        text_buffer_append_format(out, "],\"prob\":%g", prob);
        return;
    }
    text_buffer_append_text(out, "],\"logprob\":");
    token_log_write_logprob(one.logprob, out);
}

/* After greedy sampling the drawn token has all of the probability. */
static void probs_add(struct llama_choice *choice, const struct reply_token *token)
{
    struct text_buffer *out = &choice->probs;
    text_buffer_append_text(out, out->length > 0 ? "," : "");
    entry_open(choice, (struct token_logprob){token->id, token->logprob}, 1, out);
    text_buffer_append_format(out, ",\"%s\":[",
                              choice->state->after_sampling ? "top_probs" : "top_logprobs");
    for (uint32_t i = 0; i < token->alternative_count; i++) {
        struct token_logprob one = token->alternatives[i];
        text_buffer_append_text(out, i > 0 ? "," : "");
        entry_open(choice, one, one.token == token->id ? 1 : 0, out);
        text_buffer_append_text(out, "}");
    }
    text_buffer_append_text(out, "]}");
}

/* --- text ------------------------------------------------------------------------------------ */

/* Looks at the text added since `from`. True: a line is indented less than n_indent; the text is cut
 * before its first character that is not blank. */
static bool lines_note(struct llama_choice *choice, size_t from)
{
    for (size_t i = from; i < choice->text.length; i++) {
        char byte = choice->text.bytes[i];
        if (choice->at_line_start && (byte == ' ' || byte == '\t')) {
            choice->indent++;
            continue;
        }
        if (choice->at_line_start && choice->indent < choice->state->n_indent) {
            text_buffer_cut(&choice->text, i);
            return true;
        }
        choice->at_line_start = byte == '\n';
        choice->has_new_line |= byte == '\n';
        choice->indent = 0;
    }
    return false;
}

/* True once the time for the answer is over; it ends at a line end. */
static bool is_late(const struct llama_choice *choice, const struct reply_token *token, bool line)
{
    int64_t took_us = token->now_us - choice->timings.first_us;
    return line && choice->state->predict_ms > 0 && took_us > choice->state->predict_ms * 1000;
}

bool llama_choice_push(struct llama_choice *choice, const struct reply_token *token)
{
    choice->tokens++;
    answer_timings_note(&choice->timings, token);
    if (token->is_stop || choice->state->n_predict == 0)
        return false;
    text_buffer_append_format(&choice->ids, choice->ids.length > 0 ? ",%u" : "%u", token->id);
    if (choice->state->n_probs > 0)
        probs_add(choice, token);
    size_t before = choice->text.length;
    text_buffer_clear(&choice->piece);
    reply_text_push(choice->decoder, token->id, &choice->piece);
    if (stop_matcher_push(&choice->stops, choice->piece.bytes, choice->piece.length,
                          &choice->text)) {
        choice->stop = LLAMA_STOP_WORD;
        (void)lines_note(choice, before);
        return true;
    }
    bool short_line = lines_note(choice, before);
    bool line = choice->text.length > before &&
                memchr(choice->text.bytes + before, '\n', choice->text.length - before) != NULL;
    if (!short_line && !is_late(choice, token, line))
        return false;
    choice->stop = LLAMA_STOP_LIMIT;
    return true;
}

void llama_choice_end(struct llama_choice *choice, enum finish_reason finish)
{
    size_t before = choice->text.length;
    bool ended_here = choice->stop != LLAMA_STOP_NONE;
    text_buffer_clear(&choice->piece);
    reply_text_finish(choice->decoder, &choice->piece);
    if (!ended_here && choice->state->n_predict != 0) {
        (void)stop_matcher_push(&choice->stops, choice->piece.bytes, choice->piece.length,
                                &choice->text);
        stop_matcher_release(&choice->stops, &choice->text);
        (void)lines_note(choice, before);
    }
    if (ended_here)
        return;
    choice->stop = finish == FINISH_LENGTH ? LLAMA_STOP_LIMIT : LLAMA_STOP_EOS;
    choice->context_full = finish == FINISH_LENGTH && (choice->state->n_predict < 0 ||
                                                       choice->tokens < choice->state->n_predict);
}

const char *llama_choice_stop_name(const struct llama_choice *choice)
{
    static const char *const names[] = {[LLAMA_STOP_NONE] = "none",
                                        [LLAMA_STOP_EOS] = "eos",
                                        [LLAMA_STOP_LIMIT] = "limit",
                                        [LLAMA_STOP_WORD] = "word"};
    return names[choice->stop];
}
