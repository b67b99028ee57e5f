#include "monitor/panels.h"

#include "monitor/curve.h"

#include <time.h>

/* ---- Parts ---- */

static area make_area(int row, int column, int rows, int columns) {
    area made;
    made.row = row;
    made.column = column;
    made.rows = rows;
    made.columns = columns;
    return made;
}

/* Draws a line with a title. Returns the column after the title. */
static int draw_rule(screen *s, int row, int column, int end, const char *title) {
    for (int i = column; i < end; i++)
        screen_put_symbol(s, row, i, STYLE_FAINT, SYMBOL_LINE);
    if (!*title)
        return column;
    screen_put(s, row, column + 2, column + 3, STYLE_PLAIN, " ");
    column = screen_put(s, row, column + 3, end, STYLE_BOLD, title);
    return screen_put(s, row, column, end, STYLE_PLAIN, " ");
}

/* Draws a bar filled to `part`, 0 to 1. */
static void draw_bar(screen *s, int row, int column, int end, double part, int style) {
    const int whole = 8 * (end - column);
    const int filled = part > 0 ? (int)((part < 1 ? part : 1) * whole + 0.5) : 0;
    for (int i = column; i < end; i++) {
        const int eighths = filled - 8 * (i - column);
        screen_put_symbol(s, row, i, STYLE_FAINT, SYMBOL_BAR_EMPTY);
        screen_fill_right(s, row, i, style, eighths > 8 ? 8 : eighths);
    }
}

static int state_style(const watched_run *w) {
    static const struct {
        const char *state;
        int style;
    } styles[] = {{"running", STYLE_GREEN},        {"finished", STYLE_GREEN},          {"early_stop", STYLE_GREEN},
                  {"starting", STYLE_CYAN},        {"paused", STYLE_YELLOW},           {"stopped", STYLE_YELLOW},
                  {"unknown", STYLE_YELLOW},       {"on another machine", STYLE_CYAN}, {"end_of_data", STYLE_GREEN},
                  {"killed or crashed", STYLE_RED}};
    const char *state = facts_text(&w->facts, "state");
    for (size_t i = 0; i < COMMAND_COUNT(styles); i++) {
        if (!strcmp(styles[i].state, state))
            return styles[i].style;
    }
    return STYLE_RED;
}

/* ---- A run ---- */

static void draw_title(screen *s, int row, const watched_runs *l, const watched_run *w) {
    const time_t now = (time_t)l->machine.time;
    struct tm local;
    char clock[32], right[200];
    int end, column;
    localtime_r(&now, &local);
    strftime(clock, sizeof clock, "%H:%M:%S", &local);
    for (int i = 0; i < s->columns; i++)
        screen_put(s, row, i, i + 1, STYLE_REVERSE, " ");
    snprintf(right, sizeof right, "%s  %s ", facts_text(&w->facts, "state"), clock);
    end = screen_put_right(s, row, s->columns / 3, s->columns, STYLE_REVERSE | STYLE_BOLD, right);
    column = screen_put(s, row, 1, end - 2, STYLE_REVERSE | STYLE_BOLD, facts_text(&w->facts, "name"));
    if (column + 8 < end)
        screen_put(s, row, column + 2, end - 2, STYLE_REVERSE, w->run.directory);
}

/* Writes "1 h 9 min (59 min to 1 h 14 min) left", or without the range, or the state of a run that has ended. */
static void describe_left(const watched_run *w, int is_short, char *text, size_t size) {
    const fact *left = facts_find(&w->facts, "left_s");
    const int whole = left ? (int)strlen(left->text) : 0;
    const int cut = left && is_short ? (int)strcspn(left->text, "(") - 1 : whole;
    if (left)
        snprintf(text, size, "%.*s left", cut < 0 ? whole : cut, left->text);
    else
        snprintf(text, size, "%s", facts_text(&w->facts, "state"));
}

