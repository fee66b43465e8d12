/*
 * A whole run: starts requests when they are due and gathers their records.
 */
#ifndef SHOAL_SCRIPTS_LOAD_LOAD_RUN_H
#define SHOAL_SCRIPTS_LOAD_LOAD_RUN_H

#include "scripts/load/chat_prompt.h"
#include "scripts/load/load_options.h"
#include "scripts/load/load_record.h"
#include "scripts/load/server_probe.h"

struct load_run;

struct load_run_config {
    const struct load_options *options;
    const struct server_address *address;
    const struct chat_target *target;
    const struct chat_dataset *dataset; /* empty: random words */
};

struct load_run *load_run_create(const struct load_run_config *config);
void load_run_destroy(struct load_run *run);

/* Finds how many words make a prompt of options->input_tokens: measures with two requests how the
 * server counts. Call before load_run_drive(). */
enum result load_run_calibrate(struct load_run *run, struct error_text *error) RESULT_CHECKED;
/* Runs until all requests have ended. SIGINT or SIGTERM ends it early: running requests are
 * stopped, finished ones are reported. */
void load_run_drive(struct load_run *run);

/* In order of their starts. */
const struct load_record *load_run_records(const struct load_run *run, size_t *count);
/* From the first start to the last end. */
double load_run_duration_s(const struct load_run *run);

#endif
