/*
 * Replaces models whose files or settings changed.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_RELOAD_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_RELOAD_H

struct model;
struct model_set;

/* Reads the directory and shoal.ini again, or resolves --model again: new models are added, removed ones
 * and those whose files or settings differ are replaced once the new instance is ready; requests in
 * progress end on the old one. Whatever is wrong is logged, and what it concerns stays as it was. */
void model_set_reload(struct model_set *set);

/* The rest is private to models/. */

/* Begins to look for changed files, if the options say so. */
void model_reload_start(struct model_set *set);
/* What is next of the replacement of this model; from on_work() of model_set.c. */
void model_reload_step(struct model *model);

#endif
