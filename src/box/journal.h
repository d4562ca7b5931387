/* The journal of a search over boxes: what every round found, appended when it ends, so that an interrupted search goes on
 * where it stood and ends with the same bytes.  A round is a text of lines with a digest behind it, which also depends on
 * the rounds before; what follows the last whole round of a file is dropped. */
#ifndef PZ_BOX_JOURNAL_H
#define PZ_BOX_JOURNAL_H

#include "box/box.h"

struct pz_journal;

/* What was found of one box: an entry. */
enum pz_entry_kind { PZ_ENTRY_CLOSED, PZ_ENTRY_OPEN, PZ_ENTRY_CHIP, PZ_ENTRY_PRICED };

struct pz_entry {
  enum pz_entry_kind kind;
  struct pz_box box;
  enum pz_box_end end; /* closed */
  double value;        /* a bound, a chip's value, or how many boxes were priced */
};

/* In the file `path`, made where there is none; `inputs`: a text of all that the search depends on, PZ_BAD_USE where the
 * file is of other inputs. */
PZ_NODISCARD enum pz_status pz_journal_open(const char *path, const char *inputs,
                                            struct pz_journal **out, struct pz_error *err);
void pz_journal_close(struct pz_journal *j); /* accepts NULL */

/* The next entry of a round of the file.  *more: false at its end.  pz_journal_has says whether there is a round to read. */
bool pz_journal_has(const struct pz_journal *j);
PZ_NODISCARD enum pz_status pz_journal_next(struct pz_journal *j, struct pz_entry *out, bool *more,
                                            struct pz_error *err);

/* Add an entry to the round at hand; end it and put it into the file. */
PZ_NODISCARD enum pz_status pz_journal_add(struct pz_journal *j, const struct pz_entry *e,
                                           struct pz_error *err);
PZ_NODISCARD enum pz_status pz_journal_end_round(struct pz_journal *j, struct pz_error *err);

#endif
