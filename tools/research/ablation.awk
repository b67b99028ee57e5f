# Reads the results of tools/research/ablation.sh, one per line, and prints tables (form=table) or a report (form=json).
# Differences are between a run and the run without regularizers with the same seed. Intervals are 95 % Student's t.
BEGIN {
    while ((getline name <configurations) > 0) {
        sub(/ .*/, "", name)
        names[++name_count] = name
    }
    # 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom
    split("12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262", quantiles, " ")
    text_count = split("loss calibration_error corruption_loss_10 in_context_gain retrieval_loss_16 " \
        "retrieval_loss_32 retrieval_16 retrieval_32", text_numbers, " ")
    fine_count = split("loss accuracy calibration_error corrupted_loss corrupted_accuracy", fine_numbers, " ")
}

# Returns the number of a JSON member, optionally in the part that starts with `after`, or "" if it is missing.
function member(text, name, after,   at) {
    if (after != "" && !(at = index(text, "\"" after "\": {")))
        return ""
    text = substr(text, at + length(after))
    if (!match(text, "\"" name "\": -?[0-9][-+0-9.e]*"))
        return ""
    return substr(text, RSTART + length(name) + 4, RLENGTH - length(name) - 4) + 0
}

function text_member(text, name) {
    match(text, "\"" name "\": \"[^\"]*\"")
    return substr(text, RSTART + length(name) + 5, RLENGTH - length(name) - 6)
}

function keep(configuration, seed, name, value) {
    if (value != "")
        values[configuration, seed, name] = value
}

{
    configuration = text_member($0, "configuration")
    commit = text_member($0, "commit")
    seed = member($0, "seed", "")
    present[configuration] = 1
    if (!(seed in seed_known)) {
        seed_known[seed] = 1
        seeds[++seed_count] = seed
    }
    if (configuration ~ /^minilm:/) {
        for (i = 1; i <= 3; i++)
            keep(configuration, seed, fine_numbers[i], member($0, fine_numbers[i], "evaluation"))
        for (i = 1; i <= 2; i++)
            keep(configuration, seed, "corrupted_" fine_numbers[i],
                member($0, fine_numbers[i], "corrupted") - values[configuration, seed, fine_numbers[i]])
    } else {
        for (i = 1; i <= text_count; i++)
            keep(configuration, seed, text_numbers[i], member($0, text_numbers[i], "evaluation"))
    }
    lines[configuration, seed] = $0
}

# Returns the mean of a configuration's numbers, or of their differences from `base`. Sets `half` to half the interval,
# and `known` to the number of seeds.
function mean(configuration, base, name,   i, x, sum, squares) {
    known = sum = squares = 0
    for (i = 1; i <= seed_count; i++) {
        if (!((configuration, seeds[i], name) in values) || (base != "" && !((base, seeds[i], name) in values)))
            continue
        x = values[configuration, seeds[i], name]
        if (base != "")
            x -= values[base, seeds[i], name]
        sum += x
        list[++known] = x
    }
    if (!known)
        return ""
    sum /= known
    for (i = 1; i <= known; i++)
        squares += (list[i] - sum) ^ 2
    half = known > 1 ? quantiles[known - 1] * sqrt(squares / (known - 1) / known) : -1
    return sum
}

# Returns a cell: the mean of `base`, or the difference of others, in bold if its interval excludes 0.
function cell(configuration, base, name, digits,   found, text) {
    found = mean(configuration, configuration == base ? "" : base, name)
    if (found == "")
        return "-"
    if (configuration == base)
        return sprintf("%.*f", digits, found)
    text = sprintf("%+.*f", digits, found)
    if (half >= 0)
        text = sprintf("%s +- %.*f", text, digits, half)
    return half >= 0 && (found > half || found < -half) ? "**" text "**" : text
}

