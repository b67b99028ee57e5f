/* The page of eitp report: one HTML file with charts, without scripts or external resources. */
#ifndef COMMAND_REPORT_PAGE_H
#define COMMAND_REPORT_PAGE_H

#include "report/curves.h"
#include "report/details.h"
#include "report/markup.h"

EITP_BEGIN_DECLARATIONS

#define PAGE_RUNS 16 /* largest number of runs on a page */

/* A run, with the additional data that the page needs. */
typedef struct page_run {
    recorded_run *run;
    axis_totals places;
    run_details details;
} page_run;

typedef struct page {
    recorded_run *records; /* [run_count], as for comparisons */
    page_run *runs;        /* of each of them */
    size_t run_count;
    curve_x x;          /* axis of the charts shown at first */
    int is_logarithmic; /* the same for the loss axis */
    double smoothing;   /* weight of earlier values; negative: chosen from the number of points */
    int64_t every;      /* one point per this many steps; 0: as recorded */
    text_buffer text;   /* of the page */
    size_t chart_count; /* numbers the pictures */
} page;

/* Writes the whole page to page->text. */
void page_write(page *p);

/* ---- Sections: each adds its content to page->text, or nothing ---- */

void page_add_head(page *p); /* page_head.c */
void page_add_loss(page *p); /* page_curves.c */
void page_add_terms(page *p);
void page_add_comparison(page *p); /* page_analysis.c */
void page_add_metrics(page *p);    /* page_classes.c */
void page_add_optimization(page *p);
void page_add_health(page *p); /* page_health.c */
void page_add_speed(page *p);
void page_add_limits(page *p); /* page_analysis.c */
void page_add_memory(page *p);
void page_add_gpu(page *p);
void page_add_layers(page *p);   /* page_layers.c */
void page_add_samples(page *p);  /* page_samples.c */
void page_add_settings(page *p); /* page_settings.c */
void page_add_machine(page *p);
void page_add_files(page *p); /* page_files.c */
void page_add_commands(page *p);

/* Adds curves of evaluation metrics. */
void page_add_metric_figures(page *p);

/* ---- For sections ---- */

/* Adds a level 3 heading with the name of a run, if there are several. */
void page_add_name(page *p, const page_run *r);

/* A table: page_open_table with its headings (the first is for row headings), rows of cells, page_close_table. */
void page_open_table(page *p, const char *caption, const char *const *headings, size_t count);
void page_close_table(page *p);
void page_begin_row(page *p, const char *heading); /* NULL: no row heading */
void page_add_cell(page *p, const char *text);
void page_add_number(page *p, chart_format format, double value, int digits);
void page_add_time(page *p, double seconds); /* since 1970; 0: unknown */
void page_end_row(page *p);

/* "2026-11-26 03:22:34 UTC". */
chart_value page_time(double seconds);

/* Adds a value of a file in about `most` bytes: lists with commas; sizes for names that end in _bytes. */
void page_add_json(page *p, const eitp_json *value, size_t most);

/* Adds the name of a member in words, without the unit of a size: "usable_bytes" as "usable". */
void page_add_words(page *p, const char *name);

/* Returns a new id for a chart, valid until the next call. */
const char *page_chart_id(page *p);

EITP_END_DECLARATIONS

#endif
