#!/bin/sh
# The command: which checkpoint a path refers to, even while a run removes them.
. tests/command/command.sh

# Learning makes the model worse on other text, so the first evaluation of the run is its best.
awk 'BEGIN { for (i = 0; i < 300; i++) printf "\303\251\303\252" }' >other.txt
exits 0 "keep the best" $train --steps 6 --save-steps 2 --save-total-limit 1 --eval-steps 2 --eval-windows 8 --lr 0.01 \
    --lr-schedule constant --val-data other.txt --keep-best loss --output-dir kept
best=checkpoint-$(sed -n 's/^"best": {"step": \([0-9]*\).*/\1/p' kept/best.json)
check "the best is not the last" test "$best" != checkpoint-6 -a -d "kept/$best"
check "links" test "$(readlink kept/best_model)" = "$best" -a "$(readlink kept/latest_model)" = checkpoint-6

# means PATH CHECKPOINT: eval --model PATH evaluates this checkpoint.
means() {
    exits 0 "$1" eval --model "$1" --data small.txt --threads 1 --precision "$precision" --json
    check "$1 means $2" grep -q "^{\"model\": \"[^\"]*$2\"," out
}
means kept "$best"
means kept/best "$best"
means kept/best_model "$best"
means kept/latest checkpoint-6
means kept/latest_model/ checkpoint-6
mv kept/best.json best.json
means kept "$best"
rm kept/best_model kept/latest_model
means kept/best_model "$best"
means kept/latest_model checkpoint-6
mkdir kept/latest
cp -r kept/checkpoint-6/* kept/latest
means kept/latest kept/latest
echo >"kept/$best/model.safetensors"
means kept checkpoint-6
check "a damaged one is skipped with a warning" grep -q "^warning: .*$best/model.safetensors" err
refuses 1 "'kept' has no best checkpoint" eval --model kept/best --data small.txt
exits 0 "without a best one" $train --steps 4 --save-steps 2 --save-total-limit 0 --output-dir plain -q
means plain checkpoint-4
refuses 1 "'plain' has no best checkpoint: its run did not keep one; the newest is 'plain/checkpoint-4'" generate \
    --model plain/best_model --prompt a
refuses 1 "no directory 'plain/worst'" generate --model plain/worst --prompt a
echo >plain/checkpoint-4/model.safetensors
means plain checkpoint-2
exits 0 "train --model" train --data text.txt --model plain --block-size 16 --steps 1 --threads 1 --output-dir from_plain -q
exits 0 "resume a name" train --resume plain/latest --output-dir from_latest --steps 3 --threads 1
check "resume a name: the newest complete one" grep -q "resuming from 'plain/checkpoint-2'" err

# ---- a checkpoint with a manifest that does not match ----

cp -r plain/checkpoint-2 other_weights
exits 0 "a model" eval --model other_weights --data small.txt --threads 1
check "a complete one: no message" test ! -s err -o -z "$(grep '^warning' err)"
printf '\001' | dd of=other_weights/model.safetensors bs=1 conv=notrunc seek=$(($(wc -c <other_weights/model.safetensors) - 4)) 2>/dev/null
for command in 'eval --data small.txt' 'generate --prompt a --tokens 1' 'embed --text a' \
    'train --data text.txt --block-size 16 --steps 1 --output-dir from_other'; do
    exits 0 "a changed file: $command" $command --model other_weights --threads 1
    check "a changed file is named: $command" test "$(grep -c "^warning: 'other_weights/model.safetensors' is damaged" err)" -eq 1
done
rm other_weights/manifest.json other_weights/trainer_state.json
exits 0 "a plain directory" eval --model other_weights --data small.txt --threads 1
check "a plain directory: no message" sh -c '! grep "^warning" err'

# ---- a checkpoint removed between its verification and the reading of its weights ----

cat >vanish.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Renames the directory VANISH when its file VANISH_FILE (by default the weights) is opened for the second time. */
static void look(const char *path) {
    static int opened;
    const char *directory = getenv("VANISH"), *file = getenv("VANISH_FILE");
    char away[1000];
    if (!directory || !strstr(path, directory) || !strstr(path, file ? file : "model.safetensors") || ++opened != 2)
        return;
    snprintf(away, sizeof away, "%s.away", directory);
    rename(directory, away);
}
#define OPEN(name)                                                         \
    int name(const char *path, int flags, ...) {                           \
        int (*real)(const char *, int, ...) =                              \
            (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);      \
        int mode;                                                          \
        va_list list;                                                      \
        va_start(list, flags);                                             \
        mode = flags & O_CREAT ? va_arg(list, int) : 0;                    \
        va_end(list);                                                      \
        look(path);                                                        \
        return real(path, flags, mode);                                    \
    }
