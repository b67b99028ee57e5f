# The tests of kernels, ops, plans and memory on the device. On a GPU every case runs, with a process for each test of the
# longest programs.
. "$parts/common.sh"

# Prints PROGRAM:TEST for each test of a program.
split_up() { # program
    grep -o 'TEST([a-z_0-9]*)' "$root/tests/kernels/$1.c" | sed "s/TEST(/$1:/; s/)//"
}

export EITP_TEST_CUDA=1 EITP_BACKEND="$device" EITP_TEST_TIMES=1
if [ -n "$emulated" ]; then
    export EITP_TEST_QUICK=1
    tests="test_kernels test_matmul test_factored test_update test_device_memory"
    for test in test_attention test_ops test_execute test_offload; do
        skip $test "it takes too long on the emulated device; make nightly runs it there"
    done
else
    tests="test_kernels test_factored test_update test_device_memory test_ops test_execute test_offload
        $(split_up test_attention) $(split_up test_matmul)"
fi

# Starts a program in the root of the tree, where it finds its files. On a GPU each has a cache for kernels that were not
# prepared, so that none waits for another one that compiles.
start() { # program, or program:test
    [ -n "$emulated" ] || export XDG_CACHE_HOME="$work/cache-$1"
    case $1 in *:*) only=${1#*:} ;; *) only= ;; esac
    (cd "$root" && exec "$files/bin/${1%%:*}" $only) >"$1.out" 2>&1
    echo $? >"$1.code"
}

for test in $tests; do
    start $test &
done
report_ended $tests
