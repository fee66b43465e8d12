/*
 * A growing list of numbers with their mean, standard deviation and percentiles.
 */
#ifndef SHOAL_SCRIPTS_LOAD_SAMPLE_LIST_H
#define SHOAL_SCRIPTS_LOAD_SAMPLE_LIST_H

#include <stddef.h>

struct sample_list {
    double *values; /* malloc'd; sample_list_fini() frees */
    size_t count;
    size_t capacity;
};

void sample_list_fini(struct sample_list *list);
void sample_list_add(struct sample_list *list, double value);
/* Sorts ascending; required for percentiles. */
void sample_list_sort(struct sample_list *list);
/* All of these are 0 for an empty list. */
double sample_list_mean(const struct sample_list *list);
/* Of the population: divided by the count. */
double sample_list_deviation(const struct sample_list *list);
/* Of a sorted list, linear between the two nearest; `percent` in 0 to 100, 50 is the median. */
double sample_list_percentile(const struct sample_list *list, double percent);

#endif
