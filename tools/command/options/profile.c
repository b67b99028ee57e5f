#include "options/profile.h"

#include "options/table.h"
#include "output.h"
#include "process.h"

typedef struct profile {
    const char *name;     /* a choice of --profile */
    const char *defaults; /* "option=value", separated by spaces */
    int takes_least;
    const char *note;  /* message about the profile, or NULL */
    const char *model; /* model that a new run trains without --model and --init, or NULL */
} profile;

#define MIXED "mixed precision uses the type that this processor multiplies fastest (--precision auto)"

/* In the order of the choices. The profiles that auto chooses from set the same options, so one can replace another. */
static const profile profiles[] = {
    {"none", "", 0, NULL, NULL},
    {"auto", "", 0, NULL, NULL},
    {"low-memory", "batch-size=1 block-size=128 grad-accum=16 auto-shrink=true", 1, NULL, "bert-base-chinese"},
    {"safe", "batch-size=4 block-size=256 grad-accum=4 auto-shrink=true", 0, NULL, "bert-base-chinese"},
    {"full", "batch-size=8 block-size=512 grad-accum=1 auto-shrink=false", 0, NULL, "roberta-large"},
    {"tiny", "batch-size=1 block-size=32 grad-accum=4 auto-shrink=true eval=no init=distilgpt2", 0, NULL, NULL},
    {"quick", "batch-size=4 block-size=1000 grad-accum=2 data-workers=8 metrics=fast", 0, MIXED, NULL},
    {"max", "batch-size=4 block-size=1000 grad-accum=2 data-workers=8 metrics=off", 0, MIXED, NULL},
    {"low-ram", "batch-size=2 block-size=500 grad-accum=2 data-workers=4 precision=bf16 auto-shrink=true metrics=fast",
     0, "mixed precision uses bf16, which needs as much memory as fp16 and no loss scaling", NULL},
    {"debug", "batch-size=1 block-size=100 grad-accum=2 data-workers=2 precision=fp32 check-finite=op metrics=fast", 0,
     "the result of every op is checked for non-finite numbers, which is slow", NULL},
};

static const profile *profile_of(const option_set *o) {
    return &profiles[options_choice(o, OPTION_PROFILE)];
}

/* Reads the next "option=value" of a list. Returns 0 at the end. `value` has room for `size` bytes; the rest is cut. */
static int next_default(const char **list, option_id *id, char *value, size_t size) {
    const char *word;
    char name[40];
    size_t length;
    if (!option_next_word(list, &word, &length))
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    snprintf(value, size, "%.*s", (int)(length - strlen(name) - 1), word + strlen(name) + 1);
    *id = option_find(name).id;
    return 1;
}

/* Sets an option that has only its default value. */
static void set_default(option_set *o, option_id id, const char *value) {
    char where[40];
    eitp_error ignored;
    snprintf(where, sizeof where, "profile %s: ", profile_of(o)->name);
    options_set(o, id, value, SOURCE_PROFILE, where, &ignored);
}

void profile_apply(option_set *o) {
    const char *list = profile_of(o)->defaults;
    option_id id;
    char value[40];
    while (next_default(&list, &id, value, sizeof value)) {
        if ((option_of(id)->commands & o->command) && !(id == OPTION_INIT && options_has(o, OPTION_MODEL)))
            set_default(o, id, value);
    }
}

void profile_name_model(option_set *o) {
    const char *model = profile_of(o)->model;
    if (!model || options_has(o, OPTION_MODEL) || options_has(o, OPTION_INIT))
        return;
    set_default(o, OPTION_MODEL, model);
    output_info("profile %s: model %s; choose another with --model or --init", profile_of(o)->name, model);
}

int64_t profile_integer(const option_set *o, option_id wanted) {
    const char *list = profile_of(o)->defaults;
    option_id id;
    char value[40];
    while (next_default(&list, &id, value, sizeof value)) {
        if (id == wanted)
            return strtoll(value, NULL, 10);
    }
    return 0;
}

static int is_of_profile(const option_set *o, option_id id) {
    return o->values[id].source == SOURCE_PROFILE;
}

/* Lowers an option and reports why. */
static void lower(option_set *o, option_id id, int64_t most, const char *why) {
    const int of_profile = is_of_profile(o, id);
    const int64_t given = options_integer(o, id);
    if (given <= most)
        return;
    options_set_integer(o, id, most, o->values[id].source);
    output_info("%s%s%s%s %lld instead of %lld, %s", of_profile ? "profile " : "",
                of_profile ? profile_of(o)->name : "", of_profile ? ": " : "", options_name(id), (long long)most,
                (long long)given, why);
}

void profile_lower_block_size(option_set *o, int64_t positions) {
    lower(o, OPTION_BLOCK_SIZE, positions, "the positions of the model");
}

void profile_adapt(option_set *o, const eitp_transformer_config *shape) {
    const profile *p = profile_of(o);
    if (p->note)
        output_info("profile %s: %s", p->name, p->note);
    if (is_of_profile(o, OPTION_BLOCK_SIZE))
        profile_lower_block_size(o, eitp_transformer_config_positions(shape));
    if (is_of_profile(o, OPTION_DATA_WORKERS))
        lower(o, OPTION_DATA_WORKERS, process_data_workers(), "one for every four processors");
}

const char *profile_name(const option_set *o) {
    return profile_of(o)->name;
}

int profile_takes_least(const option_set *o) {
    return profile_of(o)->takes_least;
}

int profile_is_auto(const option_set *o) {
    return !strcmp(profile_of(o)->name, "auto");
}
