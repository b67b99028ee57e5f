#include "options/options.h"

#include "files.h"
#include "options/foreign_names.h"
#include "options/table.h"
#include "output.h"
#include "process.h"

/* Spellings of a flag's value. */
#define BOOLEANS "false=False=FALSE=0=no=No=off true=True=TRUE=1=yes=Yes=on"

/* Commands with arguments that are not options. */
#define OPTIONS_WITH_POSITIONAL                                                                                        \
    (OPTIONS_TOKENIZER_DECODE | OPTIONS_PLAN | OPTIONS_BENCH_STEP | OPTIONS_SET | OPTIONS_INSPECT)

/* ---- Values ---- */

/* Finds the library's word for a choice or a flag: "true" for yes, "lm" for causal-lm. "" for other values and
   kinds. */
static void find_word(const option_entry *row, const char *value, char *word, size_t size) {
    const int boolean = row->kind == KIND_FLAG ? option_find_choice(BOOLEANS, value) : -1;
    const int choice = option_find_value(row, value);
    *word = 0;
    if (boolean >= 0)
        snprintf(word, size, "%s", boolean ? "true" : "false");
    else if (choice >= 0)
        option_choice_name(row->setting->choices, choice, word, size);
}

/* Sets the struct member that belongs to an option. Strings are not copied. */
static eitp_status set_member(const option_entry *row, const option_value *value, void *config, eitp_error *error) {
    if (row->kind == KIND_LIST)
        return eitp_setting_set_texts(row->setting, (const char *const *)value->texts, value->count, config, error);
    return eitp_setting_set_text(row->setting, *value->choice ? value->choice : value->texts[0], config, error);
}

eitp_status options_to_recipe(const option_set *o, const char *group, eitp_recipe *recipe, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t id = 0; id < option_count() && !status; id++) {
        const option_entry *row = option_of((option_id)id);
        if (row->group && (!group || !strcmp(row->group, group)) && o->values[id].count)
            status = set_member(row, &o->values[id], (char *)recipe + row->offset, error);
    }
    return status;
}

eitp_status options_to_config(const option_set *o, eitp_trainer_config *config, eitp_error *error) {
    eitp_recipe recipe = eitp_recipe_default();
    eitp_status status;
    recipe.trainer = *config;
    status = options_to_recipe(o, "trainer", &recipe, error);
    *config = recipe.trainer;
    return status;
}

/* Checks a value as the library does, in a scratch recipe. An option that only the command has is stored at the
   recipe's start. The message names the option. */
static eitp_status parse_value(const option_entry *row, const char *value, option_value *parsed, const char *where,
                               eitp_error *error) {
    eitp_recipe scratch = eitp_recipe_default();
    void *config = (char *)&scratch + row->offset;
    eitp_error cause;
    eitp_status status;
    char *texts[1];
    texts[0] = (char *)(uintptr_t)value;
    parsed->texts = texts;
    parsed->count = 1;
    find_word(row, value, parsed->choice, sizeof parsed->choice);
    status = set_member(row, parsed, config, &cause);
    if (status)
        return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s%s", where, row->name,
                            cause.message + strlen(row->setting->name));
    parsed->integer =
        row->kind == KIND_CHOICE ? option_find_value(row, value) : eitp_setting_integer(row->setting, config);
    parsed->number = eitp_setting_number(row->setting, config);
    return EITP_OK;
}

/* True for an option of the command that may be an empty string. */
static int may_be_empty(option_id id) {
    return id == OPTION_PROMPT || id == OPTION_TEXT || id == OPTION_PAIR;
}

/* Resolves "auto" of --data-workers to a number; other options handle the word themselves. */
static const char *resolve_auto(const char *value, char digits[32]) {
    if (strcmp(value, "auto"))
        return value;
    snprintf(digits, 32, "%lld", (long long)process_data_workers());
    return digits;
}

/* Returns the name of the metric with a key in eitp's records or transformers' logs: "loss" for "val_loss",
   "eval_loss", and values derived from the loss. */
