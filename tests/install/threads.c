/* Two searches at once in two threads, through the installed library: they do not meet.  Each gives
 * what it gives alone. */
#include <phaze/phaze.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct job {
  const char *model;
  struct pz_run *run;
  struct pz_error err;
  enum pz_status status;
  int reports;
};

static bool progress(void *ctx, const struct pz_progress_state *s) {
  struct job *j = ctx;
  (void)s;
  j->reports++;
  return true;
}

static void *search(void *ctx) {
  struct job *j = ctx;
  struct pz_study_options study = pz_study_options_default();
  struct pz_run_options options = pz_run_options_default();
  study.models[0] = j->model;
  study.n_models = 1;
  study.budget = "8";
  study.devices = 16;
  study.batch = 64;
  study.workload.seq = 64;
  study.steps = 300;
  options.threads = 2;
  options.progress = progress;
  options.ctx = j;
  j->status = pz_run_open(&study, &options, &j->run, &j->err);
  if (j->status == PZ_OK) j->status = pz_run_search(j->run, &j->err);
  return NULL;
}

static bool same(const struct job *a, const struct job *b) {
  const struct pz_result *x = pz_run_result(a->run), *y = pz_run_result(b->run);
  const struct pz_answer *p = &x->answers[0], *q = &y->answers[0];
  return a->reports > 0 && b->reports > 0 &&
         strcmp(pz_chip_name(p->chip), pz_chip_name(q->chip)) == 0 &&
         p->objective == q->objective && p->certificate.n_evaluated == q->certificate.n_evaluated &&
         p->models[0].plan->step_s == q->models[0].plan->step_s;
}

int main(void) {
  struct job alone[2] = {{.model = "gpt2"}, {.model = "bert-base"}}, both[2];
  pthread_t thread[2];
  memcpy(both, alone, sizeof both);
  for (int i = 0; i < 2; i++) search(&alone[i]);
  for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, search, &both[i]);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  int wrong = 0;
  for (int i = 0; i < 2; i++) {
    if (alone[i].status != PZ_OK || both[i].status != PZ_OK) {
      printf("%s: %s%s\n", alone[i].model, alone[i].err.message, both[i].err.message);
      wrong++;
    } else if (!same(&alone[i], &both[i])) {
      printf("%s: another answer beside another search\n", alone[i].model);
      wrong++;
    } else {
      printf("%s: %s\n", alone[i].model, pz_chip_name(pz_run_result(both[i].run)->answers[0].chip));
    }
    pz_run_close(alone[i].run);
    pz_run_close(both[i].run);
  }
  return wrong ? 1 : 0;
}
