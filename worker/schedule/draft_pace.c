/*
 * The time of a step grows in stairs with its rows, which differ between models, devices and
 * kernels, so it is measured for each number of rows. A number that was never measured is
 * interpolated; beyond the largest one a row is assumed to cost little, so that it is tried once.
 * All prices but the measured one fade slowly: what was slow once is tried again.
 *
 * An acceptance begins with a guess that counts as PRIOR_DRAFTS drafts.
 */
#include "worker/schedule/draft_pace.h"

#define SLOWER_WEIGHT                                                                              \
    0.25 /* of a measurement above the average; other programs make some of them */
#define FASTER_WEIGHT    0.5 /* of one below it */
#define OUTLIER_RATIO    2.0 /* a measurement counts as at most so many times the average */
#define FADE_PER_STEP    0.0005
#define UNMEASURED_SHARE 0.2 /* cost of a row beyond the measured ones, of the average row below */
#define PRIOR_DRAFTS     4.0
#define DRAFTS_KEPT      256.0 /* older ones fade */
#define SHORTEST_PAUSE   16u   /* steps */
#define LONGEST_PAUSE    2048u

#define MODEL_PRIOR 0.65

static const double priors[DRAFT_CLASSES] = {0.15, 0.30, 0.50, 0.70, 0.90, 0.96, 0.80,
                                             1.0,  0.30, 0.50, 0.70, 0.85, 0.95};

static void average(double *value, double measured)
{
    if (*value > 0.0 && measured > OUTLIER_RATIO * *value)
        measured = OUTLIER_RATIO * *value;
    double weight = measured > *value ? SLOWER_WEIGHT : FASTER_WEIGHT;
    *value = *value > 0.0 ? *value + weight * (measured - *value) : measured;
}

/* Rows cost at most as much together as in smaller steps, as far as a first measurement can tell. */
static double first_us(const double *times_us, uint32_t rows, double measured)
{
    uint32_t below = rows - 1;
    while (below > 0 && times_us[below] <= 0.0)
        below--;
    if (below == 0)
        return measured;
    double most = times_us[below] * rows / below;
    return measured < most ? measured : most;
}

static void note_time(double *times_us, uint32_t rows, double time_us)
{
    if (rows == 0 || rows > DRAFT_PACE_ROWS || time_us <= 0.0)
        return;
    for (uint32_t i = 1; i <= DRAFT_PACE_ROWS; i++)
        if (i != rows)
            times_us[i] -= FADE_PER_STEP * times_us[i];
    if (times_us[rows] <= 0.0)
        times_us[rows] = first_us(times_us, rows, time_us);
    else
        average(&times_us[rows], time_us);
}

static void begin_pause(struct draft_losses *losses)
{
    if (losses->next_pause == 0)
        losses->next_pause = SHORTEST_PAUSE;
    losses->pause_steps = losses->next_pause;
    if (losses->next_pause < LONGEST_PAUSE)
        losses->next_pause *= 2;
    losses->lost_us = 0.0;
    losses->losing_steps = 0;
}

/* Other programs can stop a step for a time that many steps with drafts do not save, so it counts as an outlier here too. */
static double bounded(double time_us, double expected_us)
{
    return time_us < OUTLIER_RATIO * expected_us ? time_us : OUTLIER_RATIO * expected_us;
}

/* Compares a step with drafts with the time that its tokens take without. */
static void compare(struct draft_pace *pace, const struct draft_step *step)
{
    bool has_rounds = step->rounds_us > 0.0;
    struct draft_losses *losses = has_rounds ? &pace->model : &pace->text;
    double plain_us = draft_pace_step_us(pace, step->streams);
    double step_us = bounded(step->time_us + pace->gap_us, draft_pace_step_us(pace, step->rows));
    losses->lost_us +=
        step_us + step->rounds_us - plain_us * step->generated_tokens / step->streams;
    if (losses->lost_us <= 0.0) {
        losses->lost_us = 0.0;
        losses->losing_steps = 0;
        losses->next_pause = SHORTEST_PAUSE;
        return;
    }
    if (++losses->losing_steps >= DRAFT_PACE_LOSING)
        begin_pause(losses);
}

void draft_pace_note_step(struct draft_pace *pace, const struct draft_step *step)
{
    average(&pace->gap_us, bounded(step->gap_us, step->time_us));
    note_time(pace->step_us, step->rows, step->time_us + pace->gap_us);
    if (step->rows > step->streams || step->rounds_us > 0.0)
        compare(pace, step);
    else
        pace->text.pause_steps -= pace->text.pause_steps > 0;
    if (step->rounds_us > 0.0) {
        pace->probes -= pace->probes > 0;
    } else if (pace->model.pause_steps > 0) {
        pace->model.pause_steps--;
        pace->probes = DRAFT_PACE_PROBES;
    }
}

double draft_pace_note_round(struct draft_pace *pace, uint32_t rows, double time_us)
{
    note_time(pace->round_us, rows, time_us);
    return rows == 0 || rows > DRAFT_PACE_ROWS ? time_us
                                               : bounded(time_us, draft_pace_round_us(pace, rows));
}

void draft_pace_rest(struct draft_pace *pace)
{
    begin_pause(&pace->model);
}

void draft_pace_note_draft(struct draft_pace *pace, uint8_t class, bool accepted)
{
    pace->judged[class] += 1.0;
    pace->accepted[class] += accepted;
    if (pace->judged[class] > DRAFTS_KEPT) {
        pace->judged[class] /= 2.0;
        pace->accepted[class] /= 2.0;
    }
}

bool draft_pace_is_paused(const struct draft_pace *pace)
{
    return pace->text.pause_steps > 0;
}

bool draft_pace_model_is_paused(const struct draft_pace *pace)
{
    return pace->model.pause_steps > 0;
}

static double expected_us(const double *times_us, uint32_t rows)
{
    uint32_t below = rows, above = rows;
    while (below > 0 && times_us[below] <= 0.0)
        below--;
    while (above <= DRAFT_PACE_ROWS && times_us[above] <= 0.0)
        above++;
    bool has_below = below > 0, has_above = above <= DRAFT_PACE_ROWS;
    if (below == rows)
        return times_us[rows];
    if (!has_below)
        return has_above ? times_us[above] : 0.0;
    double below_us = times_us[below];
    double row_us = has_above ? (times_us[above] - below_us) / (above - below)
                              : UNMEASURED_SHARE * below_us / below;
    return below_us + row_us * (rows - below);
}

double draft_pace_step_us(const struct draft_pace *pace, uint32_t rows)
{
    return expected_us(pace->step_us, rows);
}

double draft_pace_round_us(const struct draft_pace *pace, uint32_t rows)
{
    return expected_us(pace->round_us, rows);
}

double draft_pace_acceptance(const struct draft_pace *pace, uint8_t class)
{
    if (class == DRAFT_CLASS_CERTAIN)
        return 1.0;
    return (pace->accepted[class] + PRIOR_DRAFTS * priors[class]) /
           (pace->judged[class] + PRIOR_DRAFTS);
}

double draft_pace_model_acceptance(const struct draft_pace *pace)
{
    double judged = PRIOR_DRAFTS, accepted = PRIOR_DRAFTS * MODEL_PRIOR;
    for (uint32_t class = DRAFT_CLASS_MODEL; class < DRAFT_CLASSES; class ++) {
        judged += pace->judged[class];
        accepted += pace->accepted[class];
    }
    return accepted / judged;
}