static const char *metric_of_key(const char *key) {
    static const struct {
        const char *key, *metric;
    } computed[] = {
        {"perplexity", "loss"}, /* exp of the loss: the same checkpoint is best */
    };
    const size_t prefix = !strncmp(key, "val_", 4) ? 4 : !strncmp(key, "eval_", 5) ? 5 : 0;
    key += key[prefix] ? prefix : 0;
    for (size_t i = 0; i < COMMAND_COUNT(computed); i++) {
        if (!strcmp(key, computed[i].key))
            return computed[i].metric;
    }
    return key;
}

static const char *resolve_spelling(option_id id, const char *value, char digits[32]) {
    if (id == OPTION_DATA_WORKERS)
        return resolve_auto(value, digits);
    return id == OPTION_KEEP_BEST ? metric_of_key(value) : value;
}

static void value_clear(option_value *value) {
    for (size_t i = 0; i < value->count; i++)
        free(value->texts[i]);
    free(value->texts);
    memset(value, 0, sizeof *value);
}

static void value_add(option_value *value, const char *text) {
    value->texts = (char **)command_resize(value->texts, (value->count + 1) * sizeof *value->texts);
    value->texts[value->count++] = command_copy(text);
}

/* Finds the place that messages start with. A value that is only replaced keeps the old place. */
static void find_place(const option_value *old, option_source source, const char *where, char *place, size_t size) {
    const size_t length = strlen(where);
    *place = 0;
    if (length > 2)
        snprintf(place, size, "%.*s", (int)length - 2, where);
    else if (source == old->source)
        snprintf(place, size, "%s", old->place);
}

eitp_status options_set(option_set *o, option_id id, const char *value, option_source source, const char *where,
                        eitp_error *error) {
    const option_entry *row = option_of(id);
    option_value *target = &o->values[id], parsed;
    char place[sizeof target->place];
    eitp_status status = EITP_OK;
    char digits[32];
    value = resolve_spelling(id, value, digits);
    memset(&parsed, 0, sizeof parsed);
    if (*value || !may_be_empty(id))
        status = parse_value(row, value, &parsed, where, error);
    if (status || source < target->source)
        return status;
    find_place(target, source, where, place, sizeof place);
    if (row->kind != KIND_LIST || source > target->source)
        value_clear(target);
    target->source = source;
    snprintf(target->place, sizeof target->place, "%s", place);
    snprintf(target->choice, sizeof target->choice, "%s", parsed.choice);
    target->integer = parsed.integer;
    target->number = parsed.number;
    value_add(target, value);
    return EITP_OK;
}

void options_set_text(option_set *o, option_id id, const char *value, option_source source) {
    eitp_error error;
    options_set(o, id, value, source, "", &error);
}

void options_set_integer(option_set *o, option_id id, int64_t value, option_source source) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    options_set_text(o, id, digits, source);
}

void options_set_number(option_set *o, option_id id, double value, option_source source) {
    text_buffer digits = {NULL, 0, 0};
    text_json_number(&digits, value);
    options_set_text(o, id, digits.data, source);
    text_release(&digits);
}

void options_clear(option_set *o, option_id id) {
    value_clear(&o->values[id]);
}

int options_has(const option_set *o, option_id id) {
    return o->values[id].count > 0;
}

int options_is_explicit(const option_set *o, option_id id) {
    return o->values[id].source >= SOURCE_SUGGESTION;
}

eitp_status options_require(const option_set *o, option_id id, eitp_error *error) {
    if (options_is_explicit(o, id))
        return EITP_OK;
    return command_fail(error, EITP_ERROR_ARGUMENT, "--%s is required", options_name(id));
}

int64_t options_integer(const option_set *o, option_id id) {
    return o->values[id].integer;
}

double options_number(const option_set *o, option_id id) {
    return o->values[id].number;
}

const char *options_text(const option_set *o, option_id id) {
    return o->values[id].count ? o->values[id].texts[0] : NULL;
}

const char *options_origin(const option_set *o, option_id id, char *text, size_t size) {
    snprintf(text, size, "%s%s", *o->values[id].place ? ", from " : "", o->values[id].place);
    return text;
}

