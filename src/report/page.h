/* A report as one HTML file that opens offline: the template, style and scripts of html/ and d3,
 * which are built into the program, with the document (report_data.h) inserted. */
#ifndef PZ_REPORT_PAGE_H
#define PZ_REPORT_PAGE_H

#include "core/json.h"

/* Returns the template of that name in html/ as an HTML page with the document inserted, in which
 * <, >, & and everything outside ASCII are escaped. */
struct pz_buffer *pz_page_html(struct pz_call *call, const char *template, const json_t *document);

/* The files of html/ and d3 by name; the last one has a NULL name. */
struct pz_embedded {
  const char *name, *text;
};
extern const struct pz_embedded pz_embedded_html[];

#endif
