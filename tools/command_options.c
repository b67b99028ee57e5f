#include "command_options.h"

#include "command_option_table.h"
#include "command_output.h"

eitp_status options_to_config(const option_set *o, eitp_trainer_config *config, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t id = 0; id < option_count() && !status; id++) {
        const eitp_setting *setting = option_of(id)->setting;
        const option_value *value = &o->values[id];
        if (!setting || !value->count)
            continue;
        status = setting->kind == EITP_SETTING_NUMBER
                     ? eitp_setting_set_number(setting, value->number, config, error)
                     : eitp_setting_set_integer(setting, value->integer, config, error);
    }
    return status;
}

/* ---- Values ---- */

/* The same where another spelling of a setting's choice is asked for. */
static int find_spelling(const option_entry *row, const char *value) {
    const char *list = row->spellings, *word;
    char name[40];
    size_t size;
    while (option_next_word(&list, &word, &size)) {
        snprintf(name, sizeof name, "%.*s", (int)size, word);
        if (option_find_choice(name, value) < 0)
            continue;
        name[strcspn(name, "=")] = 0;
        return option_find_choice(row->words, name);
    }
    return -1;
}

static eitp_status parse_choice(const option_entry *row, const char *value, option_value *parsed, const char *where,
                                eitp_error *error) {
    char list[200];
    parsed->integer = option_find_choice(row->words, value);
    if (parsed->integer < 0 && row->setting)
        parsed->integer = find_spelling(row, value);
    if (parsed->integer >= 0)
        return EITP_OK;
    option_list_choices(row->words, ", ", " or ", list, sizeof list);
    return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s '%s' is none of its values; use %s", where, row->name, value,
                        list);
}

static eitp_status parse_flag(const option_entry *row, const char *value, option_value *parsed, const char *where,
                              eitp_error *error) {
    parsed->integer = option_find_choice("false=0=no=off true=1=yes=on", value);
    if (parsed->integer >= 0)
        return EITP_OK;
    return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s '%s' is neither true nor false", where, row->name, value);
}

/* The bounds are the library's. */
static eitp_status check_setting(const option_entry *row, const char *value, const option_value *parsed,
                                 const char *where, eitp_error *error) {
    eitp_trainer_config config = eitp_trainer_config_default();
    char bounds[100];
    eitp_status status = row->kind == KIND_NUMBER
                             ? eitp_setting_set_number(row->setting, parsed->number, &config, error)
                             : eitp_setting_set_integer(row->setting, parsed->integer, &config, error);
    if (!status)
        return EITP_OK;
    eitp_setting_bounds(row->setting, bounds, sizeof bounds);
    return command_fail(error, status, "%s%s %s is out of range; it must be %s", where, row->name, value, bounds);
}

static eitp_status parse_number(const option_entry *row, const char *value, option_value *parsed, const char *where,
                                eitp_error *error) {
    char *end = NULL;
    int whole = row->kind == KIND_INTEGER, valid;
    errno = 0;
    parsed->integer = whole ? strtoll(value, &end, 10) : 0;
    parsed->number = whole ? (double)parsed->integer : strtod(value, &end);
    /* No white space, no hexadecimal numbers, no "nan" and "infinity". */
    valid = *value && end && !*end && (errno != ERANGE || !whole) && !value[strspn(value, "0123456789+-.eE")];
    if (!valid)
        return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s '%s' is no %s", where, row->name, value,
                            whole ? "whole number" : "number");
    if (row->setting)
        return check_setting(row, value, parsed, where, error);
    if (!(parsed->number >= row->low && parsed->number <= row->high))
        return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s %s is out of range; it must be %.16g to %.16g", where,
                            row->name, value, row->low, row->high);
    return EITP_OK;
}

/*
 * Bytes: "1000000", "900M", "1.5GB", "2GiB". k, M, G and T are powers of 1000, Ki, Mi, Gi and Ti of 1024; a part of a
 * unit is rounded to whole bytes.
 */
