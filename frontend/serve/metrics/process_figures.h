/*
 * The kernel's figures about this process, under the names of Prometheus' client libraries.
 */
#ifndef SHOAL_FRONTEND_SERVE_METRICS_PROCESS_FIGURES_H
#define SHOAL_FRONTEND_SERVE_METRICS_PROCESS_FIGURES_H

#include <stdint.h>

#include "frontend/serve/metrics/metric_text.h"

struct process_figures {
    double cpu_s;
    double start_unix_s;
    uint64_t virtual_bytes;
    uint64_t resident_bytes;
    uint64_t open_fds;
    uint64_t max_fds;
};

/* Reads them; a figure that cannot be read is 0. */
void process_figures_read(struct process_figures *figures);
void process_figures_write(const struct process_figures *figures, struct metric_text *text);

#endif
