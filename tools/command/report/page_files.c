#include "report/page.h"

#include "files.h"

/* ---- Files ---- */

enum { MOST_FILES = 100 };

typedef struct file_list {
    char *names[MOST_FILES];
    size_t count, left_out;
} file_list;

static int visit_file(void *user, const char *name) {
    file_list *list = (file_list *)user;
    if (!strncmp(name, "checkpoint-", 11))
        return 0;
    if (list->count == MOST_FILES)
        list->left_out++;
    else
        list->names[list->count++] = command_copy(name);
    return 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_files(page *p, const char *directory) {
    static const char *const headings[] = {"File", "Size", "Changed"};
    const eitp_host host = command_host();
    file_list *list = (file_list *)command_allocate(sizeof *list);
    list->count = list->left_out = 0;
    host.files.list(host.files.user, directory, visit_file, list);
    if (list->count)
        qsort(list->names, list->count, sizeof *list->names, compare_names);
    page_open_table(p, directory, headings, COMMAND_COUNT(headings));
    for (size_t i = 0; i < list->count; i++) {
        char *path = files_join(directory, list->names[i]);
        const eitp_path_info info = files_info(path);
        page_begin_row(p, list->names[i]);
        if (info.kind == EITP_PATH_FILE)
            page_add_number(p, CHART_BYTES, (double)info.size, 4);
        else
            page_add_cell(p, info.kind == EITP_PATH_DIRECTORY ? "directory" : "-");
        page_add_time(p, 1e-9 * (double)info.modified);
        page_end_row(p);
        free(path);
        free(list->names[i]);
    }
    page_close_table(p);
    if (list->left_out)
        text_format(&p->text, "<p class=\"muted\">%zu more are not shown.</p>\n", list->left_out);
    free(list);
}

static void add_checkpoints(page *p, const recorded_run *r) {
    static const char *const headings[] = {"Checkpoint", "Step", "Saved", "State"};
    const recorded_checkpoint *last = recorded_last_checkpoint(r);
    if (!r->checkpoint_count) {
        text_format(&p->text, "<p>There is no checkpoint.</p>\n");
        return;
    }
    page_open_table(p, "Checkpoints", headings, COMMAND_COUNT(headings));
    for (size_t i = 0; i < r->checkpoint_count; i++) {
        const recorded_checkpoint *c = &r->checkpoints[i];
        text_format(&p->text, "<tr><th scope=\"row\">checkpoint-%lld%s%s</th>", (long long)c->step,
                    *c->suffix ? "." : "", c->suffix);
        page_add_number(p, CHART_STEPS, (double)c->step, 10);
        page_add_time(p, c->time);
        page_add_cell(p, *c->suffix ? c->suffix : c == last ? "the newest" : "whole");
        page_end_row(p);
    }
    page_close_table(p);
}

void page_add_files(page *p) {
    for (size_t i = 0; i < p->run_count; i++) {
        const recorded_run *r = p->runs[i].run;
        page_add_name(p, &p->runs[i]);
        add_checkpoints(p, r);
        add_files(p, r->directory);
        if (strcmp(r->records, r->directory))
            add_files(p, r->records);
    }
}

/* ---- Commands ---- */

/* Adds an argument quoted for a shell. */
static void add_argument(page *p, const char *text, size_t size) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
    int is_plain = size > 0;
    for (size_t i = 0; i < size; i++)
        is_plain &= text[i] && strchr(plain, text[i]) != NULL;
    if (is_plain) {
        markup_add(&p->text, text, size);
        return;
    }
    markup_text(&p->text, "'");
    for (size_t i = 0, end; i < size; i = end + 1) {
        for (end = i; end < size && text[end] != '\''; end++)
            ;
        markup_add(&p->text, text + i, end - i);
        if (end < size)
            markup_text(&p->text, "'\\''");
    }
    markup_text(&p->text, "'");
}

static void add_reproduce(page *p, const eitp_json *command) {
    text_format(&p->text, "<p>The command that started the run:</p>\n<pre>");
    for (const eitp_json *argument = recorded_items(command); argument; argument = argument->next) {
        text_format(&p->text, argument == recorded_items(command) ? "" : " ");
        if (argument->kind == EITP_JSON_STRING)
            add_argument(p, argument->text, argument->text_size);
    }
    text_format(&p->text, "</pre>\n");
}

static void add_resume(page *p, const recorded_run *r) {
    const recorded_checkpoint *saved = recorded_last_checkpoint(r);
    if (!saved) {
        text_format(&p->text, "<p>There is no checkpoint to resume from.</p>\n");
        return;
    }
    text_format(&p->text, "<p>%s after step %lld:</p>\n<pre>eitp train --resume auto --output-dir ",
                r->last_step > 0 && saved->step >= r->last_step ? "All steps are done; this command adds more"
                                                                : "This command resumes",
                (long long)saved->step);
    add_argument(p, r->directory, strlen(r->directory));
    if (r->last_step > 0 && saved->step >= r->last_step)
        text_format(&p->text, " --steps %lld", (long long)r->last_step * 2);
    text_format(&p->text, "</pre>\n");
}

void page_add_commands(page *p) {
    for (size_t i = 0; i < p->run_count; i++) {
        const recorded_run *r = p->runs[i].run;
        const eitp_json *command = recorded_at(r->run, "command");
        page_add_name(p, &p->runs[i]);
        add_resume(p, r);
        if (recorded_items(command))
            add_reproduce(p, command);
    }
}
