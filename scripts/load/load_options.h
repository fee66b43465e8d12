/*
 * The command line of shoal-load.
 */
#ifndef SHOAL_SCRIPTS_LOAD_LOAD_OPTIONS_H
#define SHOAL_SCRIPTS_LOAD_LOAD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/result.h"

#define LOAD_PERCENTILES 16u
#define LOAD_REQUESTS    10000000u /* of one run: 1.5 GB of records */
#define LOAD_CONCURRENCY 65536u

enum load_slo { LOAD_SLO_TTFT, LOAD_SLO_TPOT, LOAD_SLO_E2EL, LOAD_SLO_COUNT };

/* Strings point into argv, unless stated otherwise. */
struct load_options {
    char
        *host; /* host, port and prefix come from --base-url; malloc'd; load_options_fini() frees */
    char *port;   /* a number */
    char *prefix; /* of the path, without /v1 */
    const char *base_url;
    const char *model; /* NULL: the first that the server lists */
    const char *api_key;
    double request_rate; /* 0: closed loop */
    double burstiness;
    uint64_t concurrency;  /* 0: open loop */
    uint64_t num_requests; /* 0: as many as the duration takes */
    double duration_s;     /* 0: as long as the requests take */
    uint64_t input_tokens; /* 0: input_words */
    uint64_t input_words;
    uint64_t output_tokens;
    const char *dataset;
    const char *extra_body;
    uint64_t seed;
    double timeout_s;
    double slo_ms[LOAD_SLO_COUNT]; /* negative: none */
    double percentiles[LOAD_PERCENTILES];
    uint32_t percentile_count;
    const char *save_result;
    bool save_detailed;
    bool fail_on_error;
    double disconnect_share;
    double bad_request_share;
    bool help;
};

/* Reads argv[1..argc). RESULT_INVALID with a message for the user. */
enum result load_options_parse(int argc, char *argv[], struct load_options *options,
                               struct error_text *error) RESULT_CHECKED;
void load_options_fini(struct load_options *options);
void load_options_print_help(FILE *out);

#endif
