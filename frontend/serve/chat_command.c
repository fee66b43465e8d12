/*
 * The engine with a conversation instead of HTTP (chat_session.h): lines come from standard input
 * while no answer is being written, and answers go to standard output as they come. Reasoning is
 * shown dimmed on a terminal, calls of tools are not asked for.
 *
 * A model's text is not trusted: control characters, which could steer the terminal, are shown as
 * '?'.
 */
#include "frontend/serve/chat_command.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/api/generation/answer.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/serve/chat_session.h"
#include "frontend/serve/engine/chat_engine.h"
#include "proto/must.h"

#define LINE_BYTES_MAX (1u << 20)

struct chat_command {
    const struct options *options;
    struct event_base *base;
    struct event *signals[2];
    struct event *input; /* active while no answer is being written */
    struct chat_engine *engine;
    struct chat_session *session;
    struct live_request *request; /* NULL: none */
    struct answer *answer;
    struct text_buffer line;    /* read and not yet taken */
    struct text_buffer content; /* of the answer */
    struct text_buffer shown;   /* not yet written */
    uint32_t tokens;
    int64_t asked_us;
    bool terminal; /* standard output is one */
    bool talks;    /* standard input is one */
    bool dim;
    bool at_end; /* of the input */
    bool ended;
    int status;
    void (*on_end)(void *context); /* NULL: the engine is its own */
    void *context;
};

static void end(struct chat_command *command, int status)
{
    if (command->ended)
        return;
    command->ended = true;
    command->status = status;
    event_del(command->input);
    if (command->on_end)
        command->on_end(command->context);
    else
        chat_engine_drain(command->engine);
}

/* --- output ---------------------------------------------------------------------------------- */

/* Without control characters: those below space but line break and tab, DEL, and U+0080 to U+009F. */
static void text_show(struct chat_command *command, const char *bytes, size_t count)
{
    struct text_buffer *out = &command->shown;
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        bool c1 = byte == 0xc2 && i + 1 < count && (unsigned char)bytes[i + 1] < 0xa0;
        bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f || c1;
        text_buffer_append(out, control ? "?" : bytes + i, 1);
        i += c1;
    }
}

static void dim_set(struct chat_command *command, bool dim)
{
    if (command->terminal && dim != command->dim)
        text_buffer_append_text(&command->shown, dim ? "\x1b[2m" : "\x1b[0m\n");
    else if (!command->terminal && command->dim && !dim)
        text_buffer_append_text(&command->shown, "\n");
    command->dim = dim;
}

static void out_write(struct chat_command *command)
{
    if (command->shown.length > 0)
        fwrite(command->shown.bytes, 1, command->shown.length, stdout);
    fflush(stdout);
    text_buffer_clear(&command->shown);
}

static void on_event(void *context, const struct reply_event *event)
{
    struct chat_command *command = context;
    if (event->kind != REPLY_CONTENT && event->kind != REPLY_REASONING)
        return;
    dim_set(command, event->kind == REPLY_REASONING);
    text_show(command, event->bytes, event->length);
    if (event->kind == REPLY_CONTENT)
        text_buffer_append(&command->content, event->bytes, event->length);
}

/* --- input ----------------------------------------------------------------------------------- */

static void lines_take(struct chat_command *command);

/* Reads on after an answer or a command. */
static void next_line(struct chat_command *command)
{
    if (command->talks)
        text_buffer_append_text(&command->shown, "> ");
    out_write(command);
    lines_take(command);
}

/* --- what the engine says -------------------------------------------------------------------- */

static void on_prepared(void *context, const struct prepared_generation *prepared)
{
    struct chat_command *command = context;
    command->answer =
        answer_create(&(struct reply_config){.assets = chat_engine_assets(command->engine),
                                             .prepared = prepared,
                                             .id = "chat",
                                             .request_id = "chat"},
                      0, &(struct reply_event_sink){command, on_event});
}

static bool on_token(void *context, const struct reply_token *token)
{
    struct chat_command *command = context;
    command->tokens++;
    return answer_push(command->answer, token);
}

static void on_flush(void *context)
{
    out_write(context);
}

