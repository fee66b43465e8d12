/*
 * Tests must be able to choose the instruction at which a worker dies. A kill from outside comes at
 * a random moment; a request that crashes the worker, or a crash within a step, can only be
 * injected here. The fault is one of the worker's options, so it is printed at start.
 *
 * There are four ways to fail within a step: the worker aborts, is killed, hangs, or makes a system
 * call that its sandbox denies.
 */
#include "worker/schedule/worker_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/log.h"

static const struct {
    const char *name;
    enum worker_fault_kind kind;
} fault_names[] = {
    {"abort-on-token=", WORKER_FAULT_ABORT_ON_TOKEN},
    {"kill-on-token=", WORKER_FAULT_KILL_ON_TOKEN},
    {"abort-at-step=", WORKER_FAULT_ABORT_AT_STEP},
    {"abort-on-inherited=", WORKER_FAULT_ABORT_ON_INHERITED},
    {"open-at-step=", WORKER_FAULT_OPEN_AT_STEP},
    {"socket-at-step=", WORKER_FAULT_SOCKET_AT_STEP},
    {"hang-at-step=", WORKER_FAULT_HANG_AT_STEP},
    {"fail-from-life=", WORKER_FAULT_FAIL_FROM_LIFE},
};

/* Reads the digits at *text and advances it. */
static bool take_number(const char **text, uint32_t *number)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(*text, &end, 10);
    if (errno != 0 || value > UINT32_MAX)
        return false;
    *number = (uint32_t)value;
    *text = end;
    return true;
}

enum result worker_fault_parse(const char *text, uint32_t worker_index, struct worker_fault *fault,
                               struct error_text *error)
{
    *fault = (struct worker_fault){WORKER_FAULT_NONE, 0};
    if (!text)
        return RESULT_OK;
    const char *at = text;
    uint32_t worker = worker_index;
    bool good = true;
    if (*at >= '0' && *at <= '9')
        good = take_number(&at, &worker) && *at++ == ':';
    size_t kind = 0;
    size_t kinds = sizeof fault_names / sizeof fault_names[0];
    while (good && kind < kinds &&
           strncmp(at, fault_names[kind].name, strlen(fault_names[kind].name)) != 0)
        kind++;
    good = good && kind < kinds;
    if (good)
        at += strlen(fault_names[kind].name);
    uint32_t number = 0;
    if (!good || !take_number(&at, &number) || *at != '\0')
        return error_set(error, RESULT_INVALID, "--fault must be [WORKER:]NAME=N, not \"%.80s\"",
                         text);
    if (worker == worker_index)
        *fault = (struct worker_fault){fault_names[kind].kind, number};
    return RESULT_OK;
}

enum result worker_fault_start(const struct worker_fault *fault, uint32_t life,
                               struct error_text *error)
{
    if (fault->kind == WORKER_FAULT_FAIL_FROM_LIFE && life >= fault->number)
        return error_set(error, RESULT_INVALID, "life %u must fail, as --fault requests", life);
    return RESULT_OK;
}

static void abort_now(void)
{
    log_error("aborting, as --fault requests");
    abort();
}

/* A step computes `token`, or has drawn it. */
static void token_seen(const struct worker_fault *fault, uint32_t token)
{
    if (token != fault->number)
        return;
    if (fault->kind == WORKER_FAULT_ABORT_ON_TOKEN)
        abort_now();
    if (fault->kind == WORKER_FAULT_KILL_ON_TOKEN)
        kill(getpid(), SIGKILL);
}

static bool is_on_token(const struct worker_fault *fault)
{
    return fault->kind == WORKER_FAULT_ABORT_ON_TOKEN || fault->kind == WORKER_FAULT_KILL_ON_TOKEN;
}

/* The descriptor stays open if the call succeeds. */
static void call_kernel(enum worker_fault_kind kind)
{
    if (kind != WORKER_FAULT_OPEN_AT_STEP && kind != WORKER_FAULT_SOCKET_AT_STEP)
        return;
    int fd = kind == WORKER_FAULT_OPEN_AT_STEP ? open("/dev/null", O_WRONLY | O_CLOEXEC)
                                               : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    log_error("the call that --fault requests returned %d", fd);
}

void worker_fault_drawn(const struct worker_fault *fault, const struct step_batch *batch,
                        const struct sampled_token *before)
{
    for (uint32_t row = 0; is_on_token(fault) && row < batch->row_count; row++) {
        uint32_t token = batch->token_ids[row];
        if (token & STEP_TOKEN_SAMPLED)
            token_seen(fault, before[token & ~STEP_TOKEN_SAMPLED].token);
    }
}

void worker_fault_step(const struct worker_fault *fault, uint64_t steps,
                       const struct step_batch *batch)
{
    for (uint32_t row = 0; is_on_token(fault) && row < batch->row_count; row++)
        token_seen(fault, batch->token_ids[row]);
    if (fault->kind == WORKER_FAULT_ABORT_AT_STEP && steps + 1 == fault->number)
        abort_now();
    for (uint32_t i = 0;
         fault->kind == WORKER_FAULT_ABORT_ON_INHERITED && steps == 0 && i < batch->sequence_count;
         i++) {
        if (batch->sequences[i].first_position >= fault->number)
            abort_now();
    }
    if (steps + 1 == fault->number)
        call_kernel(fault->kind);
    if (fault->kind == WORKER_FAULT_HANG_AT_STEP && steps + 1 == fault->number) {
        log_error("hanging, as --fault requests");
        for (;;)
            pause();
    }
}
