/*
 * The outcome and times of one request.
 */
#ifndef SHOAL_SCRIPTS_LOAD_LOAD_RECORD_H
#define SHOAL_SCRIPTS_LOAD_LOAD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum load_outcome {
    LOAD_COMPLETED = 0,
    LOAD_DISCONNECTED, /* by this tool (--disconnect-share) */
    LOAD_REFUSED,      /* a bad request (--bad-request-share) got an error */
    LOAD_STOPPED,      /* it was running when the run was interrupted */
    LOAD_FAILED_CONNECT,
    LOAD_FAILED_STATUS,       /* answered, but not with 200 */
    LOAD_FAILED_TIMEOUT,      /* over --timeout */
    LOAD_FAILED_BROKEN,       /* not HTTP, not an event stream, or its end is missing */
    LOAD_FAILED_ERROR_EVENT,  /* an error inside the stream */
    LOAD_FAILED_BAD_ACCEPTED, /* a bad request got a success or a 5xx */
    LOAD_OUTCOME_COUNT
};

/* Times are microseconds of the monotonic clock; those of a request count from its start. */
struct load_record {
    enum load_outcome outcome;
    int status;         /* of the reply; 0: none */
    int64_t start_us;   /* since the beginning of the run */
    int64_t late_us;    /* the start's delay against the plan */
    int64_t first_us;   /* first text; 0: none */
    int64_t latency_us; /* to the end, for every outcome */
    uint32_t input_tokens;
    uint32_t output_tokens;
    bool has_usage;     /* if false, tokens are counted as chunks */
    uint32_t gap_count; /* between pieces of text: one less than pieces */
    uint32_t gap_capacity;
    uint32_t *gaps_us; /* malloc'd; load_record_fini() frees */
    char error[96];    /* why it failed */
};

/* A piece of text arrived, `at_us` after the start. */
void load_record_add_text(struct load_record *record, int64_t at_us);
void load_record_fini(struct load_record *record);
bool load_outcome_is_failure(enum load_outcome outcome);
/* "timeout", … */
const char *load_outcome_name(enum load_outcome outcome);

#endif