static void draw_progress(screen *s, int row, const watched_run *w) {
    enum { BAR = 10, PERCENT = 7 }; /* columns: least for a bar, with space around it, and for "100 %" */
    const double step = facts_number(&w->facts, "step"), steps = facts_number(&w->facts, "steps");
    const int lives = facts_find(&w->facts, "left_s") != NULL;
    char text[200];
    int column, end;
    if (!recorded_has_started(&w->run)) {
        screen_put(s, row, 1, s->columns - 1, state_style(w), facts_text(&w->facts, "state"));
        return;
    }
    snprintf(text, sizeof text, "step %s", facts_text(&w->facts, "step"));
    column = screen_put(s, row, 1, s->columns - 1, STYLE_BOLD, text) + 2;
    describe_left(w, 0, text, sizeof text);
    if (column + BAR + PERCENT + screen_columns(s, text) > s->columns)
        describe_left(w, 1, text, sizeof text);
    end = screen_put_right(s, row, column, s->columns - 1, lives ? STYLE_PLAIN : state_style(w) | STYLE_BOLD, text);
    if (!(steps > 0))
        return;
    snprintf(text, sizeof text, "%.0f %%", 100 * step / steps);
    end = screen_put_right(s, row, column, end - 2, STYLE_PLAIN, text);
    if (end - 1 - column > 3)
        draw_bar(s, row, column, end - 1, step / steps, STYLE_GREEN);
}

/* Draws the checkpoint and the cost of a crash, or, for a run that has ended, the reason and a line with the next
   command. Returns the row after them. */
static int draw_safety(screen *s, int row, const watched_run *w) {
    const fact *unsaved = facts_find(&w->facts, "unsaved_s"), *reason = facts_find(&w->facts, "reason");
    const fact *next = facts_find(&w->facts, "continue");
    const int is_saved = facts_find(&w->facts, "checkpoint_step") != NULL;
    char text[1700];
    int column = 1;
    if (recorded_has_started(&w->run)) {
        snprintf(text, sizeof text, "%s%s", is_saved ? "" : "checkpoint: ", facts_text(&w->facts, "checkpoint"));
        column = 2 + screen_put(s, row, column, s->columns - 1, STYLE_PLAIN, text);
    }
    if (unsaved)
        snprintf(text, sizeof text, "a crash now would cost %s", unsaved->text);
    if (unsaved || reason)
        screen_put_right(s, row, column, s->columns - 1, unsaved ? STYLE_PLAIN : STYLE_YELLOW,
                         unsaved ? text : reason->text);
    if (!next)
        return row + 1;
    snprintf(text, sizeof text, "continue with: %s", next->text);
    screen_put(s, row + 1, 1, s->columns - 1, STYLE_BOLD, text);
    return row + 2;
}

/* ---- Facts in columns ---- */

enum {
    LABEL = 14, /* columns for the names of facts, with the warning sign */
    KEYS = 5
};

typedef struct fact_row {
    const char *label, *keys[KEYS]; /* the first available key is used */
    const char *more; /* key of another row that is joined to this one if there are too few rows; NULL: none */
    int is_optional;  /* only shown if known */
} fact_row;

static const fact_row training_rows[] = {
    {"loss", {"loss"}, NULL, 0},
    {"validation", {"validation_loss"}, NULL, 0},
    {"best", {"best_validation_loss"}, NULL, 0},
    {"gradient norm", {"grad_norm"}, NULL, 0},
    {"learning rate", {"lr"}, NULL, 0},
    {NULL, {"tokens_per_s", "words_per_s", "samples_per_s", "texts_per_s", "masked_tokens_per_s"}, "mfu", 0},
    {"step time", {"step_time_s"}, NULL, 0},
    {"mfu", {"mfu"}, NULL, 0},
};

static const fact_row machine_rows[] = {
    {"memory", {"resident_bytes"}, NULL, 0},
    {"planned", {"planned_bytes"}, NULL, 0},
    {"GPU memory", {"gpu_process_bytes", "gpu_used_bytes"}, "gpu_power_watts", 1},
    {"GPU", {"gpu_temperature_celsius"}, "gpu_percent", 1},
    {"memory left", {"left_bytes"}, NULL, 0},
    {"pressure", {"memory_pressure_percent"}, "load", 0},
    {"temperature", {"temperature_celsius"}, NULL, 0},
    {"disk free", {"disk_free_bytes"}, NULL, 0},
    {"load", {"load"}, NULL, 0},
    {"memory used", {"memory_used_percent"}, NULL, 0},
    {"files", {"directory_bytes"}, NULL, 0},
    {"power", {"power_watts"}, NULL, 0},
};

static const fact *first_fact(const facts *f, const fact_row *row) {
    const fact *found = NULL;
    for (size_t i = 0; i < KEYS && row->keys[i] && !found; i++)
        found = facts_find(f, row->keys[i]);
    return found;
}

