/*
 * The figures come from system calls and two small files of /proc that cannot block. Descriptors
 * are counted from the directory's size if the kernel reports it (6.2 and later), otherwise by
 * listing it.
 */
#include "frontend/serve/metrics/process_figures.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Reads a small file as text; false if it cannot be read. */
static bool read_text(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t length = fread(text, 1, capacity - 1, file);
    fclose(file);
    text[length] = '\0';
    return length > 0;
}

static uint64_t count_descriptors(void)
{
    struct stat folder;
    if (stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0)
        return (uint64_t)folder.st_size;
    DIR *listing = opendir("/proc/self/fd");
    uint64_t count = 0;
    if (!listing)
        return 0;
    for (const struct dirent *entry; (entry = readdir(listing));)
        count += entry->d_name[0] != '.';
    closedir(listing);
    return count > 0 ? count - 1 : 0; /* without the listing's own descriptor */
}

/* Field 22 of /proc/self/stat is the start in clock ticks since boot. The name before it, in
 * brackets, may hold any character. */
static double read_start_unix_s(void)
{
    char text[1024];
    if (!read_text("/proc/self/stat", text, sizeof text))
        return 0;
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    struct timespec wall;
    struct timespec boot;
    if (!at || clock_gettime(CLOCK_REALTIME, &wall) != 0 ||
        clock_gettime(CLOCK_BOOTTIME, &boot) != 0)
        return 0;
    double since_boot_s = strtod(at, NULL) / (double)sysconf(_SC_CLK_TCK);
    return (double)wall.tv_sec - (double)boot.tv_sec + since_boot_s;
}

void process_figures_read(struct process_figures *figures)
{
    *figures = (struct process_figures){.open_fds = count_descriptors(),
                                        .start_unix_s = read_start_unix_s()};
    struct timespec cpu;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
        figures->cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        figures->max_fds = limit.rlim_cur;
    char text[256];
    if (read_text("/proc/self/statm", text, sizeof text)) {
        uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
        char *end = text;
        figures->virtual_bytes = strtoull(end, &end, 10) * page_bytes;
        figures->resident_bytes = strtoull(end, NULL, 10) * page_bytes;
    }
}

void process_figures_write(const struct process_figures *figures, struct metric_text *text)
{
    const struct {
        const char *name;
        enum metric_type type;
        const char *help;
        double value;
    } values[] = {
        {"process_cpu_seconds_total", METRIC_COUNTER, "CPU time of the frontend.", figures->cpu_s},
        {"process_start_time_seconds", METRIC_GAUGE, "When the frontend started, in Unix time.",
         figures->start_unix_s},
        {"process_virtual_memory_bytes", METRIC_GAUGE, "Address space of the frontend.",
         (double)figures->virtual_bytes},
        {"process_resident_memory_bytes", METRIC_GAUGE, "Memory of the frontend.",
         (double)figures->resident_bytes},
        {"process_open_fds", METRIC_GAUGE, "Open descriptors of the frontend.",
         (double)figures->open_fds},
        {"process_max_fds", METRIC_GAUGE, "Descriptors that the frontend may open.",
         (double)figures->max_fds},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        metric_text_value(text, values[i].name, values[i].type, values[i].help, values[i].value);
}
