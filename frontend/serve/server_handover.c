/*
 * Starts the successor and waits for its report (contract in server_handover.h).
 *
 * The report is one byte on a pair of connected sockets. The end of that stream without it means that
 * the successor has ended, or is about to: it is killed, so that no second server is left behind.
 */
#include "frontend/serve/server_handover.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frontend/base/program_spawn.h"
#include "frontend/http/api_keys.h"
#include "frontend/serve/settings/options.h"
#include "proto/limits.h"
#include "proto/log.h"
#include "proto/must.h"

#define CHANNEL_FD 3

struct server_handover {
    struct server_handover_config config;
    char **arguments; /* with program and command; NULL-terminated */
    char path[PROGRAM_PATH_BYTES];
    int channel; /* -1: no successor is starting */
    struct event *report;
    pid_t pid;
    bool asked;
};

/* The key that begins in the argument, or NULL. */
static const char *key_in(const struct option_texts *keys, const char *argument)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->items[i] >= argument && keys->items[i] <= argument + strlen(argument))
            return keys->items[i];
    }
    return NULL;
}

static char *argument_copy(const struct option_texts *keys, const char *argument)
{
    char digest[API_KEY_DIGEST_BYTES];
    const char *key = key_in(keys, argument);
    if (!key)
        return must_strdup(argument);
    api_keys_hide(key, digest);
    size_t before = (size_t)(key - argument);
    char *copy = must_alloc(before + sizeof digest, 1);
    memcpy(copy, argument, before);
    memcpy(copy + before, digest, sizeof digest);
    return copy;
}

static void arguments_copy(struct server_handover *handover)
{
    static char command[] = "serve";
    const struct server_handover_config *config = &handover->config;
    handover->arguments =
        must_alloc((size_t)config->argument_count + 3, sizeof handover->arguments[0]);
    handover->arguments[0] = handover->path;
    handover->arguments[1] = command;
    for (int i = 0; i < config->argument_count; i++)
        handover->arguments[i + 2] = argument_copy(config->keys, config->arguments[i]);
}

struct server_handover *server_handover_create(const struct server_handover_config *config)
{
    struct server_handover *handover = must_alloc(1, sizeof *handover);
    handover->config = *config;
    handover->channel = -1;
    arguments_copy(handover);
    return handover;
}

static void channel_close(struct server_handover *handover)
{
    if (handover->report)
        event_free(handover->report);
    if (handover->channel >= 0)
        close(handover->channel);
    handover->report = NULL;
    handover->channel = -1;
}

void server_handover_destroy(struct server_handover *handover)
{
    if (!handover)
        return;
    if (handover->channel >= 0)
        kill(handover->pid, SIGKILL); /* this server ends: a successor that is not ready, too */
    channel_close(handover);
    for (int i = 0; i < handover->config.argument_count; i++)
        free(handover->arguments[i + 2]);
    free(handover->arguments);
    free(handover);
}

static void on_report(int fd, short what, void *context)
{
    (void)what;
    struct server_handover *handover = context;
    struct error_text how;
    char byte = 0;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    int copy = got == 1 && byte == SERVER_HANDOVER_ASK && !handover->asked
                   ? fcntl(fd, F_DUPFD_CLOEXEC, 0)
                   : -1;
    if (copy >= 0) {
        handover->asked = true;
        handover->config.asked(handover->config.context, copy);
        return;
    }
    channel_close(handover);
    if (got == 1 && byte == SERVER_HANDOVER_READY) {
        handover->config.ready(handover->config.context, handover->pid);
        return;
    }
    kill(handover->pid, SIGKILL);
    (void)program_reap(handover->pid, &how);
    log_error("the successor ended before it was ready (%s); this server goes on", how.text);
    handover->config.failed(handover->config.context);
}

enum result server_handover_start(struct server_handover *handover, const int *sockets,
                                  size_t socket_count, char *const *environment,
                                  struct error_text *error)
{
    struct program_descriptor descriptors[1 + LIMIT_LISTEN_SOCKETS];
    int pair[2];
    must(socket_count <= LIMIT_LISTEN_SOCKETS);
    if (handover->channel >= 0)
        return error_set(error, RESULT_FULL, "a successor is already starting");
    enum result result = program_path("shoal", handover->path, error);
    if (result != RESULT_OK)
        return result;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return error_set(error, RESULT_IO, "no channel to a successor: %s", strerror(errno));
    descriptors[0] = (struct program_descriptor){pair[1], CHANNEL_FD};
    for (size_t i = 0; i < socket_count; i++)
        descriptors[1 + i] = (struct program_descriptor){sockets[i], CHANNEL_FD + 1 + (int)i};
    const struct program_start start = {.path = handover->path,
                                        .arguments = handover->arguments,
                                        .environment = environment,
                                        .descriptors = descriptors,
                                        .descriptor_count = 1 + socket_count};
    result = program_spawn(&start, &handover->pid, error);
    close(pair[1]);
    if (result != RESULT_OK) {
        close(pair[0]);
        return result;
    }
    handover->channel = pair[0];
    handover->asked = false;
    handover->report =
        event_new(handover->config.base, pair[0], EV_READ | EV_PERSIST, on_report, handover);
    must(handover->report && event_add(handover->report, NULL) == 0);
    log_info("a successor is starting, process %d", (int)handover->pid);
    return RESULT_OK;
}

void server_handover_report(int channel)
{
    static const char report = SERVER_HANDOVER_READY;
    if (send(channel, &report, 1, MSG_NOSIGNAL) != 1)
        log_warn("the server before this one is gone: %s", strerror(errno));
    close(channel);
}