int options_choice(const option_set *o, option_id id) {
    return (int)o->values[id].integer;
}

void options_create(option_set *o, const char *name, unsigned command) {
    memset(o, 0, sizeof *o);
    o->name = name;
    o->command = command;
    o->values = (option_value *)command_allocate(OPTION_CAPACITY * sizeof *o->values);
}

void options_release(option_set *o) {
    for (size_t i = 0; i < OPTION_CAPACITY && o->values; i++)
        value_clear(&o->values[i]);
    free(o->values);
    free(o->positional);
    memset(o, 0, sizeof *o);
}

/* ---- The command line ---- */

/* An option of the command line while it is read. */
typedef struct line_option {
    option_set *o;
    char *name;        /* as written, without dashes */
    const char *value; /* after "=", or NULL */
    int is_negated;    /* "no-" precedes the name */
    int count, *at;    /* the arguments, and the index of this one, which is advanced past its value */
    char **arguments;
    eitp_error *error;
} line_option;

/* Returns the word that turns off a choice or report-to, or NULL. */
static const char *off_word(option_id id) {
    static const char *const words[] = {"no", "none", "off"};
    for (size_t i = 0; i < COMMAND_COUNT(words) && option_of(id)->kind == KIND_CHOICE; i++) {
        if (option_find_choice(option_of(id)->setting->choices, words[i]) >= 0)
            return words[i];
    }
    return id == OPTION_REPORT_TO ? "none" : NULL;
}

/* Finds the option that "no-<name>" turns off: a flag, or an option with a word for "off". */
static option_name find_negated(const char *name) {
    option_name found;
    memset(&found, 0, sizeof found);
    found.id = OPTION_CAPACITY;
    if (strncmp(name, "no-", 3) && strncmp(name, "no_", 3))
        return found;
    found = option_find(name + 3);
    if (found.id != OPTION_CAPACITY && option_of(found.id)->kind != KIND_FLAG && !*found.on && !off_word(found.id))
        found.id = OPTION_CAPACITY;
    return found;
}

int options_same_value(const option_value *a, const option_value *b) {
    return a->integer == b->integer && a->number >= b->number && a->number <= b->number &&
           (a->integer || a->number > 0 || a->number < 0 || !strcmp(a->texts[0], b->texts[0]));
}

/* Sets an option by one of its names. Two names with different values conflict; with the same name, the last value
   counts. */
static eitp_status set_by_name(const line_option *l, option_id id, const char *value, option_source source) {
    option_value *target = &l->o->values[id], before = *target;
    const option_entry *row = option_of(id);
    eitp_status status = option_check_name(l->name, value, "--", l->error);
    if (status)
        return status;
    if (target->source == SOURCE_COMMAND_LINE && source == SOURCE_COMMAND_LINE && row->kind != KIND_LIST &&
        row->kind != KIND_FLAG && strcmp(target->name, l->name)) {
        char *old = command_copy(target->texts[0]), *texts[1];
        texts[0] = old;
        target->source = SOURCE_NONE;
        status = options_set(l->o, id, value, SOURCE_COMMAND_LINE, "--", l->error);
        before.texts = texts;
        if (!status && !options_same_value(&before, target))
            status = command_fail(l->error, EITP_ERROR_ARGUMENT, "--%s and --%s set %s to different values; give one",
                                  before.name, l->name, row->name);
        free(old);
    } else {
        status = options_set(l->o, id, value, source, "--", l->error);
    }
    if (!status && target->source == source)
        snprintf(target->name, sizeof target->name, "%s", l->name);
    return status;
}

/* Returns the next argument if it can be the value of a flag. Where positional arguments are allowed, digits are
   one. */
static const char *next_boolean(const line_option *l) {
    const char *next = *l->at + 1 < l->count ? l->arguments[*l->at + 1] : "";
    const int has_positional = (l->o->command & OPTIONS_WITH_POSITIONAL) != 0;
    if (option_find_choice(BOOLEANS, next) < 0 || (has_positional && strchr("01", *next)))
        return NULL;
    ++*l->at;
    return next;
}

