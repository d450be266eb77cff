#!/bin/sh
# Measure the resident memory of the whole lab during a scenario, without Grafana and the stress (whose memory is its job).
# Usage: bench/memory.sh [SCENARIO]. Exit code 1 above LIMIT_MIB (default 250).
# Beside another lab: set COMPOSE_PROJECT_NAME and the LAB_..._PORT. To fill results/, in a clone of its own:
# bench/stored_runs.py --runs 46 --into results.
set -eu
cd "$(dirname "$0")/.."
scenario=${1:-scenario1}
limit_mib=${LIMIT_MIB:-250}
project=${COMPOSE_PROJECT_NAME:-looplab}
work=$(mktemp -d)
lab_pid=
finish() {
    if [ -n "$lab_pid" ]; then kill -INT "$lab_pid" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# One line for each service: RSS and PSS in KiB over all its processes. RSS counts a library that four of the lab's
# processes share four times, PSS once (only root may read it): the limit is for RSS, the larger. The exporter serves
# what results/ holds, and Prometheus keeps that in memory: the number of stored runs is shown.
look() {
    docker ps --filter "label=com.docker.compose.project=$project" \
        --format '{{.ID}} {{.Label "com.docker.compose.service"}}' |
        while read -r container service; do
            case $service in *-stress | grafana) continue ;; esac
            rss=0 pss=0
            for pid in $(docker top "$container" -eo pid 2>/dev/null | tail -n +2); do
                rss=$((rss + $(awk '/^VmRSS:/ {print $2}' "/proc/$pid/status" 2>/dev/null || echo 0) + 0))
                pss=$((pss + $(awk '/^Pss:/ {print $2}' "/proc/$pid/smaps_rollup" 2>/dev/null || echo 0) + 0))
            done
            echo "$service $rss $pss"
        done
}

./lab run "$scenario" --intervals 20 --messages 500 --repetitions 2 --allow-invalid >"$work/table" 2>"$work/said" &
lab_pid=$!
until grep -q ' QoS .* left' "$work/said"; do
    kill -0 "$lab_pid" 2>/dev/null || { cat "$work/said" >&2; exit 3; }
    sleep 0.5
done
# The second repetition: everything is started, the stores are filled.
for _ in 1 2 3 4 5; do
    look >"$work/look"
    sum=$(awk '{rss += $2} END {print rss + 0}' "$work/look")
    if [ "$sum" -gt "$(cat "$work/most" 2>/dev/null || echo 0)" ]; then
        echo "$sum" >"$work/most"
        cp "$work/look" "$work/largest"
    fi
    sleep 1
done
wait "$lab_pid" || { cat "$work/said" >&2; exit 3; }
lab_pid=
echo "$scenario; $(find results -mindepth 2 -maxdepth 2 -name run.json | wc -l) stored runs"
awk -v limit="$limit_mib" '
    {rss += $2; pss += $3; printf "%-16s %7.1f MiB resident %7.1f MiB proportional\n", $1, $2 / 1024, $3 / 1024}
    END {
        printf "%-16s %7.1f MiB resident %7.1f MiB proportional; limit %d MiB\n", "all", rss / 1024, pss / 1024, limit
        exit rss / 1024 > limit
    }' "$work/largest"
