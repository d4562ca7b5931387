/* The schedule as an integer program, in the manner of the original system: a model that anyone can read, solved by CBC,
 * and written to a file so that any other solver can confirm the result.
 *
 *     minimise C
 *     s_i, C >= 0       start of task i, end of all
 *     x_im in {0, 1}    task i runs in mode m; one for each i
 *     y_ij in {0, 1}    task i ends before task j starts; for pairs that no precedence orders
 *     s_i + d_i <= C    with d_i the sum over m of x_im times the mode's duration
 *     s_i + d_i <= s_j  where i precedes j
 *     s_i + d_i <= s_j + M_ij (1 - y_ij)
 *     y_ij + y_ji <= 1,   y_ij + y_jk - 1 <= y_ik
 *     y_ij + y_ji >= x_im + sum x_jm' - 1    over modes m' that do not fit beside mode m
 *     sum of use x d <= capacity C           for every resource: implied, but it helps
 * Where more than two tasks can overfill a resource, cores are handed on:
 *     f_ij >= 0         cores that j takes over from i, only if i ends before j starts
 *     A task receives from others and from the beginning what its mode uses, and hands on no more than that.  The
 *     beginning hands on the capacity.
 * These rows are added only for resources that a solution without them overfills. */
#ifndef PZ_SCHEDULE_ILP_ILP_H
#define PZ_SCHEDULE_ILP_ILP_H

#include "schedule/model/problem.h"
#include "schedule/options.h"

enum { PZ_ILP_MOST_TASKS = 128 };

struct pz_context;

/* The build for browsers, which has no CBC, replaces the following two functions. */

/* Solves the problem of the context, which belongs to the call, by CBC.  Returns why the gap is
 * left open. */
enum pz_stop pz_ilp_search(struct pz_call *call, struct pz_context *context,
                           const struct pz_solve_options *options);

/* Writes the whole model as an .lp or .mps file.  Integer times are written as they are, others
 * in millionths (microseconds for seconds). */
void pz_ilp_write(struct pz_call *call, const struct pz_problem *problem, const char *path);

#endif