function print_table(fine, base, columns, headings, count, digits,   i, c, line) {
    if (!(base in present))
        return
    line = "| |"
    for (c = 1; c <= count; c++)
        line = line " " headings[c] " |"
    print line
    line = "|---|"
    for (c = 1; c <= count; c++)
        line = line "---|"
    print line
    for (i = 1; i <= name_count; i++) {
        if (!(names[i] in present) || (names[i] ~ /^minilm:/) != fine)
            continue
        line = names[i]
        sub(/^minilm:/, "", line)
        sub(/_x10$/, "`, ten times the weight", line) || sub(/$/, "`", line)
        mean(names[i], "", "loss")
        line = "| `" line (known < seed_count ? " (" known " of " seed_count " seeds)" : "") " |"
        for (c = 1; c <= count; c++)
            line = line " " cell(names[i], base, columns[c], digits) " |"
        print line
    }
    print ""
}

# Prints each regularizer's measure with and without training it. Without, self_repair is measured in the form kl only.
function print_own(   i, s, own, off, on, pairs, name, heading) {
    for (i = 1; i <= name_count; i++) {
        name = names[i]
        if (!(name in present) || name ~ /^(off$|eitp-|minilm:|self_repair_denoise)/)
            continue
        own = name
        sub(/_x10$/, "", own)
        sub(/_(kl|denoise)$/, "", own)
        off = on = pairs = 0
        for (s = 1; s <= seed_count; s++) {
            if (!((name, seeds[s]) in lines) || member(lines["off", seeds[s]], "metrics/" own, "terms") == "")
                continue
            pairs++
            off += member(lines["off", seeds[s]], "metrics/" own, "terms")
            on += own_value(lines[name, seeds[s]], own)
        }
        if (!pairs)
            continue
        if (!heading++)
            print "| | measure without it | with it |\n|---|---|---|"
        printf "| `%s` | %.4g | %.4g |\n", name, off / pairs, on / pairs
    }
    if (heading)
        print ""
}

# A loss that is also its measure is recorded only once.
function own_value(line, own,   found) {
    found = member(line, "metrics/" own, "terms")
    return found != "" ? found : member(line, "loss_" own, "terms")
}

# Returns the terms of a result, an object without nested objects.
function terms_of(line) {
    line = substr(line, index(line, "\"terms\": "))
    return substr(line, 1, index(line, "}"))
}

function print_run(configuration, seed,   line, fine, count, name, i) {
    line = lines[configuration, seed]
    fine = configuration ~ /^minilm:/
    count = fine ? fine_count : text_count
    printf "  {\"configuration\": \"%s\", \"seed\": %s, \"options\": \"%s\",\n   ", configuration, seed,
        text_member(line, "options")
    for (i = 1; i <= count; i++) {
        name = fine ? fine_numbers[i] : text_numbers[i]
        if ((configuration, seed, name) in values)
            printf "\"%s\": %.9g, ", name, values[configuration, seed, name]
    }
    printf "\n   %s}", terms_of(line)
}

function print_json(   i, s, first) {
    printf "{\n \"kind\": \"ablation\",\n \"date\": \"%s\",\n \"machine\": \"%s\",\n", date, processor
    printf " \"commit\": \"%s\",\n \"command\": \"make ablation\",\n \"runs\": [\n", commit
    for (i = 1; i <= name_count; i++) {
        for (s = 1; s <= seed_count; s++) {
            if (!((names[i], seeds[s]) in lines))
                continue
            printf "%s", first++ ? ",\n" : ""
            print_run(names[i], seeds[s])
        }
    }
    print "\n ]\n}"
}

END {
    if (form == "json") {
        print_json()
        exit
    }
    split("loss|calibration error|loss with 10 % corrupted tokens|in-context gain", headings, "|")
    print_table(0, "off", text_numbers, headings, 4, 4)
    split("retrieval_loss_16 retrieval_loss_32 retrieval_16 retrieval_32", columns, " ")
    split("retrieval loss, 16 tokens|32 tokens|retrieval, 16 tokens|32 tokens", headings, "|")
    print_table(0, "off", columns, headings, 4, 3)
    print_own()
    split("loss|accuracy|calibration error|loss with corrupted words|accuracy with corrupted words", headings, "|")
    print_table(1, "minilm:off", fine_numbers, headings, 5, 4)
}
