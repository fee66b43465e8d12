/*
 * The engine with a terminal instead of HTTP.
 *
 * The prompt becomes the body of a chat request, so that fields, defaults and ranges are the API's;
 * --raw replaces the rendered chat template. Text is written as soon as its characters are whole.
 */
#include "frontend/serve/generate_command.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/api/chat/completions_format.h"
#include "frontend/base/base64.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/base/utf8_stream.h"
#include "frontend/image/media_folder.h"
#include "frontend/reply/reply_text.h"
#include "frontend/serve/engine/chat_engine.h"
#include "proto/must.h"

struct generate_command {
    const struct options *options;
    struct event_base *base;
    struct event *signals[2];
    struct chat_engine *engine;
    struct live_request *request;
    struct reply_text *text;
    struct text_buffer out;
    uint32_t prompt_tokens;
    uint32_t generated_tokens;
    int64_t admitted_us;
    int64_t first_token_us;
    int64_t last_token_us;
    bool ended;
    int status;
};

static void end(struct generate_command *command, int status)
{
    command->status = status;
    if (command->ended)
        return;
    command->ended = true;
    chat_engine_drain(command->engine);
}

static void out_write(struct generate_command *command)
{
    if (command->out.length > 0)
        fwrite(command->out.bytes, 1, command->out.length, stdout);
    fflush(stdout);
    text_buffer_clear(&command->out);
}

/* --- what the engine says -------------------------------------------------------------------- */

static void on_prepared(void *context, const struct prepared_generation *prepared)
{
    struct generate_command *command = context;
    command->prompt_tokens = (uint32_t)prepared->prompt.count;
    command->text = reply_text_create(chat_engine_assets(command->engine)->tokenizer);
}

static bool on_token(void *context, const struct reply_token *token)
{
    struct generate_command *command = context;
    command->last_token_us = monotonic_clock_us();
    if (command->generated_tokens++ == 0)
        command->first_token_us = command->last_token_us;
    if (!token->is_stop)
        (void)reply_text_push(command->text, token->id, &command->out);
    return false;
}

static void on_flush(void *context)
{
    out_write(context);
}

static void print_stats(const struct generate_command *command)
{
    double prompt_s = (double)(command->first_token_us - command->admitted_us) / 1e6;
    double answer_s = (double)(command->last_token_us - command->first_token_us) / 1e6;
    fprintf(stderr, "prompt: %u tokens in %.3f s (%.1f tok/s)\n", command->prompt_tokens, prompt_s,
            prompt_s > 0 ? command->prompt_tokens / prompt_s : 0);
    fprintf(stderr, "answer: %u tokens in %.3f s (%.1f tok/s)\n", command->generated_tokens,
            answer_s, answer_s > 0 ? (double)(command->generated_tokens - 1) / answer_s : 0);
}

static void on_finished(void *context, enum finish_reason finish, struct cached_prompt cached)
{
    (void)finish;
    (void)cached;
    struct generate_command *command = context;
    reply_text_finish(command->text, &command->out);
    text_buffer_append_text(&command->out, "\n");
    out_write(command);
    if (command->options->stats && command->generated_tokens > 0)
        print_stats(command);
    command->request = NULL;
    end(command, 0);
}

static void on_request_failed(void *context, const struct api_error *error)
{
    struct generate_command *command = context;
    out_write(command);
    fprintf(stderr, "shoal: %s\n", error->message);
    command->request = NULL;
    end(command, 1);
}

static const char *on_request_name(void *context)
{
    (void)context;
    return "prompt";
}

static const struct live_request_sink sink = {.prepared = on_prepared,
                                              .token = on_token,
                                              .flush = on_flush,
                                              .finished = on_finished,
                                              .failed = on_request_failed,
                                              .name = on_request_name};

/* --- the request ----------------------------------------------------------------------------- */

/* A content part with the file as a data URI. */
static enum result image_write(const struct options *options, const char *path,
                               struct text_buffer *body, struct error_text *error)
{
    struct file_bytes file;
    enum result result = media_folder_read_own(path, options->max_image_bytes, &file, error);
    if (result != RESULT_OK)
        return result;
    text_buffer_append_text(body, "{\"type\":\"image_url\",\"image_url\":\"data:;base64,");
    base64_append(file.bytes, file.count, body);
    text_buffer_append_text(body, "\"},");
    file_bytes_fini(&file);
    return RESULT_OK;
}