static eitp_status parse_size(const option_entry *row, const char *value, option_value *parsed, const char *where,
                              eitp_error *error) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},     {"k", 1e3},   {"K", 1e3},      {"M", 1e6},         {"G", 1e9},
                 {"T", 1e12}, {"Ki", 1024}, {"Mi", 1048576}, {"Gi", 1073741824}, {"Ti", 1099511627776.0}};
    size_t whole = strspn(value, "0123456789"), fraction = value[whole] == '.';
    const char *unit;
    size_t length;
    double factor = 0;
    if (fraction)
        fraction += strspn(value + whole + 1, "0123456789");
    unit = value + whole + fraction;
    length = strlen(unit);
    length -= length && unit[length - 1] == 'B';
    for (size_t i = 0; i < COMMAND_COUNT(units); i++) {
        if (strlen(units[i].name) == length && !memcmp(units[i].name, unit, length))
            factor = units[i].bytes;
    }
    parsed->number = strtod(value, NULL) * factor;
    if (!whole || fraction == 1 || factor == 0 || (fraction && factor == 1) ||
        (parsed->number > 0 && parsed->number < 1))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "%s%s '%s' is no size; give bytes, or a number and its unit, as in 900M, 1.5G or 512Mi",
                            where, row->name, value);
    if (!(parsed->number >= row->low && parsed->number <= row->high))
        return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s %s is out of range; it must be %.16g to %.16g bytes",
                            where, row->name, value, row->low, row->high);
    parsed->integer = (int64_t)(parsed->number + 0.5);
    return EITP_OK;
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

eitp_status options_set(option_set *o, option_id id, const char *value, option_source source, const char *where,
                        eitp_error *error) {
    const option_entry *row = option_of(id);
    option_value *target = &o->values[id], parsed;
    eitp_status status = EITP_OK;
    memset(&parsed, 0, sizeof parsed);
    if (row->kind == KIND_FLAG)
        status = parse_flag(row, value, &parsed, where, error);
    else if (row->kind == KIND_INTEGER || row->kind == KIND_NUMBER)
        status = parse_number(row, value, &parsed, where, error);
    else if (row->kind == KIND_SIZE)
        status = parse_size(row, value, &parsed, where, error);
    else if (row->kind == KIND_CHOICE)
        status = parse_choice(row, value, &parsed, where, error);
    else if (!*value && id != OPTION_PROMPT && id != OPTION_TEXT)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "%s%s is empty; give it a value", where, row->name);
    if (status || source < target->source)
        return status;
    if (row->kind != KIND_LIST || source > target->source)
        value_clear(target);
    target->source = source;
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

int options_has(const option_set *o, option_id id) {
    return o->values[id].count > 0;
}

