#!/usr/bin/env bash
# instructions.sh PROGRAM: what an operation of each of the program's scenarios takes, (Ir(2N) - Ir(N)) / N, which leaves out the set-up.
# Ends with 1 where an operation takes more instructions than it may. The bounds hold for g++ and a Release build. Where a scenario is
# listed with another, which comes before it, the bound is on what it takes less what that one takes.
set -euo pipefail
program=${1:?is missing: give the path of kvbudget_instructions, for example build/bench/tests/benchmark/kvbudget_instructions}
n=16384 # a multiple of 64 leases x 16 tokens: growth comes to the end of a block once in 16 tokens exactly; and of 1,024 decisions

instructions() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-fd=1 "$program" "$@" | grep -oP 'Collected : \K[0-9]+' ||
    { echo "instructions.sh: nothing is counted for '$program $*'; run it by itself, and install valgrind where it is missing" >&2; return 1; }
}

scenarios=$("$program" --list)
declare -A of # what n operations of a scenario take
exceeded=0
printf '%-44s %12s %8s\n' scenario instructions 'at most'
row() { # NAME, WHAT N OPERATIONS TAKE, MOST OF ONE
  local verdict=
  if [[ $3 != - ]] && (($2 > $3 * n)); then
    verdict=' exceeded'
    exceeded=1
  fi
  printf '%-44s %10d.%d %8s%s\n' "$1" $(($2 / n)) $(($2 * 10 / n % 10)) "$3" "$verdict"
}
while read -r scenario most more_than; do
  once=$(instructions "$scenario" $n)
  twice=$(instructions "$scenario" $((2 * n)))
  of[$scenario]=$((twice - once))
  if [[ $more_than == - ]]; then
    row "$scenario" "${of[$scenario]}" "$most"
  else
    row "$scenario" "${of[$scenario]}" -
    row "$scenario less $more_than" $((of[$scenario] - of[$more_than])) "$most"
  fi
done <<<"$scenarios"
exit $exceeded
