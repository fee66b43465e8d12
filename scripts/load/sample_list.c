/*
 * Every sample is kept, so a percentile is exact, not an estimate. The definition is numpy's
 * default (Hyndman and Fan's type 7): position (count - 1) * percent / 100 of the sorted list,
 * linear between neighbours, so figures agree with those of vLLM's tool on the same samples.
 */
#include "scripts/load/sample_list.h"

#include <math.h>
#include <stdlib.h>

#include "proto/must.h"

void sample_list_fini(struct sample_list *list)
{
    free(list->values);
    *list = (struct sample_list){0};
}

void sample_list_add(struct sample_list *list, double value)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 256;
        list->values = realloc(list->values, list->capacity * sizeof list->values[0]);
        must(list->values != NULL);
    }
    list->values[list->count++] = value;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

void sample_list_sort(struct sample_list *list)
{
    if (list->count > 0)
        qsort(list->values, list->count, sizeof list->values[0], compare);
}

double sample_list_mean(const struct sample_list *list)
{
    double sum = 0;
    for (size_t i = 0; i < list->count; i++)
        sum += list->values[i];
    return list->count ? sum / (double)list->count : 0;
}

double sample_list_deviation(const struct sample_list *list)
{
    double mean = sample_list_mean(list);
    double sum = 0;
    for (size_t i = 0; i < list->count; i++)
        sum += (list->values[i] - mean) * (list->values[i] - mean);
    return list->count ? sqrt(sum / (double)list->count) : 0;
}

double sample_list_percentile(const struct sample_list *list, double percent)
{
    if (list->count == 0)
        return 0;
    double at = (double)(list->count - 1) * percent / 100;
    size_t below = (size_t)at;
    if (below + 1 >= list->count)
        return list->values[list->count - 1];
    return list->values[below] +
           (at - (double)below) * (list->values[below + 1] - list->values[below]);
}