int options_is_explicit(const option_set *o, option_id id) {
    return o->values[id].source >= SOURCE_CONFIG;
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

int options_choice(const option_set *o, option_id id) {
    return (int)o->values[id].integer;
}

void options_release(option_set *o) {
    for (size_t i = 0; i < OPTION_CAPACITY; i++)
        value_clear(&o->values[i]);
    free(o->positional);
    memset(o, 0, sizeof *o);
}

/* ---- The command line ---- */

/* "no-<flag>" stands for the flag with the value 0. */
static option_id find_negated(const char *name) {
    char value[32];
    option_id id = strncmp(name, "no-", 3) && strncmp(name, "no_", 3) ? OPTION_CAPACITY
                                                                      : option_find(name + 3, value, sizeof value);
    return id != OPTION_CAPACITY && option_of(id)->kind == KIND_FLAG ? id : OPTION_CAPACITY;
}

/* One option: `argument` without its dashes. *at is advanced where the value is the next argument. */
static eitp_status read_option(option_set *o, const char *argument, int count, char **arguments, int *at,
                               eitp_error *error) {
    const char *equals = strchr(argument, '=');
    char *name = command_copy(argument), implied[64];
    const char *value = equals ? equals + 1 : NULL;
    option_id id;
    int has_value = 1;
    eitp_status status = EITP_OK;
    if (equals)
        name[equals - argument] = 0;
    id = option_find(name, implied, sizeof implied);
    if (id == OPTION_CAPACITY && option_find_ignored(name, &has_value)) {
        *at += has_value && !value && *at + 1 < count;
        free(name);
        return EITP_OK;
    }
    if (id == OPTION_CAPACITY && !value && (id = find_negated(name)) != OPTION_CAPACITY)
        snprintf(implied, sizeof implied, "0");
    if (id != OPTION_CAPACITY && option_of(id)->kind == KIND_FLAG && !value && !*implied)
        snprintf(implied, sizeof implied, "1");
    if (id == OPTION_CAPACITY)
        status = option_fail_unknown(o, name, "", error);
    else if (!(option_of(id)->commands & o->command))
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--%s is no option of 'eitp %s'; 'eitp help %s' lists them",
                              name, o->name, o->name);
    else if (*implied && value)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--%s takes no value; write --%s=%s", name,
                              option_of(id)->name, value);
    else if (*implied)
        value = implied;
    else if (!value && *at + 1 >= count)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--%s needs a value", name);
    else if (!value)
        value = arguments[++*at];
    free(name);
    return status ? status : options_set(o, id, value, SOURCE_COMMAND_LINE, "--", error);
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
            status = read_option(o, argument + 2, count, arguments, &at, error);
        else if (!literal && !strcmp(argument, "-q"))
            options_set_integer(o, OPTION_QUIET, 1, SOURCE_COMMAND_LINE);
        else if (!literal && !strcmp(argument, "-v"))
            options_set_integer(o, OPTION_VERBOSE, 1, SOURCE_COMMAND_LINE);
        else if (!literal && !strcmp(argument, "-h"))
            options_set_integer(o, OPTION_HELP, 1, SOURCE_COMMAND_LINE);
        else if (!literal && argument[0] == '-' && argument[1])
            status = command_fail(error, EITP_ERROR_ARGUMENT,
                                  "unknown option '%s'; options have two dashes: 'eitp help %s' lists them", argument,
                                  o->name);
        else
            o->positional[o->positional_count++] = arguments[at];
    }
    if (!status && o->positional_count &&
        !(o->command & (OPTIONS_TOKENIZER_DECODE | OPTIONS_PLAN | OPTIONS_BENCH_STEP)))
        status =
            command_fail(error, EITP_ERROR_ARGUMENT, "unexpected argument '%s'; values follow options, as in --data %s",
                         o->positional[0], o->positional[0]);
    return status;
}

static void set_fallbacks(option_set *o) {
    for (size_t i = 0; i < option_count(); i++) {
        if (option_of(i)->has_fallback && (option_of(i)->commands & o->command))
            options_set_text(o, (option_id)i, option_of(i)->fallback, SOURCE_DEFAULT);
    }
}

eitp_status options_read(option_set *o, const char *name, unsigned command, int count, char **arguments, int *ended,
                         eitp_error *error) {
    eitp_status status;
    memset(o, 0, sizeof *o);
    o->name = name;
    o->command = command;
    *ended = 0;
    status = read_command_line(o, count, arguments, error);
    if (!status && options_integer(o, OPTION_HELP)) {
        options_print_help(name, command);
        *ended = 1;
        return EITP_OK;
    }
    if (!status && options_has(o, OPTION_CONFIG))
        status = options_read_config(o, options_text(o, OPTION_CONFIG), SOURCE_CONFIG, error);
    set_fallbacks(o);
    if (!status)
        output_set_detail(options_integer(o, OPTION_VERBOSE) ? OUTPUT_VERBOSE
                          : options_integer(o, OPTION_QUIET) ? OUTPUT_QUIET
                                                             : OUTPUT_NORMAL);
    return status;
}
