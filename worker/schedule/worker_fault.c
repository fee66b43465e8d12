/*
 * A worker may die at any instruction, and tests must be able to say when. A kill from outside
 * comes at random moments; a poisonous request or a crash inside a step can only be planted here.
 *
 * The fault stands in the options of the worker, so it is printed at start and nobody has it by
 * accident. Refuses to simulate more than the two ways in which a worker ends a step badly: it
 * aborts, or it never comes back.
 */
#include "worker/schedule/worker_fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/log.h"

static const struct {
    const char *name;
    enum worker_fault_kind kind;
} fault_names[] = {
    {"abort-on-token=", WORKER_FAULT_ABORT_ON_TOKEN},
    {"abort-at-step=", WORKER_FAULT_ABORT_AT_STEP},
    {"hang-at-step=", WORKER_FAULT_HANG_AT_STEP},
    {"fail-from-life=", WORKER_FAULT_FAIL_FROM_LIFE},
};

/* Reads digits at *text and moves behind them. */
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
        return error_set(error, RESULT_INVALID, "life %u must fail: --fault says so", life);
    return RESULT_OK;
}

static bool has_token(const struct step_batch *batch, uint32_t token)
{
    for (uint32_t row = 0; row < batch->row_count; row++) {
        if (batch->token_ids[row] == token)
            return true;
    }
    return false;
}

static void abort_when(bool due)
{
    if (due) {
        log_error("aborting: --fault says so");
        abort();
    }
}

void worker_fault_drawn(const struct worker_fault *fault, const struct step_batch *batch,
                        const struct sampled_token *before)
{
    if (fault->kind != WORKER_FAULT_ABORT_ON_TOKEN)
        return;
    for (uint32_t row = 0; row < batch->row_count; row++) {
        uint32_t token = batch->token_ids[row];
        abort_when((token & STEP_TOKEN_SAMPLED) &&
                   before[token & ~STEP_TOKEN_SAMPLED].token == fault->number);
    }
}

void worker_fault_step(const struct worker_fault *fault, uint64_t steps,
                       const struct step_batch *batch)
{
    abort_when(fault->kind == WORKER_FAULT_ABORT_ON_TOKEN && has_token(batch, fault->number));
    abort_when(fault->kind == WORKER_FAULT_ABORT_AT_STEP && steps + 1 == fault->number);
    if (fault->kind == WORKER_FAULT_HANG_AT_STEP && steps + 1 == fault->number) {
        log_error("hanging: --fault says so");
        for (;;)
            pause();
    }
}
