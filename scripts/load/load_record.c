/*
 * Every gap between two pieces of text is kept, because percentiles of gaps cannot be computed from
 * averages. Four bytes each: an hour at a thousand tokens a second is 14 MB.
 */
#include "scripts/load/load_record.h"

#include <stdlib.h>

#include "proto/must.h"

void load_record_add_text(struct load_record *record, int64_t at_us)
{
    if (record->first_us == 0) {
        record->first_us = at_us > 0 ? at_us : 1;
        record->latency_us = record->first_us;
        return;
    }
    if (record->gap_count == record->gap_capacity) {
        record->gap_capacity = record->gap_capacity ? 2 * record->gap_capacity : 32;
        record->gaps_us =
            realloc(record->gaps_us, record->gap_capacity * sizeof record->gaps_us[0]);
        must(record->gaps_us != NULL);
    }
    int64_t gap_us = at_us - record->latency_us;
    record->gaps_us[record->gap_count++] = gap_us < UINT32_MAX ? (uint32_t)gap_us : UINT32_MAX;
    record->latency_us = at_us;
}

void load_record_fini(struct load_record *record)
{
    free(record->gaps_us);
    record->gaps_us = NULL;
    record->gap_count = record->gap_capacity = 0;
}

bool load_outcome_is_failure(enum load_outcome outcome)
{
    return outcome >= LOAD_FAILED_CONNECT;
}

const char *load_outcome_name(enum load_outcome outcome)
{
    static const char *const names[LOAD_OUTCOME_COUNT] = {
        [LOAD_COMPLETED] = "completed",
        [LOAD_DISCONNECTED] = "left",
        [LOAD_REFUSED] = "refused",
        [LOAD_STOPPED] = "stopped",
        [LOAD_FAILED_CONNECT] = "connect",
        [LOAD_FAILED_STATUS] = "status",
        [LOAD_FAILED_TIMEOUT] = "timeout",
        [LOAD_FAILED_BROKEN] = "broken_stream",
        [LOAD_FAILED_ERROR_EVENT] = "error_event",
        [LOAD_FAILED_BAD_ACCEPTED] = "bad_request_accepted",
    };
    return names[outcome];
}
