/* A report as one HTML file that opens offline: the template, style and scripts of html/ and d3,
 * built into the program, with the document (report_data.h) inserted. */
#ifndef PZ_REPORT_PAGE_H
#define PZ_REPORT_PAGE_H

#include "core/json.h"

/* The template of that name in html/ as HTML text (malloc'd, the caller's to free).  The document is written so that it cannot end the
 * element it stands in: '<', '>' and '&' are escaped, and all that is not ASCII. */
PZ_NODISCARD enum pz_status pz_page_text(const char *template, const json_t *document, char **text,
                                         size_t *bytes, struct pz_error *err);

/* The files of html/ and d3 by name; ends with a NULL name. */
struct pz_embedded {
  const char *name, *text;
};
extern const struct pz_embedded pz_embedded_html[];

#endif