OPEN(open)
OPEN(open64)
END
# vanishing DIRECTORY COMMAND...: in "plain", a copy of the directory whose checkpoint-4 vanishes while it is read.
vanishing() {
    rm -rf plain
    cp -r "$1" plain
    shift
    VANISH=plain/checkpoint-4 LD_PRELOAD=$work/vanish.so "$eitp" "$@" >out 2>err </dev/null
}
if ${CC:-cc} -shared -fPIC vanish.c -o vanish.so -ldl 2>/dev/null; then
    exits 0 "two checkpoints" $train --steps 4 --save-steps 2 --save-total-limit 0 --output-dir whole -q
    exits 0 "adapters" train --data text.txt --model whole --block-size 16 --threads 1 --precision "$precision" \
        --lora-rank 2 --steps 4 --save-steps 2 --save-total-limit 0 --output-dir adapters -q
    # Without their trainer_state.json they match the weights of both checkpoints.
    mkdir portable
    cp adapters/checkpoint-4/adapter_config.json adapters/checkpoint-4/adapter_model.safetensors portable
    # reads_another DIRECTORY COMMAND...: uses a copy of the directory, whose name is appended to the command.
    reads_another() {
        rm -rf merged trained
        check "$*: another one is read" vanishing "$@" plain
        check "$*: it was removed" test ! -e plain/checkpoint-4 -a -d plain/checkpoint-4.away
    }
    # names_removed DIRECTORY COMMAND...: the same for the checkpoint itself, which is read twice.
    names_removed() {
        rm -rf merged trained
        vanishing "$@" plain/checkpoint-4
        check "$*: a removed one is named" test $? -eq 1
        check "$*: names a remedy" grep -q "^error: 'plain/checkpoint-4' was removed while it was being read: .*best_model" err
    }
    for test in reads_another names_removed; do
        $test whole generate --threads 1 --prompt a --tokens 1 --model
        $test whole eval --threads 1 --data small.txt --model
        $test whole embed --threads 1 --text a --model
        $test whole merge --output-dir merged --adapter portable --model
        $test whole train --output-dir trained --data text.txt --block-size 16 --threads 1 --steps 1 --model
        $test whole train --output-dir trained --data text.txt --block-size 16 --threads 1 --steps 1 --lora-rank 2 --model
        VANISH_FILE=config.json
        export VANISH_FILE
        $test whole train --output-dir trained --data text.txt --block-size 16 --threads 1 --steps 1 --model
        $test whole plan --model
        VANISH_FILE=tokenizer.json
        $test whole train --output-dir trained --data text.txt --block-size 16 --threads 1 --steps 1 --model
        unset VANISH_FILE
    done
    export VANISH_FILE=tokenizer.json
    reads_another whole tokenizer encode --text a --tokenizer
    VANISH_FILE=trainer_state.json
    check "set: another one is changed" vanishing whole set plain lr=1e-4
    check "set: it was removed" test ! -e plain/checkpoint-4 -a -d plain/checkpoint-4.away
    unset VANISH_FILE
    check "train: nothing is left of a failure" test ! -e trained
    check "merge: nothing is left of a failure" test ! -e merged
    reads_another adapters merge --output-dir merged --adapter
    # Only the shape is read: there are no weights to miss.
    reads_another whole bench step --threads 1 --block-size 16 --grad-accum 1 --steps 1 --model
else
    echo "SKIPPED checkpoints that are removed while they are read: no shared library can be built"
fi

# ---- while a run trains ----

check "a run in progress" start_until 'saved ' $train --steps 100000000 --save-steps 1 --save-total-limit 1 \
    --output-dir busy
for i in 1 2 3 4 5 6 7 8 9 10; do
    exits 0 "generate $i" generate --model busy --prompt a --tokens 1 --threads 1 -q
    exits 0 "eval $i" eval --model busy/latest --data small.txt --threads 1 -q
    exits 0 "embed $i" embed --model busy/latest --text a --threads 1 -q
done
refuses 1 "was removed while it was being read\|no directory\|does not exist\|no such file" generate --model busy/checkpoint-1 --prompt a
kill -TERM $process
wait_for_end
check "the run continues" test $? -eq 143

finish
