# Sourced by infra/airflow and infra/cluster: starts processes that outlive the shell, each as the leader of its own session, and ends them with
# all they started. Knows no program. `run` is the folder of process ids and logs; `program` is what the arguments of each process hold; `python`
# runs the few lines that bash cannot say portably.

# start NAME COMMAND...: its output goes to $run/NAME.log, its process id to $run/NAME.pid.
start() {
    local name=$1
    shift
    "$python" -c 'import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])' "$@" >"$run/$name.log" 2>&1 </dev/null &
    echo $! >"$run/$name.pid"
}

# lives NAME: whether the process of that name runs (and is ours: ids are used again).
lives() {
    local pid arguments
    pid=$(cat "$run/$1.pid" 2>/dev/null) || return 1
    for _ in 1 2 3 4 5; do
        arguments=$(ps -o args= -p "$pid" 2>/dev/null) || return 1
        case $arguments in
            *"$program"*) return 0 ;;
            [[\(]*) sleep 0.1 ;; # while it becomes another program it has no arguments, and ps gives its name in brackets
            *) return 1 ;;
        esac
    done
    return 1
}

# family PID...: the ids of these processes, of all their descendants and of all members of their sessions, dead ones left out.
family() {
    ps -A -o pid= -o ppid= -o sess= -o stat= | awk -v leaders="$*" '
        BEGIN { count = split(leaders, list, " "); for (i = 1; i <= count; i++) leader[list[i]] = member[list[i]] = 1 }
        $4 !~ /^Z/ { parent[$1] = $2; if ($3 in leader) member[$1] = 1 }
        END {
            do {
                grown = 0
                for (pid in parent) if (!(pid in member) && (parent[pid] in member)) grown = member[pid] = 1
            } while (grown)
            for (pid in member) if (pid in parent) print pid
        }'
}

# living PID...: those of the ids whose process is not dead.
living() {
    local pid
    for pid in "$@"; do
        case $(ps -o stat= -p "$pid" 2>/dev/null) in
            "" | Z*) ;;
            *) echo "$pid" ;;
        esac
    done
}

# stop SECONDS NAME...: asks them and all that they started to end, waits, then kills. Fails when something is left.
stop() {
    local patience=$1 name pid leaders=() all=() left=()
    shift
    for name in "$@"; do
        pid=$(cat "$run/$name.pid" 2>/dev/null) || continue
        leaders+=("$pid")
    done
    [ "${#leaders[@]}" -gt 0 ] || return 0
    mapfile -t all < <(family "${leaders[@]}")
    [ "${#all[@]}" -eq 0 ] || kill -TERM "${all[@]}" 2>/dev/null || true
    for ((; patience > 0; patience--)); do
        mapfile -t left < <(living "${all[@]}")
        [ "${#left[@]}" -gt 0 ] || break
        sleep 1
    done
    mapfile -t all < <({ living "${all[@]}"; family "${leaders[@]}"; } | sort -u)
    [ "${#all[@]}" -eq 0 ] || kill -KILL "${all[@]}" 2>/dev/null || true
    for ((patience = 5; patience > 0; patience--)); do
        mapfile -t left < <({ living "${all[@]}"; family "${leaders[@]}"; } | sort -u)
        [ "${#left[@]}" -gt 0 ] || break
        sleep 1
    done
    if [ "${#left[@]}" -gt 0 ]; then
        ps -o pid,stat,args -p "$(IFS=,; echo "${left[*]}")" >&2
        return 1
    fi
    for name in "$@"; do rm -f "$run/$name.pid"; done
}
