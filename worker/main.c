/*
 * shoal-worker: one device, many sequences. Started by the frontend with the descriptors of a
 * shared segment; worker/README.md lists the flags. `shoal-worker --list-devices text|json` lists
 * the devices instead.
 *
 * SIGINT and SIGTERM reach the whole process group. They are ignored because the frontend decides
 * how a worker ends, by a drain or by SIGKILL.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "proto/log.h"
#include "shm/debug_access.h"
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
    if (!options.allow_debug)
        debug_access_deny();
    char name[16];
    snprintf(name, sizeof name, "worker %u", options.worker_index);
    log_init(name, options.log_level);
    log_set_format(options.log_format);
    char title[16]; /* the kernel's limit, with the NUL */
    snprintf(title, sizeof title, "shoal-worker %u", options.worker_index);
    prctl(PR_SET_NAME, title);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write over RLIMIT_FSIZE fails with EFBIG */
    return (int)worker_process_run(&options);
}
