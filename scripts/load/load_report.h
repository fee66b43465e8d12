/*
 * A run's figures as a table for readers and as JSON for programs, under the names of vLLM's tool.
 */
#ifndef SHOAL_SCRIPTS_LOAD_LOAD_REPORT_H
#define SHOAL_SCRIPTS_LOAD_LOAD_REPORT_H

#include <stdio.h>

#include "frontend/base/text_buffer.h"
#include "scripts/load/load_summary.h"

void load_report_print(const struct load_summary *summary, const struct load_options *options,
                       FILE *out);

struct load_report_run {
    const struct load_options *options;
    const char *model;
    const char *date; /* "20261121-093000" */
    const struct load_record *records;
    size_t record_count;
};
/* One JSON object; with options->save_detailed, with arrays that have an entry for every
 * request. */
void load_report_write_json(const struct load_summary *summary, const struct load_report_run *run,
                            struct text_buffer *out);

#endif