/* Reads a flag, or a name such as "fp16" that stands for a value of an option: "--x", "--x true", "--x=false",
   "--no-x". */
static eitp_status read_flag(line_option *l, const option_name *found) {
    const char *value = l->value ? l->value : next_boolean(l);
    int boolean = value ? option_find_choice(BOOLEANS, value) : 1;
    if (boolean < 0)
        return command_fail(l->error, EITP_ERROR_ARGUMENT, "--%s must be true or false (got '%s')", l->name, value);
    boolean ^= l->is_negated;
    if (!*found->on)
        return set_by_name(l, found->id, boolean ? "1" : "0", SOURCE_COMMAND_LINE);
    if (boolean)
        return set_by_name(l, found->id, found->on, found->is_on_weak ? SOURCE_SUGGESTION : SOURCE_COMMAND_LINE);
    if (l->o->values[found->id].source == SOURCE_COMMAND_LINE && !strcmp(options_text(l->o, found->id), found->on))
        return command_fail(l->error, EITP_ERROR_ARGUMENT, "--%s conflicts with --%s, which sets %s to %s; give one",
                            l->name, l->o->values[found->id].name, options_name(found->id), found->on);
    return *found->off ? set_by_name(l, found->id, found->off, SOURCE_COMMAND_LINE_WEAK) : EITP_OK;
}

/* Reads "--no-eval", another spelling of "--eval=no". */
static eitp_status read_negated_choice(const line_option *l, option_id id) {
    if (l->value)
        return command_fail(l->error, EITP_ERROR_ARGUMENT, "--%s takes no value", l->name);
    return set_by_name(l, id, off_word(id), SOURCE_COMMAND_LINE);
}

/* Reads a name used by other programs: see options/foreign_names.c. */
static eitp_status read_foreign(line_option *l, const config_name *entry) {
    const char *next = *l->at + 1 < l->count ? l->arguments[*l->at + 1] : NULL, *meaning;
    char option[64], text[400];
    size_t size;
    if (!l->value && next && strncmp(next, "--", 2) && !l->is_negated) {
        l->value = next;
        ++*l->at;
    }
    meaning = l->value ? config_meaning_of(entry, l->value, &size) : NULL;
    if (entry->option && !strcmp(entry->option, CONFIG_REFUSED))
        return meaning || l->is_negated
                   ? EITP_OK
                   : command_fail(l->error, EITP_ERROR_UNSUPPORTED, "--%s%s%s is not supported: %s", l->name,
                                  l->value ? " " : "", l->value ? l->value : "", entry->reason);
    if (!entry->option) {
        output_warning("--%s has no effect: %s", l->name, entry->reason);
        return EITP_OK;
    }
    config_option(entry, 0, option, sizeof option);
    if (config_option_count(entry) > 1)
        return command_fail(l->error, EITP_ERROR_ARGUMENT, "--%s is not an option; give --%s and the others separately",
                            l->name, option);
    if (!l->value)
        return command_fail(l->error, EITP_ERROR_ARGUMENT, "--%s needs a value", l->name);
    snprintf(text, sizeof text, "%.*s", meaning ? (int)size : (int)strlen(l->value), meaning ? meaning : l->value);
    return set_by_name(l, option_find(option).id, text, SOURCE_COMMAND_LINE);
}

/* Fails for an option of other commands. --plot-every, which some expect from train, belongs to report. */
static eitp_status fail_other_command(const line_option *l, option_id id) {
    if (id == OPTION_PLOT_EVERY)
        return command_fail(l->error, EITP_ERROR_ARGUMENT,
                            "'eitp %s' has no option --%s; use 'eitp report', which draws runs", l->o->name, l->name);
    return command_fail(l->error, EITP_ERROR_ARGUMENT, "'eitp %s' has no option --%s; 'eitp help %s' lists them",
                        l->o->name, l->name, l->o->name);
}

