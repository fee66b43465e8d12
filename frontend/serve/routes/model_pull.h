/*
 * Ollama's POST /api/pull: downloads a model from the hub of --endpoint into --models-dir, in the layout of Hugging Face's cache
 * (models/model_repository.h), and lists it.
 *
 *   NONE --request--> RUNNING --its process ends--> NONE
 *                        |                            ^
 *                        +--the client leaves--> ENDING (killed)
 *
 * A process of its own, `shoal pull --json`, downloads one model at a time; the loop only reads its lines.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_MODEL_PULL_H
#define SHOAL_FRONTEND_SERVE_ROUTES_MODEL_PULL_H

struct event_base;
struct model_pulls;
struct options;

struct model_pulls *model_pulls_create(struct event_base *base, const struct options *options);
/* Ends the download; its client gets an error. What it has downloaded is continued by the next one. */
void model_pulls_end(struct model_pulls *pulls);
/* Waits until the killed process is gone. NULL is allowed. */
void model_pulls_destroy(struct model_pulls *pulls);

#endif