/* Draws "2.9003 at step 60", or "2.9003 at 60" if there is no room. Returns the column after it. */
static int draw_value(screen *s, int row, int column, int end, int style, const char *text) {
    const char *step = strstr(text, " step ");
    char *shorter;
    if (screen_columns(s, text) <= end - column || !step)
        return screen_put(s, row, column, end, style, text);
    shorter = command_format("%.*s%s", (int)(step - text), text, step + 5);
    column = screen_put(s, row, column, end, style, shorter);
    free(shorter);
    return column;
}

/* Draws another fact after one if there is room. */
static void draw_more(screen *s, int row, int column, int end, const fact *more) {
    char *text = command_format(", %s %s", more->label, more->text);
    if (screen_columns(s, text) <= end - column)
        screen_put(s, row, column, end, STYLE_PLAIN, text);
    free(text);
}

static void draw_fact(screen *s, area at, const facts *f, const fact_row *shown, int has_room) {
    const int end = at.column + at.columns;
    const fact *found = first_fact(f, shown), *more = shown->more ? facts_find(f, shown->more) : NULL;
    const char *label = shown->label ? shown->label : found ? found->label : "rate";
    const int style = found && found->is_warning ? STYLE_BOLD | STYLE_RED : STYLE_PLAIN;
    int column;
    screen_put(s, at.row, at.column, at.column + LABEL - 1, STYLE_FAINT, label);
    column = draw_value(s, at.row, at.column + LABEL, end, style, found ? found->text : "-");
    if (found && more && !has_room)
        draw_more(s, at.row, column, end, more);
    if (found && found->is_warning)
        screen_put(s, at.row, at.column + LABEL - 1, at.column + LABEL, style, "!");
}

static int is_left_out(const facts *f, const fact_row *row) {
    return row->is_optional && !first_fact(f, row);
}

static void draw_facts(screen *s, area at, const facts *f, const fact_row *rows, size_t count) {
    const int end = at.row + at.rows;
    int shown = 0;
    for (size_t i = 0; i < count; i++)
        shown += !is_left_out(f, &rows[i]);
    for (size_t i = 0; i < count && at.row < end; i++) {
        if (is_left_out(f, &rows[i]))
            continue;
        draw_fact(s, at, f, &rows[i], at.rows >= shown);
        at.row++;
    }
}

/* Draws the memory of the process relative to its limit, with a bar if there is room. */
static void draw_memory(screen *s, area at, const facts *f) {
    const double resident = facts_number(f, "resident_bytes"), limit = facts_number(f, "limit_bytes");
    const int column = at.column + LABEL, end = at.column + at.columns;
    char text[200];
    int after;
    if (!(resident > 0) || !(limit > 0))
        return;
    snprintf(text, sizeof text, "%s of %s", facts_text(f, "resident_bytes"), facts_text(f, "limit_bytes"));
    if (screen_columns(s, text) > end - column)
        return;
    after = screen_put(s, at.row, column, end, STYLE_PLAIN, text) + 1;
    if (end - after > 4)
        draw_bar(s, at.row, after, end, resident / limit, STYLE_CYAN);
}

/* ---- Events ---- */

static int is_shown(const recorded_event *event) {
    return strcmp(event->level, "debug") && *event->message;
}

static int draw_event(screen *s, int row, const recorded_event *event) {
    const int is_error = !strcmp(event->level, "error"), is_warning = !strcmp(event->level, "warning");
    const time_t time = (time_t)event->time;
    struct tm local;
    char text[32] = "        ";
    int column;
    if (event->time > 0 && event->time < 1e11 && localtime_r(&time, &local))
        strftime(text, sizeof text, "%H:%M:%S", &local);
    column = screen_put(s, row, 1, s->columns - 1, STYLE_FAINT, text) + 1;
    screen_put(s, row, column, column + 1, STYLE_BOLD | (is_error ? STYLE_RED : STYLE_YELLOW),
               is_error     ? "x"
               : is_warning ? "!"
                            : " ");
    screen_put(s, row, column + 2, s->columns - 1, is_error || is_warning ? STYLE_PLAIN : STYLE_FAINT, event->message);
    return row + 1;
}

/* Draws at most `most` of `lines`. */
static int draw_lines(screen *s, int row, int end, const char *lines, const char *mark, int style) {
    while (lines && *lines && row < end) {
        const size_t size = strcspn(lines, "\n");
        char *line = command_format("%.*s", (int)size, lines);
        screen_put(s, row, 10, 11, style | STYLE_BOLD, mark);
        screen_put(s, row++, 12, s->columns - 1, style, line);
        free(line);
        lines += size + (lines[size] == '\n');
    }
    return row;
}

