/* Problems in the original system's JSON formats: a schedule of operators, by branch and bound and by the integer
 * program, with its timeline; and a placement, beside the expert plan in it.
 *
 *     cc examples/instances.c $(pkg-config --cflags --libs phaze) -o instances
 *     ./instances tests/data/schedule/I_n8_tc3_vc1.json tests/data/place/chain.json
 */
#include <phaze/phaze.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 16 << 20 };

static char *read_file(const char *path, size_t *bytes) {
  FILE *in = fopen(path, "rb");
  char *text = in ? malloc(MOST_BYTES) : NULL;
  *bytes = text ? fread(text, 1, MOST_BYTES, in) : 0;
  if (in) fclose(in);
  return text;
}

static enum pz_status schedule(const char *path, enum pz_solver solver, struct pz_error *err) {
  struct pz_schedule_options o = pz_schedule_options_default();
  struct pz_layer_schedule *s = NULL;
  size_t bytes;
  char *text = read_file(path, &bytes), *trace = NULL;
  o.solver = solver;
  enum pz_status status = pz_schedule_instance(path, text, bytes, &o, &s, err);
  if (status == PZ_OK)
    status = pz_schedule_trace((const struct pz_layer_schedule *const[]){s}, 1, &trace, err);
  if (status == PZ_OK)
    printf("%s: makespan %g, %s; a timeline of %zu bytes\n", pz_solver_names[solver], s->makespan_s,
           s->optimal ? "proven optimal" : "not proven optimal", strlen(trace));
  pz_text_free(trace);
  pz_layer_schedule_free(s);
  free(text);
  return status;
}

static enum pz_status place(const char *path, struct pz_error *err) {
  struct pz_instance_options o = pz_instance_options_default();
  struct pz_instance_plan *p = NULL;
  size_t bytes;
  char *text = read_file(path, &bytes);
  o.check = true;
  enum pz_status status = pz_partition_instance(path, text, bytes, &o, &p, err);
  if (status == PZ_OK)
    printf("placed: %g s per batch, %u stages x %lld replicas; expert plan: %g s%s%s\n", p->step_s,
           p->n_stages, (long long)p->dp, p->expert_s, p->expert ? ", " : "",
           p->expert ? p->expert : "");
  pz_instance_plan_free(p);
  free(text);
  return status;
}

int main(int argc, char **argv) {
  struct pz_error err = {0};
  if (argc < 3) return fprintf(stderr, "usage: instances SCHEDULE.json PLACE.json\n"), 2;
  enum pz_status status = schedule(argv[1], PZ_SOLVER_EXACT, &err);
  if (status == PZ_OK) status = schedule(argv[1], PZ_SOLVER_ILP, &err);
  if (status == PZ_OK) status = place(argv[2], &err);
  if (status == PZ_OK) return 0;
  fprintf(stderr, "%s\n", err.message);
  return status == PZ_NO_ANSWER ? 1 : 2;
}