/* A string, or a list of parts if there are images. */
static enum result content_write(const struct options *options, struct text_buffer *body,
                                 struct error_text *error)
{
    struct text_buffer valid = {0};
    struct utf8_stream stream = {0};
    const struct option_texts *images = &options->images;
    if (images->count > 0)
        text_buffer_append_text(body, "[");
    for (size_t i = 0; i < images->count; i++) {
        enum result result = image_write(options, images->items[i], body, error);
        if (result != RESULT_OK)
            return result;
    }
    if (images->count > 0)
        text_buffer_append_text(body, "{\"type\":\"text\",\"text\":");
    utf8_stream_push(&stream, options->prompt, strlen(options->prompt), &valid);
    utf8_stream_finish(&stream, &valid);
    text_buffer_append_json_string(body, valid.bytes ? valid.bytes : "", valid.length);
    text_buffer_fini(&valid);
    if (images->count > 0)
        text_buffer_append_text(body, "}]");
    return RESULT_OK;
}

static enum result body_write(const struct options *options, struct text_buffer *body,
                              struct error_text *error)
{
    const struct {
        const char *name;
        const char *number;
    } fields[] = {{"temperature", options->temperature},
                  {"top_p", options->top_p},
                  {"top_k", options->top_k},
                  {"seed", options->seed}};
    text_buffer_append_text(body, options->raw ? "{\"prompt\":"
                                               : "{\"messages\":[{\"role\":\"user\",\"content\":");
    enum result result = content_write(options, body, error);
    if (options->raw) /* otherwise that API's default applies */
        text_buffer_append_format(
            body, ",\"max_tokens\":%llu",
            (unsigned long long)(options->max_tokens ? options->max_tokens : LIMIT_CONTEXT_TOKENS));
    else
        text_buffer_append_text(body, "}]");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].number)
            text_buffer_append_format(body, ",\"%s\":%s", fields[i].name, fields[i].number);
    }
    text_buffer_append_text(body, "}");
    must(!body->failed);
    return result;
}

static void on_ready(void *context)
{
    struct generate_command *command = context;
    if (command->request || command->ended)
        return;
    struct text_buffer body = {0};
    struct error_text why;
    if (body_write(command->options, &body, &why) != RESULT_OK) {
        fprintf(stderr, "shoal: --image %s\n", why.text);
        text_buffer_fini(&body);
        end(command, 1);
        return;
    }
    struct prepare_input input = {.body = body.bytes,
                                  .body_bytes = body.length,
                                  .format =
                                      command->options->raw ? &completions_format : &chat_format};
    must(getrandom(&input.random_seed, sizeof input.random_seed, 0) == sizeof input.random_seed);
    struct api_error error;
    command->admitted_us = monotonic_clock_us();
    if (chat_engine_admit(command->engine, &input, &sink, command, &command->request, &error) !=
        RESULT_OK) {
        fprintf(stderr, "shoal: %s\n", error.message);
        end(command, 1);
    }
}

static void on_failed(void *context, const char *why)
{
    struct generate_command *command = context;
    fprintf(stderr, "shoal: %s\n", why);
    command->status = 1;
    event_base_loopbreak(command->base);
}

static void on_drained(void *context)
{
    struct generate_command *command = context;
    event_base_loopbreak(command->base);
}

static void on_signal(int signal_number, short what, void *context)
{
    (void)what;
    struct generate_command *command = context;
    command->status = 128 + signal_number;
    event_base_loopbreak(command->base);
}

static enum result command_start(struct generate_command *command, struct error_text *error)
{
    static const int numbers[2] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < 2; i++) {
        command->signals[i] = evsignal_new(command->base, numbers[i], on_signal, command);
        must(command->signals[i] && event_add(command->signals[i], NULL) == 0);
    }
    struct chat_engine_config config = {.base = command->base,
                                        .state_directory = -1,
                                        .options = command->options,
                                        .context = command,
                                        .ready = on_ready,
                                        .failed = on_failed,
                                        .drained = on_drained};
    return chat_engine_create(&config, &command->engine, error);
}

int generate_command_run(const struct options *options)
{
    struct generate_command command = {.options = options};
    struct error_text error;
    signal(SIGPIPE, SIG_IGN);
    command.base = event_base_new();
    must(command.base != NULL);
    if (command_start(&command, &error) == RESULT_OK) {
        event_base_dispatch(command.base);
    } else {
        fprintf(stderr, "shoal: %s\n", error.text);
        command.status = 1;
    }
    chat_engine_destroy(command.engine);
    reply_text_destroy(command.text);
    text_buffer_fini(&command.out);
    for (size_t i = 0; i < 2; i++) {
        if (command.signals[i])
            event_free(command.signals[i]);
    }
    event_base_free(command.base);
    return command.status;
}