/* Draws the monitor's warnings, the newest events, and missing files. */
static void draw_events(screen *s, int row, int end, const watched_run *w) {
    const recorded_run *r = &w->run;
    row = draw_lines(s, row, end, w->facts.warnings.data, "!", STYLE_RED);
    for (size_t i = r->event_count; i > 0 && row < end; i--) {
        if (is_shown(&r->events[i - 1]))
            row = draw_event(s, row, &r->events[i - 1]);
    }
    draw_lines(s, row, end, w->facts.missing.data, "?", STYLE_FAINT);
}

/* ---- The selected run ---- */

static void draw_title_of_curve(screen *s, area at, const watched_run *w) {
    char text[200];
    const fact *best = facts_find(&w->facts, "best_validation_loss");
    int column = draw_rule(s, at.row, at.column, at.column + at.columns, "Loss");
    snprintf(text, sizeof text, " %s ", facts_text(&w->facts, "loss"));
    column = screen_put(s, at.row, column + 1, at.column + at.columns, STYLE_CYAN | STYLE_BOLD, text);
    if (best) {
        snprintf(text, sizeof text, " o validation, best %s ", best->text);
        screen_put_right(s, at.row, column, at.column + at.columns - 1, STYLE_PLAIN, text);
    }
}

/* Draws the loss; on a wide screen, also the gradient norm above the learning rate on the right. */
static void draw_curves(screen *s, area at, const watched_run *w) {
    area left = at, right = at;
    if (at.columns >= 120 && at.rows >= 10) {
        left.columns = at.columns * 3 / 5;
        right.column += left.columns + 2;
        right.columns = at.columns - left.columns - 2;
        right.rows = at.rows / 2;
        draw_rule(s, right.row, right.column, right.column + right.columns, "Gradient norm");
        curve_draw(s, make_area(right.row + 1, right.column, right.rows - 1, right.columns), &w->run, "grad_norm", 0,
                   STYLE_CYAN);
        right.row += right.rows;
        right.rows = at.rows - right.rows;
        draw_rule(s, right.row, right.column, right.column + right.columns, "Learning rate");
        curve_draw(s, make_area(right.row + 1, right.column, right.rows - 1, right.columns), &w->run, "lr", 0,
                   STYLE_CYAN);
    }
    draw_title_of_curve(s, left, w);
    left.row++;
    left.rows--;
    curve_draw(s, left, &w->run, "loss", 1, STYLE_CYAN);
}

static void draw_columns(screen *s, area at, const watched_run *w) {
    const int middle = s->columns / 2;
    const area left = make_area(at.row + 1, 1, at.rows - 1, middle - 2);
    const area right = make_area(at.row + 1, middle + 1, at.rows - 1, s->columns - middle - 2);
    draw_rule(s, at.row, 0, middle - 1, "Training");
    draw_rule(s, at.row, middle, s->columns, "Machine");
    draw_facts(s, left, &w->facts, training_rows, COMMAND_COUNT(training_rows));
    draw_facts(s, right, &w->facts, machine_rows, COMMAND_COUNT(machine_rows));
    draw_memory(s, right, &w->facts);
}

/* Divides the rows: up to 8 for the columns of facts, up to a sixth for events, the rest for curves. */
static void draw_run(screen *s, int row, int end, const watched_runs *l, const watched_run *w) {
    const int rows = end - row;
    const int facts_rows = rows >= 26 ? 9 : rows >= 18 ? 7 : 6, event_rows = rows >= 18 ? rows / 6 : 1;
    const int at = draw_safety(s, row + 2, w), curve_end = end - facts_rows - event_rows - 1;
    draw_title(s, row, l, w);
    draw_progress(s, row + 1, w);
    if (curve_end - at >= 3)
        draw_curves(s, make_area(at, 0, curve_end - at, s->columns - 1), w);
    draw_columns(s, make_area(curve_end, 0, facts_rows, s->columns), w);
    draw_rule(s, curve_end + facts_rows, 0, s->columns, "Events");
    draw_events(s, curve_end + facts_rows + 1, end, w);
}

/* ---- The table of runs ---- */

/* Returns the column at which the names of runs end. */
static int name_end_of(const screen *s) {
    return s->columns < 100 ? s->columns - 36 : (s->columns < 120 ? s->columns : 120) - 74;
}