/* The answer is over, whole or not. */
static void answer_close(struct chat_command *command, enum finish_reason finish)
{
    (void)answer_finish(command->answer, finish, (struct cached_prompt){0});
    dim_set(command, false);
    text_buffer_append_text(&command->shown, "\n");
    chat_session_answer(command->session, command->content.bytes ? command->content.bytes : "",
                        command->content.length);
    if (command->options->stats)
        fprintf(stderr, "%u tokens in %.3f s\n", command->tokens,
                (double)(monotonic_clock_us() - command->asked_us) / 1e6);
    answer_destroy(command->answer);
    command->answer = NULL;
    command->request = NULL;
}

static void on_finished(void *context, enum finish_reason finish, struct cached_prompt cached)
{
    (void)cached;
    struct chat_command *command = context;
    answer_close(command, finish);
    next_line(command);
}

static void request_refuse(struct chat_command *command, const struct api_error *error)
{
    out_write(command);
    fprintf(stderr, "shoal: %s\n", error->message);
    chat_session_drop(command->session);
    answer_destroy(command->answer);
    command->answer = NULL;
    command->request = NULL;
}

static void on_request_failed(void *context, const struct api_error *error)
{
    struct chat_command *command = context;
    request_refuse(command, error);
    next_line(command);
}

static const char *on_request_name(void *context)
{
    (void)context;
    return "chat";
}

static const struct live_request_sink sink = {.prepared = on_prepared,
                                              .token = on_token,
                                              .flush = on_flush,
                                              .finished = on_finished,
                                              .failed = on_request_failed,
                                              .name = on_request_name};

/* --- turns ----------------------------------------------------------------------------------- */

static void ask(struct chat_command *command)
{
    struct api_error error;
    char *body = chat_session_body(command->session);
    must(body != NULL);
    struct prepare_input input = {.body = body, .body_bytes = strlen(body), .format = &chat_format};
    must(getrandom(&input.random_seed, sizeof input.random_seed, 0) == sizeof input.random_seed);
    text_buffer_clear(&command->content);
    command->tokens = 0;
    command->asked_us = monotonic_clock_us();
    if (chat_engine_admit(command->engine, &input, &sink, command, &command->request, &error) !=
        RESULT_OK)
        request_refuse(command, &error);
}

/* Takes one line that was read. False: there is none. */
static bool line_take(struct chat_command *command)
{
    struct text_buffer *line = &command->line;
    const char *end_at = line->length > 0 ? memchr(line->bytes, '\n', line->length) : NULL;
    size_t bytes = end_at ? (size_t)(end_at - line->bytes) : line->length;
    if (!end_at && !(command->at_end && line->length > 0))
        return false;
    char *text = must_alloc(bytes + 1, 1);
    memcpy(text, line->bytes, bytes);
    text_buffer_consume(line, bytes + (end_at != NULL));
    struct text_buffer out = {0};
    enum chat_action action = chat_session_take(command->session, text, bytes, &out);
    free(text);
    if (out.length > 0)
        text_show(command, out.bytes, out.length);
    text_buffer_fini(&out);
    if (action == CHAT_ACTION_EXIT) {
        out_write(command);
        end(command, command->status);
    } else if (action == CHAT_ACTION_ASK) {
        out_write(command);
        ask(command);
    } else if (command->talks) {
        text_buffer_append_text(&command->shown, "> ");
    }
    out_write(command);
    return true;
}

/* Takes lines until one asks the model, then waits for input again. */
static void lines_take(struct chat_command *command)
{
    while (!command->request && !command->ended && line_take(command)) {
    }
    if (command->request || command->ended)
        event_del(command->input);
    else if (command->at_end)
        end(command, command->status);
    else
        event_add(command->input, NULL);
}

static void on_input(int fd, short what, void *context)
{
    (void)what;
    struct chat_command *command = context;
    char bytes[4096];
    ssize_t count = read(fd, bytes, sizeof bytes);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    command->at_end = count <= 0;
    if (count > 0)
        text_buffer_append(&command->line, bytes, (size_t)count);
    must(!command->line.failed);
    if (command->line.length > LINE_BYTES_MAX &&
        !memchr(command->line.bytes, '\n', command->line.length)) {
        fprintf(stderr, "shoal: a line has more than %u bytes\n", LINE_BYTES_MAX);
        end(command, 1);
        return;
    }
    lines_take(command);
}

/* --- start and end --------------------------------------------------------------------------- */

