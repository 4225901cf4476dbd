#!/usr/bin/env bash
# instructions.sh PROGRAM: what an operation of each of the program's scenarios takes, (Ir(2N) - Ir(N)) / N, which leaves out the set-up.
# Ends with 1 where an operation takes more instructions than it may. The bounds hold for g++ and a Release build.
set -euo pipefail
program=${1:?is missing: give the path of kvbudget_instructions, for example build/bench/tests/benchmark/kvbudget_instructions}
n=16384 # a multiple of 64 leases x 16 tokens: growth comes to the end of a block once in 16 tokens exactly

instructions() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-fd=1 "$program" "$@" | grep -oP 'Collected : \K[0-9]+' ||
    { echo "instructions.sh: nothing is counted for '$program $*'; run it by itself, and install valgrind where it is missing" >&2; return 1; }
}

scenarios=$("$program" --list)
exceeded=0
printf '%-28s %12s %8s\n' scenario instructions 'at most'
while read -r scenario most; do
  once=$(instructions "$scenario" $n)
  twice=$(instructions "$scenario" $((2 * n)))
  taken=$((twice - once))
  verdict=
  if [[ $most != - ]] && ((taken > most * n)); then
    verdict=' exceeded'
    exceeded=1
  fi
  printf '%-28s %10d.%d %8s%s\n' "$scenario" $((taken / n)) $((taken * 10 / n % 10)) "$most" "$verdict"
done <<<"$scenarios"
exit $exceeded
