/* The data of a page, for programs. */
#ifndef COMMAND_REPORT_EXPORT_H
#define COMMAND_REPORT_EXPORT_H

#include "report/page.h"

EITP_BEGIN_DECLARATIONS

/* Adds one JSON object: runs with their state, curves, evaluations, events, configuration. */
void export_json(const page *p, text_buffer *t);

/* Adds a table: key, step, mean, minimum, maximum, count; with several runs, the first column is the directory. */
void export_csv(const page *p, text_buffer *t);

EITP_END_DECLARATIONS

#endif