/* The first time only: a worker that restarts is waited for by its requests. */
static void input_begin(struct chat_command *command)
{
    if (command->input && event_pending(command->input, EV_READ, NULL))
        return;
    if (command->request || command->ended || command->tokens > 0)
        return;
    if (command->talks)
        text_buffer_append_text(&command->shown, "/help lists the commands.\n");
    next_line(command);
}

static void on_ready(void *context)
{
    input_begin(context);
}

static void on_failed(void *context, const char *why)
{
    struct chat_command *command = context;
    fprintf(stderr, "shoal: %s\n", why);
    command->status = 1;
    event_base_loopbreak(command->base);
}

static void on_drained(void *context)
{
    struct chat_command *command = context;
    event_base_loopbreak(command->base);
}

bool chat_command_interrupt(struct chat_command *command)
{
    if (!command->request || !command->answer)
        return false;
    chat_engine_cancel(command->engine, command->request);
    answer_close(command, FINISH_CANCELLED);
    next_line(command);
    return true;
}

/* Ctrl-C ends the answer, or the program if there is none. What was written stays in the
 * conversation. */
static void on_signal(int signal_number, short what, void *context)
{
    (void)what;
    struct chat_command *command = context;
    if (signal_number == SIGINT && chat_command_interrupt(command))
        return;
    command->status = 128 + signal_number;
    event_base_loopbreak(command->base);
}

static void input_create(struct chat_command *command)
{
    command->input =
        event_new(command->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, command);
    must(command->input != NULL);
}

static enum result command_start(struct chat_command *command, struct error_text *error)
{
    static const int numbers[2] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < 2; i++) {
        command->signals[i] = evsignal_new(command->base, numbers[i], on_signal, command);
        must(command->signals[i] && event_add(command->signals[i], NULL) == 0);
    }
    input_create(command);
    struct chat_engine_config config = {.base = command->base,
                                        .state_directory = -1,
                                        .options = command->options,
                                        .context = command,
                                        .ready = on_ready,
                                        .failed = on_failed,
                                        .drained = on_drained};
    return chat_engine_create(&config, &command->engine, error);
}

static void conversation_fini(struct chat_command *command)
{
    chat_session_destroy(command->session);
    answer_destroy(command->answer);
    text_buffer_fini(&command->line);
    text_buffer_fini(&command->content);
    text_buffer_fini(&command->shown);
    if (command->input)
        event_free(command->input);
}

static void command_fini(struct chat_command *command)
{
    chat_engine_destroy(command->engine);
    conversation_fini(command);
    for (size_t i = 0; i < 2; i++) {
        if (command->signals[i])
            event_free(command->signals[i]);
    }
    event_base_free(command->base);
}

/* A base that also waits for regular files, which epoll does not. */
static struct event_base *base_create(void)
{
    struct event_config *config = event_config_new();
    must(config && event_config_require_features(config, EV_FEATURE_FDS) == 0);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    must(base != NULL);
    return base;
}

static struct chat_command command_make(const struct options *options)
{
    return (struct chat_command){.options = options,
                                 .terminal = isatty(STDOUT_FILENO),
                                 .talks = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
}

struct chat_command *chat_command_attach(const struct options *options, struct event_base *base,
                                         void (*ended)(void *context), void *context)
{
    struct chat_command *command = must_alloc(1, sizeof *command);
    *command = command_make(options);
    command->base = base;
    command->on_end = ended;
    command->context = context;
    command->session = chat_session_create(options);
    input_create(command);
    return command;
}

void chat_command_ready(struct chat_command *command, struct chat_engine *engine)
{
    command->engine = engine;
    input_begin(command);
}

void chat_command_detach(struct chat_command *command)
{
    if (!command)
        return;
    if (command->request)
        chat_engine_cancel(command->engine, command->request);
    conversation_fini(command);
    free(command);
}

int chat_command_run(const struct options *options)
{
    struct chat_command command = command_make(options);
    struct error_text error;
    signal(SIGPIPE, SIG_IGN);
    command.base = base_create();
    command.session = chat_session_create(options);
    if (command_start(&command, &error) == RESULT_OK) {
        event_base_dispatch(command.base);
    } else {
        fprintf(stderr, "shoal: %s\n", error.text);
        command.status = 1;
    }
    command_fini(&command);
    return command.status;
}