static eitp_status read_known(line_option *l, const option_name *found) {
    const option_entry *row = option_of(found->id);
    if (!(row->commands & l->o->command))
        return fail_other_command(l, found->id);
    if (row->kind == KIND_FLAG || *found->on)
        return read_flag(l, found);
    if (l->is_negated)
        return read_negated_choice(l, found->id);
    if (!l->value && *l->at + 1 >= l->count)
        return command_fail(l->error, EITP_ERROR_ARGUMENT, "--%s needs a value", l->name);
    if (!l->value)
        l->value = l->arguments[++*l->at];
    return set_by_name(l, found->id, l->value, SOURCE_COMMAND_LINE);
}

/* Reads one option, whose name and "=" value are in l. */
static eitp_status read_option(line_option *l) {
    option_name found = option_find(l->name);
    const config_name *entry = NULL;
    if (found.id == OPTION_CAPACITY) {
        found = find_negated(l->name);
        l->is_negated = found.id != OPTION_CAPACITY;
    }
    option_prefer(&found, l->o->command);
    if (found.id != OPTION_CAPACITY)
        return read_known(l, &found);
    entry = config_find_anywhere(l->name);
    if (!entry && !strncmp(l->name, "no-", 3)) {
        entry = config_find_anywhere(l->name + 3);
        l->is_negated = 1;
    }
    return entry ? read_foreign(l, entry) : option_fail_unknown(l->o, l->name, "", l->error);
}

/* Splits "name=value" and reads the option. */
static eitp_status read_argument(option_set *o, const char *argument, int count, char **arguments, int *at,
                                 eitp_error *error) {
    const char *equals = strchr(argument, '=');
    line_option l;
    eitp_status status;
    memset(&l, 0, sizeof l);
    l.o = o;
    l.name = command_copy(argument);
    l.value = equals ? equals + 1 : NULL;
    l.count = count;
    l.at = at;
    l.arguments = arguments;
    l.error = error;
    if (equals)
        l.name[equals - argument] = 0;
    status = read_option(&l);
    free(l.name);
    return status;
}

/* Reads a positional argument. After some options it is another value: b.json in "--compare a.json b.json". */
static eitp_status read_positional(option_set *o, char *argument, eitp_error *error) {
    static const option_id lists[] = {OPTION_COMPARE, OPTION_INTERPOLATE};
    for (size_t i = 0; i < COMMAND_COUNT(lists); i++) {
        if (o->values[lists[i]].source == SOURCE_COMMAND_LINE)
            return options_set(o, lists[i], argument, SOURCE_COMMAND_LINE, "--", error);
    }
    o->positional[o->positional_count++] = argument;
    return EITP_OK;
}

/* Guesses the option whose name is missing before an argument. In commands that use a model it is --model for a
   directory or GGUF file if the model is not named yet, and if the command has no --data. */
static option_id probable_option(const option_set *o, const char *argument) {
    const unsigned uses = OPTIONS_EVAL | OPTIONS_PREDICT | OPTIONS_EMBED;
    const int has_model = o->values[OPTION_MODEL].source == SOURCE_COMMAND_LINE;
    const int is_model = (o->command & uses) && !has_model &&
                         (files_info(argument).kind == EITP_PATH_DIRECTORY || files_is_gguf(argument));
    return is_model || (o->command &
                        (OPTIONS_GENERATE | OPTIONS_CHAT | OPTIONS_MERGE | OPTIONS_EXPORT | OPTIONS_CHECK_SYSTEM))
               ? OPTION_MODEL
               : OPTION_DATA;
}

