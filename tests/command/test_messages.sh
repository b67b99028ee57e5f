#!/bin/sh
# The command: all messages that it can print, in its words. None names a function, a type or a member of the library,
# or an option that does not exist. No message is triggered here: they are read from the sources.
root=$PWD
. tests/command/command.sh

# Messages that only API calls trigger, or that are translated as parts of longer ones, and modules with no other
# messages that name anything: calls, templates, and lists of names.
cat >calls <<'END'
, or predict them with eitp_predict
first_position is
label_count must be the number of labels
memory_limit must be 0
reference_tokenizer is required
check eitp_host.files.read
choose from eitp_save_dtype
choose from EITP_TRAINING and EITP_VALIDATION
create the model with the configuration from eitp_model_config_read
eitp_recipe_group lists the settings
eitp_run_set takes 1 to
eitp_trend_fit: 
has no direction; pass EITP_HIGHER_IS_BETTER
is an integer; set it with eitp_setting_set_integer
is a list; set it with eitp_setting_set_texts
holds text; set it with eitp_setting_set_text
must be a sum of eitp_lora_
needs a task of eitp_classification_task
open its recipe with eitp_training_open
or open it with EITP_SAMPLES_NONE
problem is EITP_PROBLEM_TOKENS, but a file of two tokenizers
read them with eitp_table, or set another format
samples of conversations must have labels of their tokens (EITP_PROBLEM_TOKENS)
set end_of_text to a token below
set eitp_context_config.parameters to eitp_optimizer_get
set head to EITP_HEAD_%sCLASSIFIER
see head in eitp_transformer_config
add one with eitp_model_add_encoder
must be at least 0 and one of eitp_truncation
call eitp_run_add_info before eitp_run_train
use eitp_predict
eitp_predict computes them
END
cat >modules <<'END'
src/tensor/
src/objective/binding.c
src/optim/minimize.c
src/optim/optimizers.c
src/task/groups.c
src/task/learners.c
src/task/pass.c
src/data/labelled_memory.c
src/template/
src/text/template_file.c
tools/command/options/foreign_names.c
tools/command/wording.c
END
# Member names that are also names in files and records, which messages mention.
tr ' ' '\n' >files <<'END'
add_prefix_space grad_norm jacobian_norm mask_token max_tokens model_type modules_to_save oom_score_adj pad_id
parameter_norm path_norm peak_bytes problem_type sliding_window special_tokens strip_accents target_modules unk_token
update_norm
END

check "build tests/command/translated.c" "${CC:-cc}" -I"$root" -I"$root/tools/command" -o translated "$root/tests/command/translated.c" \
    "$root/tools/command/wording.c"
(cd "$root" && find src backends tools/command -name '*.[ch]' | sort | xargs awk -f tools/messages.awk) >all
./translated <all >said
check "there are messages" test "$(wc -l <said)" -gt 2000
check "they are translated" grep -q 'set --init as it was to resume' said

# ---- Options ----

for command in $("$eitp" help | sed -n 's/^  eitp \([a-z-]*\) .*/\1/p') "tokenizer train" "tokenizer encode" "bench step"; do
    "$eitp" help $command
done >help 2>&1
table=$root/tools/command/options/table.c
{
    grep -o -e '--[a-z0-9][a-z0-9-]*' help
    sed -n 's/^    {"\([a-z0-9-]*\)", *"\([^"]*\)".*/\1 \2/p' "$table" | tr ' ' '\n' | sed 's/=.*//; s/^/--/'
    sed -n 's/^    {"\([a-z0-9-]*\)",$/--\1/p' "$table"
} | sort -u >options
# Options of other programs, and the prefix of one that is named later.
printf '%s\n' --local-dir --no- >>options
check "options are read from help and table" test "$(wc -l <options)" -gt 350
grep -v '^tools/command/report/' said | awk -F '\t' -v q="'" '
    FILENAME == "options" { known[$1] = 1; next }
    {
        rest = $2
        while (match(rest, "(^|[ (" q "])--[a-z0-9][a-z0-9-]*")) {
            name = substr(rest, RSTART, RLENGTH)
            sub("^[ (" q "]", "", name)
            positive = name
            sub(/^--no-/, "--", positive)
            if (!(name in known) && !(positive in known))
                print $1 ": no option " name ": " $2
            rest = substr(rest, RSTART + RLENGTH)
        }
    }' options - >unknown
check "options exist: $(head -n 3 unknown)" test ! -s unknown

# ---- Identifiers ----

# Member and parameter names in the library's headers.
(cd "$root" && find src backends -name '*.h' | xargs sed 's/"[^"]*"//g; s,/\*.*\*/,,; s,/\*.*,,; s,^ \* .*,,; s,^   [a-z].*\*/,,') |
    grep -o '\b[a-z][a-z0-9]*\(_[a-z0-9][a-z0-9]*\)\{1,\}\b' | grep -v '^eitp_' | sort -u >members
awk -F '\t' -v q="'" '
    FILENAME == "modules" { modules[$0] = 1; next }
    FILENAME == "calls" { calls[$0] = 1; next }
    FILENAME == "files" { in_files[$0] = 1; next }
    FILENAME == "options" { options[$1] = 1; next }
    FILENAME == "members" { members[$1] = 1; next }
    {
        for (module in modules) if (index($1, module) == 1) next
        found = ""
        rest = $2
        gsub(/EITP_(LIB[A-Z]*|CUDA_[A-Z]*|BACKEND|ISA|LOG_DIR|CHECKPOINT|STEP|EVENT|MESSAGE|OUTPUT_DIR|ALARM|EXIT_REASON|WITHOUT_[A-Z_]*)/, "", rest)
        if (match(rest, /eitp_[a-z_]+|EITP_[A-Z_]+|NULL/) && substr(rest, RSTART, RLENGTH) != "eitp_results")
            found = substr(rest, RSTART, RLENGTH)
        gsub(q "[^" q " ]*" q, "", rest)
        gsub(/\\"[^" ]*\\"/, "", rest)
        gsub(/[A-Za-z0-9_.\/]*[.\/][A-Za-z0-9_.\/]*/, "", rest)
        while (!found && match(rest, /[a-z][a-z0-9]*(_[a-z0-9]+)+/)) {
            word = dashed = substr(rest, RSTART, RLENGTH)
            gsub(/_/, "-", dashed)
            if (!(word in in_files) && (("--" dashed) in options || word in members))
                found = word
            rest = substr(rest, RSTART + RLENGTH)
        }
        if (!found) next
        for (call in calls) if (index($2, call)) { used[call] = 1; next }
        print $1 ": " found ": " $2
    }
    END { for (call in calls) if (!(call in used)) print "no message has: " call }' modules calls files options members said >identifiers
check "no identifiers: $(head -n 3 identifiers)" test ! -s identifiers
[ -n "$EITP_TEST_KEEP" ] && cp identifiers "$EITP_TEST_KEEP"

# eitp doctor recognizes a full disk by these words in messages of the library.
for words in "ulimit -f" "has space for"; do
    check "doctor knows '$words'" grep -qF "\"$words\"" "$root/tools/command/doctor/case.c"
    check "a message has '$words'" grep -rqF "$words" "$root/src/run/save.c" "$root/src/base"
done

finish
