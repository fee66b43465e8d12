/*
 * shoal-worker: one device, many sequences. Started by the frontend with the descriptors of a
 * shared segment; worker/README.md has the flags. `shoal-worker --list-devices text|json` lists
 * what it could be started on instead.
 *
 * SIGINT and SIGTERM reach a whole process group; how a worker ends is the frontend's decision (a
 * drain, or SIGKILL), so they are ignored here.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "proto/log.h"
#include "worker/backend/device_listing.h"
#include "worker/schedule/worker_options.h"
#include "worker/schedule/worker_process.h"

int main(int argc, char **argv)
{
    struct worker_options options;
    struct error_text error;
    if (argc == 3 && strcmp(argv[1], "--list-devices") == 0)
        return device_listing_print(strcmp(argv[2], "json") == 0, stdout) ? 0 : 1;
    if (worker_options_parse(argc, argv, &options, &error) != RESULT_OK) {
        fprintf(stderr, "shoal-worker: %s\n", error.text);
        return WORKER_EXIT_CANNOT;
    }
    char name[16];
    snprintf(name, sizeof name, "worker %u", options.worker_index);
    log_init(name, options.log_level);
    log_set_format(options.log_format);
    char title[16]; /* what the kernel keeps, with its NUL */
    snprintf(title, sizeof title, "shoal-worker %u", options.worker_index);
    prctl(PR_SET_NAME, title);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    return (int)worker_process_run(&options);
}