static eitp_status read_command_line(option_set *o, int count, char **arguments, eitp_error *error) {
    int literal = 0;
    eitp_status status = EITP_OK;
    o->positional = (char **)command_allocate((size_t)count * sizeof *o->positional);
    for (int at = 0; at < count && !status; at++) {
        const char *argument = arguments[at];
        if (!literal && !strcmp(argument, "--"))
            literal = 1;
        else if (!literal && !strncmp(argument, "--", 2))
            status = read_argument(o, argument + 2, count, arguments, &at, error);
        else if (!literal && !strcmp(argument, "-o"))
            status = read_argument(o, "output", count, arguments, &at, error);
        else if (!literal && !strcmp(argument, "-q"))
            options_set_integer(o, OPTION_QUIET, 1, SOURCE_COMMAND_LINE);
        else if (!literal && !strcmp(argument, "-v"))
            options_set_integer(o, OPTION_VERBOSE, 1, SOURCE_COMMAND_LINE);
        else if (!literal && !strcmp(argument, "-h"))
            options_set_integer(o, OPTION_HELP, 1, SOURCE_COMMAND_LINE);
        else if (!literal && argument[0] == '-' && argument[1])
            status = command_fail(error, EITP_ERROR_ARGUMENT,
                                  "unknown option '%s'; options start with two dashes: 'eitp help %s' lists them",
                                  argument, o->name);
        else
            status = read_positional(o, arguments[at], error);
    }
    if (!status && o->positional_count && !(o->command & OPTIONS_WITH_POSITIONAL))
        status =
            command_fail(error, EITP_ERROR_ARGUMENT, "unexpected argument '%s'; values follow options, as in --%s %s",
                         o->positional[0], options_name(probable_option(o, o->positional[0])), o->positional[0]);
    return status;
}

eitp_status options_replace(option_set *o, const char *argument, eitp_error *error) {
    const size_t size = strcspn(argument, "=");
    char *name = command_copy(argument + 2);
    option_id id;
    name[size - 2] = 0;
    id = option_find(name).id;
    free(name);
    return options_set(o, id, argument + size + 1, SOURCE_COMMAND_LINE, "--", error);
}

/* Sets options from environment variables. */
static eitp_status read_environment(option_set *o, eitp_error *error) {
    static const struct {
        const char *variable;
        option_id id;
    } variables[] = {{"EITP_LOG_DIR", OPTION_LOG_DIR}};
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < COMMAND_COUNT(variables) && !status; i++) {
        const char *value = getenv(variables[i].variable);
        char where[40];
        snprintf(where, sizeof where, "%s: ", variables[i].variable);
        if (value && *value && (option_of(variables[i].id)->commands & o->command))
            status = options_set(o, variables[i].id, value, SOURCE_ENVIRONMENT, where, error);
    }
    return status;
}

/* Drops values that mean "not set", such as --layers 0: the library's defaults. */
static void drop_open(option_set *o) {
    const eitp_recipe defaults = eitp_recipe_default();
    for (size_t id = 0; id < option_count(); id++) {
        const option_entry *row = option_of((option_id)id);
        const double usual = eitp_setting_number(row->setting, (const char *)&defaults + row->offset);
        if (row->stays_open && o->values[id].number >= usual && o->values[id].number <= usual)
            value_clear(&o->values[id]);
    }
}

static void set_fallbacks(option_set *o) {
    for (size_t i = 0; i < option_count(); i++) {
        if (option_of((option_id)i)->has_fallback && (option_of((option_id)i)->commands & o->command))
            options_set_text(o, (option_id)i, option_of((option_id)i)->fallback, SOURCE_DEFAULT);
    }
}

eitp_status options_read(option_set *o, const char *name, unsigned command, int count, char **arguments, int *ended,
                         eitp_error *error) {
    eitp_status status;
    options_create(o, name, command);
    *ended = 0;
    status = read_command_line(o, count, arguments, error);
    if (!status && options_integer(o, OPTION_HELP)) {
        options_print_help(name, command);
        *ended = 1;
        return EITP_OK;
    }
    if (!status)
        status = read_environment(o, error);
    if (!status && options_has(o, OPTION_CONFIG))
        status = options_read_config(o, options_text(o, OPTION_CONFIG), NULL, SOURCE_CONFIG, error);
    if (!status && options_has(o, OPTION_DEEPSPEED_CONFIG))
        status = options_read_config(o, options_text(o, OPTION_DEEPSPEED_CONFIG), "deepspeed", SOURCE_CONFIG, error);
    drop_open(o);
    set_fallbacks(o);
    if (!status)
        status = options_reconcile(o, error);
    if (!status)
        output_set_detail(options_integer(o, OPTION_VERBOSE) ? OUTPUT_VERBOSE
                          : options_integer(o, OPTION_QUIET) ? OUTPUT_QUIET
                                                             : OUTPUT_NORMAL);
    return status;
}
