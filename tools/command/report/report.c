/* eitp report */
#include "files.h"
#include "options/options.h"
#include "output.h"
#include "report/bottleneck.h"
#include "report/comparison.h"
#include "report/export.h"
#include "report/slowdown.h"
#include "result_file.h"

/* ---- Reading ---- */

static eitp_status read_run(const char *directory, page_run *r, eitp_error *error) {
    eitp_status status = recorded_run_open(directory, r->run, error);
    if (!status)
        status = run_details_read(r->run, &r->details, &r->run->missing, error);
    if (!status)
        axis_totals_read(r->run, &r->places);
    return status;
}

static void release_page(page *p) {
    for (size_t i = 0; i < p->run_count; i++) {
        axis_totals_release(&p->runs[i].places);
        run_details_release(&p->runs[i].details);
        recorded_run_close(p->runs[i].run);
    }
    free(p->runs);
    free(p->records);
    text_release(&p->text);
}

/* Returns the directory of a run: positional arguments first, then those of --compare. */
static const char *directory_of(const option_set *o, size_t index) {
    return index < o->positional_count ? o->positional[index]
                                       : o->values[OPTION_COMPARE].texts[index - o->positional_count];
}

static eitp_status count_runs(const option_set *o, size_t *count, eitp_error *error) {
    *count = o->positional_count + (options_has(o, OPTION_COMPARE) ? o->values[OPTION_COMPARE].count : 0);
    if (options_has(o, OPTION_COMPARE) && *count < 2)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--compare requires the directories of at least two runs (got %zu)", *count);
    if (!*count)
        return command_fail(error, EITP_ERROR_ARGUMENT, "eitp report requires the directory of a run");
    if (*count > PAGE_RUNS)
        return command_fail(error, EITP_ERROR_ARGUMENT, "%zu runs exceed the limit of %d on a page", *count, PAGE_RUNS);
    return EITP_OK;
}

static eitp_status read_page(const option_set *o, page *p, eitp_error *error) {
    size_t count;
    eitp_status status = count_runs(o, &count, error);
    if (status)
        return status;
    p->x = (curve_x)options_choice(o, OPTION_X);
    p->is_logarithmic = options_integer(o, OPTION_LOG_SCALE) != 0;
    p->smoothing = options_has(o, OPTION_SMOOTHING) ? options_number(o, OPTION_SMOOTHING) : -1;
    p->every = options_has(o, OPTION_PLOT_EVERY) ? options_integer(o, OPTION_PLOT_EVERY) : 0;
    p->records = (recorded_run *)command_allocate(count * sizeof *p->records);
    memset(p->records, 0, count * sizeof *p->records);
    p->runs = (page_run *)command_allocate(count * sizeof *p->runs);
    memset(p->runs, 0, count * sizeof *p->runs);
    for (size_t i = 0; i < count && !status; i++) {
        p->runs[i].run = &p->records[i];
        p->run_count = i + 1;
        status = read_run(directory_of(o, i), &p->runs[i], error);
    }
    return status;
}

/* ---- Writing ---- */

/* Prints the path as the result, and logs a description with the command to open it. */
static void say_written(const page *p, const char *path) {
    text_buffer word = {NULL, 0, 0};
    char *line = command_format("%s\n", path);
    output_result(line, strlen(line));
    free(line);
    text_add_shell_word(&word, path);
    if (files_info(path).kind == EITP_PATH_FILE)
        output_info("wrote a self-contained page of %s: open it in a browser, for example with xdg-open %s",
                    output_bytes((double)p->text.size), word.data);
    text_release(&word);
}

static eitp_status write_page(const option_set *o, page *p, eitp_error *error) {
    const char *output = options_text(o, OPTION_OUTPUT);
    char *path = output ? command_copy(output) : files_join(p->runs[0].run->directory, "report.html");
    int is_output = 0;
    eitp_status status;
    page_write(p);
    status = output ? result_file_write(path, p->text.data, p->text.size, &is_output, error)
                    : files_replace(path, p->text.data, p->text.size, error);
    if (!status && !is_output)
        say_written(p, path);
    free(path);
    return status;
}

/* Writes results other than a page to the file of --output or to standard output. */
static eitp_status write_text(const option_set *o, const page *p, eitp_error *error) {
    const char *output = options_text(o, OPTION_OUTPUT);
    eitp_status status;
    if (!output) {
        output_result(p->text.data, p->text.size);
        return EITP_OK;
    }
    status = result_file_write(output, p->text.data, p->text.size, NULL, error);
    if (!status && files_info(output).kind == EITP_PATH_FILE)
        output_info("wrote %s to %s", output_bytes((double)p->text.size), output);
    return status;
}

static void analyse_run(const option_set *o, const recorded_run *r, text_buffer *t) {
    const int is_json = options_integer(o, OPTION_JSON) != 0;
    if (options_integer(o, OPTION_BOTTLENECK)) {
        bottleneck b;
        bottleneck_make(r, &b);
        (is_json ? bottleneck_print_json : bottleneck_print)(&b, t);
    } else {
        slowdown s;
        slowdown_make(r, &s);
        (is_json ? slowdown_print_json : slowdown_print)(&s, t);
    }
    if (is_json)
        text_format(t, "\n");
}

static void compare_runs(const option_set *o, page *p) {
    comparison c;
    comparison_make(p->records, p->run_count, &c);
    (options_integer(o, OPTION_JSON) ? comparison_print_json : comparison_print)(&c, &p->text);
    if (options_integer(o, OPTION_JSON))
        text_format(&p->text, "\n");
    comparison_release(&c);
}

/* --compare prints; with --output it writes a page. */
static eitp_status write_report(const option_set *o, page *p, eitp_error *error) {
    if (options_integer(o, OPTION_BOTTLENECK) || options_integer(o, OPTION_TREND)) {
        for (size_t i = 0; i < p->run_count; i++)
            analyse_run(o, &p->records[i], &p->text);
    } else if (options_has(o, OPTION_COMPARE) && (options_integer(o, OPTION_JSON) || !options_has(o, OPTION_OUTPUT))) {
        compare_runs(o, p);
    } else if (options_integer(o, OPTION_JSON)) {
        export_json(p, &p->text);
    } else if (options_integer(o, OPTION_CSV)) {
        export_csv(p, &p->text);
    } else {
        return write_page(o, p, error);
    }
    return write_text(o, p, error);
}

static eitp_status report(const option_set *o, eitp_error *error) {
    page p;
    eitp_status status = EITP_OK;
    if (options_integer(o, OPTION_JSON) && options_integer(o, OPTION_CSV))
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--json and --csv exclude each other");
    memset(&p, 0, sizeof p);
    if (!status)
        status = read_page(o, &p, error);
    if (!status)
        status = write_report(o, &p, error);
    if (!status)
        output_start();
    release_page(&p);
    return status;
}

int command_report(int count, char **arguments) {
    option_set o;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status = options_read(&o, "report", OPTIONS_REPORT, count, arguments, &ended, &error);
    if (!status && !ended)
        status = report(&o, &error);
    if (status)
        code = output_fail(&error);
    options_release(&o);
    return code;
}