static void draw_table_heads(screen *s) {
    const int name_end = name_end_of(s);
    screen_put(s, 0, name_end - 1, s->columns, STYLE_FAINT, " state ");
    screen_put_right(s, 0, name_end + 18, name_end + 35, STYLE_FAINT, " step ");
    if (s->columns < 100)
        return;
    screen_put_right(s, 0, name_end + 36, name_end + 45, STYLE_FAINT, " loss ");
    screen_put(s, 0, name_end + 45, s->columns, STYLE_FAINT, " time left ");
}

static void draw_table_row(screen *s, int row, const watched_run *w, int is_selected) {
    const int style = is_selected ? STYLE_REVERSE : STYLE_PLAIN, name_end = name_end_of(s);
    for (int i = 0; i < s->columns; i++)
        screen_put(s, row, i, i + 1, style, " ");
    screen_put(s, row, 0, 1, style | STYLE_BOLD, is_selected ? ">" : " ");
    screen_put(s, row, 2, name_end - 1, style, facts_text(&w->facts, "name"));
    screen_put(s, row, name_end, name_end + 17, style | state_style(w), facts_text(&w->facts, "state"));
    screen_put_right(s, row, name_end + 18, name_end + 34, style, facts_text(&w->facts, "step"));
    if (s->columns < 100)
        return;
    screen_put_right(s, row, name_end + 36, name_end + 44, style, facts_text(&w->facts, "loss"));
    screen_put(s, row, name_end + 46, s->columns - 1, style, facts_text(&w->facts, "left_s"));
}

/* Draws at most `most` rows, including the selected run. Returns the number of rows. */
static int draw_table(screen *s, int most, const watched_runs *l, panels_state *state) {
    const size_t rows = l->count < (size_t)most ? l->count : (size_t)most;
    char text[100];
    if (state->selected < state->top)
        state->top = state->selected;
    if (state->selected >= state->top + rows)
        state->top = state->selected + 1 - rows;
    if (state->top + rows > l->count)
        state->top = l->count - rows;
    snprintf(text, sizeof text, "Run %zu of %zu%s", state->selected + 1, l->count,
             l->left_out ? ", others not shown" : "");
    draw_rule(s, 0, 0, s->columns, text);
    draw_table_heads(s);
    for (size_t i = 0; i < rows; i++)
        draw_table_row(s, 1 + (int)i, l->runs[state->top + i], state->top + i == state->selected);
    return 1 + (int)rows;
}

/* ---- Everything ---- */

static void draw_help(screen *s) {
    static const char *const lines[] = {"Keys",
                                        "",
                                        "s               save a checkpoint now (SIGUSR1)",
                                        "x               stop with a checkpoint (SIGTERM); press x twice",
                                        "up, down, k, j  select a run",
                                        "q, Ctrl-C       quit; runs continue",
                                        "Ctrl-Z          suspend",
                                        "?               this help; any key closes it"};
    for (int i = 0; i < (int)COMMAND_COUNT(lines); i++)
        screen_put(s, 2 + i, 3, s->columns - 1, i ? STYLE_PLAIN : STYLE_BOLD, lines[i]);
}

static void draw_keys(screen *s, const panels_state *state, size_t count) {
    if (*state->message)
        screen_put(s, s->rows - 1, 1, s->columns - 1, STYLE_BOLD | STYLE_YELLOW, state->message);
    else
        screen_put(s, s->rows - 1, 1, s->columns - 1, STYLE_FAINT,
                   count > 1 ? "s save now  x stop  j k select  ? help  q quit" : "s save now  x stop  ? help  q quit");
}

void panels_draw(screen *s, const watched_runs *l, panels_state *state) {
    char text[100];
    int row = 0;
    screen_clear(s);
    if (s->columns < PANELS_COLUMNS || s->rows < PANELS_ROWS) {
        snprintf(text, sizeof text, "needs %dx%d, has %dx%d", PANELS_COLUMNS, PANELS_ROWS, s->columns, s->rows);
        screen_put(s, 0, 0, s->columns, STYLE_PLAIN, text);
        return;
    }
    if (state->shows_help) {
        draw_help(s);
        return;
    }
    if (l->count > 1)
        row = draw_table(s, (s->rows - PANELS_ROWS) / 2 + 1, l, state);
    if (l->count)
        draw_run(s, row, s->rows - 1, l, l->runs[state->selected]);
    draw_keys(s, state, l->count);
}
